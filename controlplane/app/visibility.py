"""Kueue's visibility API, on what this process has folded: every replica may answer, whether it leads or follows.

In: the service, the way to the management cluster. Out: answers about pending Workloads, who may have them (by
SubjectAccessReviews), and the front proxy as its ConfigMap has it. Nothing is answered while the log is not read to its
end, or while the leader does not see all that quota rests on."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import orjson
import structlog

from controlplane.clusters.protocol import ApiError, ClusterError, ClusterPort
from controlplane.clusters.reopened import reopened
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.quota.admission import pending_workloads
from controlplane.controllers.quota.admission.index import AdmissionIndex
from controlplane.controllers.quota.admission.pending_workloads import PendingWorkload
from controlplane.kube import api_requests, front_proxy, visibility
from controlplane.kube.access import SUBJECT_ACCESS_REVIEWS, is_allowed
from controlplane.kube.api_requests import RequestAttributes
from controlplane.kube.front_proxy import MASTERS, UserInfo
from controlplane.kube.kinds import Json, Kind
from controlplane.kube.visibility_openapi import openapi_documents
from controlplane.settings.quota import VisibilitySettings
from controlplane.tasks import end
from controlplane.web.aggregated import NO_METHOD, NO_RESOURCE, AggregatedApi, AggregatedServer, Unavailable
from controlplane.web.client_authority import ClientAuthority
from controlplane.web.webhook import Certificate, CertificateError

if TYPE_CHECKING:
    from controlplane.app.service import Service

_log = structlog.get_logger(__name__)

SECTION = "quota.visibility"
READ_AGAIN = 10.0  # seconds between two looks at the front proxy's ConfigMap
_RETRY = 1.0  # seconds until the next look while none has succeeded
_PATIENCE = 10.0  # seconds for an answer of the management cluster
_KEPT = 10.0  # seconds for which the answer about somebody's right holds, as Kueue's server keeps it
_MOST_KEPT = 10_000
_AT_ONCE = 16  # questions to the management cluster
_CONFIG_MAPS = Kind("", "v1", "ConfigMap", "configmaps")


class PendingWorkloadsApi:
    """Answers requests for pending Workloads."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._one_at_a_time = asyncio.Semaphore(1)

    def missing(self) -> str:
        """Return why there are no answers now, "" if there are."""
        controller = self._service.admission
        if controller is None or not self._service.current:
            return "this replica has not read the log to its end"
        return controller.index.unseen

    async def __call__(self, asked: RequestAttributes, query: Mapping[str, str]) -> tuple[int, Json | bytes]:
        """Return code and body of an answer; `Unavailable` where there is none now."""
        if not visibility.names_pending_workloads(asked):
            return 404, NO_RESOURCE
        if asked.verb != "get":
            return 405, NO_METHOD
        try:
            offset, limit = visibility.limits(query)
        except ValueError as error:
            return 400, api_requests.status(400, "BadRequest", str(error))
        find = self._finds(asked)
        if find is None:
            return 404, api_requests.not_found(visibility.GROUP, visibility.SINGULAR[asked.resource], asked.name)
        # A hundred thousand take seconds of a processor: one answer at a time, beside the loop that decides.
        async with self._one_at_a_time:
            return 200, await asyncio.to_thread(_summary, asked.version, find, offset, limit)

    def _finds(self, asked: RequestAttributes) -> Callable[[int, int], list[PendingWorkload]] | None:
        index = self._index()
        if asked.resource == visibility.CLUSTER_QUEUES:
            line = pending_workloads.of_cluster_queue(index, asked.name)
            return line.of_cluster_queue if line is not None else None
        key = f"{asked.namespace}/{asked.name}"
        its = pending_workloads.of_local_queue(index, key)
        return (lambda offset, limit: its.of_local_queue(key, offset, limit)) if its is not None else None

    def _index(self) -> AdmissionIndex:
        if missing := self.missing():
            raise Unavailable(f"{missing}; ask again", again=1)
        assert self._service.admission is not None, "there is one where nothing is missing"
        return self._service.admission.index


def _summary(version: str, find: Callable[[int, int], list[PendingWorkload]], offset: int, limit: int) -> bytes:
    """Return the answer with what is found. It is encoded item by item: other threads run in between."""
    head = orjson.dumps(visibility.summary(version))
    return head[:-2] + b",".join(orjson.dumps(_item(one)) for one in find(offset, limit)) + head[-2:]


