"""Keeps one worker cluster connected, from its kubeconfig to its loss and back.

In: where the kubeconfig is, and a nudge when it may have changed. Out: facts about the connection, deltas of every
watched kind, and an executor while there is one to use. Kueue's own controller rebuilds everything whenever one watch
ends or one kind is missing; here a connection is lost only when the API server does not answer or does not accept us,
and the reflectors keep their places over it.

    read kubeconfig ──bad──▶ ConnectFailed, wait for another
      │ good
      ▼
    probe ──no, or not the cluster that is meant──▶ ConnectFailed, back off, probe again
      │ Reached         used under another name ──▶ Standby, probe again at each heartbeat
      ▼
    reflectors + heartbeat ──all settled──▶ Connected
      └── two heartbeats missed, 401 ──▶ Lost, back to probe        another kubeconfig: Disconnected, back to the top
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Literal

from controlplane.clusters.backoff import Backoff, jittered
from controlplane.clusters.budget import RequestBudget
from controlplane.clusters.cluster_profile import client_config
from controlplane.clusters.concurrency import first_to_end, until_failure
from controlplane.clusters.connection_config import ConnectionConfig
from controlplane.clusters.connection_reports import (
    Connected,
    ConnectFailed,
    Disconnected,
    Fact,
    FailureReason,
    Lost,
    Reached,
    Recovered,
    Standby,
    Suspected,
)
from controlplane.clusters.connection_watches import ConnectionWatches
from controlplane.clusters.dynamic_reader import Dynamic
from controlplane.clusters.incarnation import incarnation_of, short_text
from controlplane.clusters.kubeconfig import BAD, ClientConfig, KubeconfigError, parse_kubeconfig, unforeseen_counts
from controlplane.clusters.protocol import ApiError, ClusterError, Sink, Unreachable
from controlplane.clusters.reflector import Rejected
from controlplane.clusters.sources import PathSource, ProfileSource, Source, load
from controlplane.clusters.streams import ApiServer
from controlplane.clusters.verbs import Executor
from controlplane.kube.expiry import credentials_expiry
from controlplane.kube.watches import WatchSpec


class _ConnectionFailure(Exception):  # noqa: N818 - caught in this module
    """The connection cannot be made or kept."""

    def __init__(
        self,
        reason: Literal["Unreachable", "Unauthorized"],
        message: str,
        failure: FailureReason = "ClientConnectionFailed",
    ) -> None:
        super().__init__(message)
        self.reason, self.message, self.failure = reason, message, failure


class _HeldElsewhere(Exception):  # noqa: N818 - caught in this module
    """The cluster that answers is used under another name."""

    def __init__(self, behind: str, incarnation: str) -> None:
        super().__init__(behind)
        self.fact = Standby(behind, incarnation)


class ClusterConnection:
    """One cluster's connection. `run` it in a task; cancelling the task closes everything."""

    def __init__(self, name: str, source: Source, around: ConnectionConfig) -> None:
        self.name, self.source = name, source
        self.executor: Executor | None = None
        self.looks: Dynamic | None = None
        self._server: ApiServer | None = None
        self._around, self._clock = around, around.clock
        self._budget = RequestBudget(around.limits, clock=around.clock, random=around.random)
        self._nudge, self._unauthorized = asyncio.Event(), asyncio.Event()
        self._announced = asyncio.Event()
        self.answered_at = float("-inf")  # by the monotonic clock
        self._standby: Standby | None = None
        self._reopened = 0  # watches, when the cluster's identity was last seen
        self._watches = ConnectionWatches(name, around, self._budget, self._identify)

    @property
    def server(self) -> ApiServer | None:
        """The API server while it is connected to, else None."""
        return self._server if self.executor is not None else None

    def nudge(self) -> None:
        """Look at the kubeconfig again: it, or its place, may have changed."""
        self._nudge.set()

    def want(self, wanted: Mapping[WatchSpec, Sink]) -> None:
        """Follow these besides what every cluster is watched for, each into its own sink; what is no longer wanted is
        let go.

        Nobody waits for them: their sinks learn whether they are in view.
        """
        self._watches.want(wanted)

    async def _say(self, fact: Fact) -> None:
        """Report a fact; one that is still so is said once."""
        self._standby = fact if isinstance(fact, Standby) else None
        await self._around.facts(self.name, fact)

    async def run(self) -> None:
        """Keep the cluster connected until cancelled. Raises only what the sink or the facts' receiver raise."""
        try:
            while True:
                self._nudge.clear()
                fingerprint, found = await self._read(patient=False)
                if isinstance(found, KubeconfigError):
                    await self._say(ConnectFailed(found.reason, found.message, 0, None))
                    await self._until_changed(fingerprint)
                    continue
                self._around.on_expiry(self.name, credentials_expiry(found.token, found.client_certificate_data))
                await first_to_end(self._until_changed(fingerprint), self._keep_connected(found))
                if self.executor is not None:
                    self.executor = self.looks = None
                    await self._say(Disconnected("kubeconfig changed"))
        finally:
            self.executor = self.looks = None

    async def _read(self, *, patient: bool) -> tuple[str, ClientConfig | KubeconfigError]:
        """Return a fingerprint of what the source holds now, and what it comes to.

        While the management cluster does not hand the Secret out it is asked again; unless `patient`, that is reported.
        """
        backoff = self._backoff()
        while True:
            try:
                data = await self._load()
            except KubeconfigError as error:
                return error.message, error
            except ClusterError as error:
                wait = backoff.next()
                if not patient:
                    await self._report_failure(BAD, f"load client config failed: {error}", backoff.attempts, wait)
                await self._clock.sleep(wait)
                continue
            fingerprint = _digest(data)
            try:
                return fingerprint, self._parsed(data)
            except KubeconfigError as error:
                return fingerprint, error

    async def _load(self) -> bytes:
        """Return what the source holds now."""
        around = self._around
        if isinstance(self.source, ProfileSource):
            return await around.read_profile(self.source.name)
        return await load(self.source, around.path_prefix, around.read_secret)

    def _parsed(self, data: bytes) -> ClientConfig:
        if isinstance(self.source, ProfileSource):
            return client_config(self.source.name, data, self._around.access_providers)
        return parse_kubeconfig(data)

    async def _until_changed(self, fingerprint: str) -> None:
        """Return once the source holds something else.

        A file is looked at by content: a mounted Secret changes by a link that is swapped, and its times mislead.
        """
        while True:
            if isinstance(self.source, PathSource):
                poll = jittered(self._around.timing.file_poll, self._around.random)
                await first_to_end(self._nudge.wait(), self._clock.sleep(poll))
            else:
                await self._nudge.wait()
            self._nudge.clear()
            if await self._fingerprint() != fingerprint:
                return

    async def _fingerprint(self) -> str:
        """Return the fingerprint of what the source holds now; a file is not looked into for that."""
        if not isinstance(self.source, PathSource):
            return (await self._read(patient=True))[0]
        try:
            return _digest(await self._load())
        except KubeconfigError as error:
            return error.message

    async def _keep_connected(self, config: ClientConfig) -> None:
        """Connect, and connect again after each loss, until cancelled."""
        backoff = self._backoff()
        while True:
            try:
                server = await self._open(config)
            except KubeconfigError as error:  # certificates that cannot be used: only another kubeconfig helps
                await self._say(ConnectFailed(error.reason, error.message, 0, None))
                await self._until_worth_trying()
                continue
            wait, standby = 0.0, False
            try:
                await self._live(server, config)
            except _HeldElsewhere as held:
                self.executor = self.looks = None
                if held.fact != self._standby:
                    await self._say(held.fact)
                backoff.reset()
                wait, standby = jittered(self._around.timing.heartbeat, self._around.random), True
            except _ConnectionFailure as failure:
                if self.executor is not None:
                    self.executor = self.looks = None
                    backoff.reset()
                    await self._say(Lost(failure.reason, failure.message))
                    wait = backoff.next()
                    backoff.reset()  # the first attempt after a loss is quick, and the first that counts
                else:
                    wait = backoff.next()
                    await self._report_failure(failure.failure, failure.message, backoff.attempts, wait)
            finally:
                await server.close()
            await (self._clock.sleep(wait) if standby else self._pause(config, wait))

    async def _pause(self, config: ClientConfig, wait: float) -> None:
        """Wait before the next attempt, but not while the cluster answers: what is owed to it should not wait for our
        patience.

        Attempts are recorded and shown on the MultiKueueCluster; these looks are not, since a week's outage has a
        hundred thousand."""
        until = self._clock.monotonic() + wait
        while (left := until - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(left, jittered(self._around.timing.away_probe, self._around.random)))
            if until - self._clock.monotonic() > 0 and await self._answers(config):
                return

    async def _answers(self, config: ClientConfig) -> bool:
        """Whether the cluster would let us in."""
        try:
            server = await self._open(config)
        except KubeconfigError:
            return False
        try:
            await self._probe(server)
        except _ConnectionFailure:
            return False
        except _HeldElsewhere:
            return True
        finally:
            await server.close()
        return True

    async def _until_worth_trying(self) -> None:
        """Wait after credentials that cannot be used: `run` cancels this when there is another kubeconfig."""
        await asyncio.Event().wait()

    async def _open(self, config: ClientConfig) -> ApiServer:
        with unforeseen_counts(BAD):
            return self._around.open_server(self.name, config)

    async def _live(self, server: ApiServer, config: ClientConfig) -> None:
        """Probe, follow every kind, and announce that; ends only by `_ConnectionFailure` or what the sink raises."""
        self._unauthorized.clear()
        self._announced.clear()
        reached = await self._probe(server)
        self.answered_at = self._clock.monotonic()
        await self._say(reached)
        self._watches.place(reached.incarnation, config.server)
        try:
            await until_failure(
                *self._watches.follow(server),
                self._heartbeat(server),
                self._credentials_refused(),
                self._announce(server, reached),
                self._follow_wanted(server),
            )
        except Rejected as error:
            raise _ConnectionFailure("Unauthorized", str(error)) from None

    async def _follow_wanted(self, server: ApiServer) -> None:
        """Follow what is wanted besides, after the announcement: the announcement lists what is in view from then
        on."""
        await self._announced.wait()
        await self._watches.follow_wanted(server)

    async def _probe(self, server: ApiServer) -> Reached:
        """Ask for a heartbeat and for the cluster's identity, and whether that is the cluster that is meant."""
        try:
            version = await server.version(self._around.timing.heartbeat_timeout)
            incarnation = await incarnation_of(server)
        except Unreachable as error:
            raise _ConnectionFailure("Unreachable", str(error)) from None
        except ApiError as error:
            raise _ConnectionFailure(
                "Unauthorized" if error.status == 401 else "Unreachable", f"{self.name}: {error}"
            ) from None
        if behind := self._around.held_by(self.name, incarnation):
            raise _HeldElsewhere(behind, incarnation)
        if (objection := self._around.objection(self.name, incarnation)) is not None:
            failure, message = objection
            raise _ConnectionFailure("Unreachable", message, failure)
        return Reached(incarnation, short_text(version.get("gitVersion")))

    async def _identify(self, server: ApiServer, timeout: float | None = None) -> None:
        """Raise if the cluster behind the same address is another one by now: it was built anew."""
        incarnation, followed = await incarnation_of(server, timeout), self._watches.incarnation
        if incarnation and followed and incarnation != followed:
            raise _ConnectionFailure(
                "Unreachable", f"{self.name}: another cluster answers at this address ({incarnation}, not {followed})"
            )

    async def _announce(self, server: ApiServer, reached: Reached) -> None:
        """Open the cluster for writing and report that, once every kind is listed or known not to be had."""
        off = await self._watches.settled()
        self._server = server
        self.executor = Executor(server, self._budget, self._counted, self._around.allowed, self._watches.absent)
        self.looks = Dynamic(server, self._budget, self._counted)
        await self._say(Connected(reached.incarnation, reached.server_version, off))
        self._announced.set()

    async def _heartbeat(self, server: ApiServer) -> None:
        """Ask for a heartbeat now and then; silence for a whole grace is a loss. This is what finds half-open
        connections.
        """
        timing, since = self._around.timing, None
        while True:
            pause = timing.heartbeat if since is None else timing.suspect_heartbeat
            await self._clock.sleep(jittered(pause, self._around.random))
            if behind := self._around.yields(self.name):
                raise _HeldElsewhere(behind, self._watches.incarnation)
            silence = await self._silence(server)
            if silence is None:
                if since is not None:
                    since = None
                    await self._suspect(None)
            elif since is None:
                since = self._clock.monotonic()
                await self._suspect(silence)
            elif self._clock.monotonic() - since >= timing.suspect_grace:
                raise _ConnectionFailure("Unreachable", silence)

    async def _silence(self, server: ApiServer) -> str | None:
        """Ask for a heartbeat; return why there is none. Once a watch was opened anew it is the cluster's identity: a
        name may lead to another server between two watches, and nothing breaks.
        """
        timeout, reopened = self._around.timing.heartbeat_timeout, self._watches.reopened
        try:
            await (self._identify(server, timeout) if reopened != self._reopened else server.version(timeout))
            self._reopened, self.answered_at = reopened, self._clock.monotonic()
        except ClusterError as error:
            if isinstance(error, ApiError) and error.status == 401:
                raise _ConnectionFailure("Unauthorized", f"{self.name}: {error}") from None
            # A gateway without a server behind it answers too: 502, 503, 504.
            return str(error) if not isinstance(error, ApiError) or error.status >= 500 else None
        return None

    async def _suspect(self, silence: str | None) -> None:
        """Report a doubt about a connection that was announced, or its end."""
        if self.executor is not None:
            await self._say(Recovered() if silence is None else Suspected(silence))

    async def _credentials_refused(self) -> None:
        """Raise once a request of the executor was answered 401."""
        await self._unauthorized.wait()
        raise _ConnectionFailure("Unauthorized", f"{self.name}: a request was answered 401 Unauthorized")

    def _counted(self, cluster: str, verb: str, resource: str, code: str, seconds: float) -> None:
        if code == "401":
            self._unauthorized.set()
        self._around.on_request(cluster, verb, resource, code, seconds)

    def _backoff(self) -> Backoff:
        timing = self._around.timing
        return Backoff(
            timing.backoff_base, timing.backoff_cap, random=self._around.random, floor=0.1 * timing.backoff_base
        )

    async def _report_failure(self, reason: FailureReason, message: str, attempt: int, wait: float) -> None:
        at = self._clock.now() + timedelta(seconds=wait)
        await self._say(ConnectFailed(reason, message, attempt, at))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