def _item(one: PendingWorkload) -> Json:
    seen = one.observed
    metadata: Json = {"name": seen.name, "namespace": seen.namespace, "creationTimestamp": seen.created or None}
    if seen.owners:
        metadata["ownerReferences"] = [
            {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
            for owner in seen.owners
        ]
    return {
        "metadata": metadata,
        "priority": seen.priority,
        "localQueueName": seen.queue,
        "positionInClusterQueue": one.in_cluster_queue,
        "positionInLocalQueue": one.in_local_queue,
    }


class AccessReviews:
    """Asks the management cluster who may do what. Answers hold for some seconds."""

    def __init__(self, cluster: ClusterPort, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster, self._clock = cluster, clock
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._answers: dict[tuple[UserInfo, RequestAttributes], tuple[float, bool]] = {}

    async def __call__(self, user: UserInfo, asked: RequestAttributes) -> bool:
        """Whether a user may do something; `Unavailable` if the management cluster does not say it."""
        if MASTERS in user.groups:  # who may do everything: no authorizer is asked about them anywhere
            return True
        key, now = (user, asked), self._clock()
        until, allowed = self._answers.get(key, (now, False))
        if until > now:
            return allowed
        allowed = await self._ask(user, asked)
        while len(self._answers) >= _MOST_KEPT:
            self._answers.pop(next(iter(self._answers)))
        self._answers.pop(key, None)
        self._answers[key] = (now + _KEPT, allowed)
        return allowed

    async def _ask(self, user: UserInfo, asked: RequestAttributes) -> bool:
        try:
            async with asyncio.timeout(_PATIENCE), self._slots:
                review = front_proxy.access_review(user, asked.review)
                return is_allowed(await self._cluster.create(SUBJECT_ACCESS_REVIEWS, "", review))
        except ApiError as error:
            _log.warning("a SubjectAccessReview was refused", status=error.status, error=error.message)
        except (ClusterError, TimeoutError, ValueError) as error:
            _log.warning("a SubjectAccessReview was not answered", error=str(error) or type(error).__name__)
        raise Unavailable("the management cluster does not say whether you may see that; ask again")


class FrontProxyReader:
    """Reads the front proxy's ConfigMap again and again; `trust` hears what it says. What cannot be read or used leaves
    what it said before in force."""

    def __init__(self, cluster: ClusterPort, trust: Callable[[front_proxy.FrontProxy], None]) -> None:
        self._cluster, self._trust = cluster, trust
        self._said, self._known = "", False

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            await self.read()
            await asyncio.sleep(READ_AGAIN if self._known else min(_RETRY, READ_AGAIN))

    async def read(self) -> None:
        """Read once."""
        try:
            async with asyncio.timeout(_PATIENCE):
                found = await self._cluster.get(_CONFIG_MAPS, front_proxy.NAMESPACE, front_proxy.NAME)
            self._trust(front_proxy.front_proxy(found))
            self._known, self._said = True, ""
        except (ClusterError, TimeoutError, ValueError, ssl.SSLError, CertificateError) as error:
            said = str(error) or type(error).__name__
            if said != self._said:
                place = f"{front_proxy.NAMESPACE}/{front_proxy.NAME}"
                _log.warning("the front proxy's ConfigMap cannot be used", config_map=place, error=said)
            self._said = said


@asynccontextmanager
async def serving(
    chosen: VisibilitySettings,
    certificate: Certificate,
    service: Service,
    open_server: Callable[[], Awaitable[ApiServer]],
) -> AsyncIterator[AggregatedServer]:
    """Serve the API while the block runs. Raises `ListenError`."""
    api = PendingWorkloadsApi(service)
    documents = visibility.documents() | openapi_documents()
    served = AggregatedApi(documents, visibility.aggregated_discovery(), api, api.missing)
    cluster = await reopened(open_server)
    try:
        server = AggregatedServer(served, ClientAuthority(certificate), AccessReviews(cluster))
        await server.listen(chosen.address, chosen.port, SECTION)
        reading = asyncio.create_task(FrontProxyReader(cluster, server.trust).run(), name="front proxy")
        try:
            yield server
        finally:
            await end(reading)
            await server.stop()
    finally:
        await cluster.close()
