"""Between a client and one cluster's API server: what travels, how long it takes, and what is lost on the way.

In: requests (each a function that touches the store) and streams that ask whether they may carry. Out: answers,
`Unreachable` where none comes, and for each fault of the plan what it does. A request is carried out by the cluster,
not by whoever asked: a process that dies after sending has sent. Order within one watch is kept, as TCP keeps it;
between watches and clusters nothing is promised."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from controlplane.clusters.protocol import ApiError, Unreachable
from controlplane.dst.engine.loop import VirtualLoop

_WRITES = frozenset({"create", "patch", "delete"})
_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
}


def replica_of(process: str) -> str:
    """Return the replica that a process is one start of."""
    return process.partition("#")[0]


class NetworkRequest(NamedTuple):
    """A request in words: verb, `plural.group` (empty for /version), the object's name."""

    verb: str
    resource: str
    name: str = ""


class Storm(NamedTuple):
    """Answers that say no: which status, to which share of the requests; `after`: once the request was carried out.
    `resource`, `verb`: only to requests of these; "" is all of them."""

    status: int
    share: float
    after: bool = False
    resource: str = ""
    verb: str = ""


class Network:
    """The way to one cluster. The attributes are its faults; a plan sets and resets them.

    `refused`: connections are refused, open ones cut. `silent`: nothing arrives, nothing comes back, nobody is told.
    `mute`: requests arrive and are carried out, answers are lost. `delay` seconds are added each way to a share `slow`
    of what travels. `echo`: that share of the lines of a watch comes twice. `lost_replies`: that share of the writes
    gets no answer. `barred`: replicas that get nothing through, while the others do.

    `hasty`: clients give up when their patience ends, while what they asked for is still on its way; without it they
    hear of that only when the answer comes, too late, as the pinned seeds of the first scene have it."""

    def __init__(self, cluster: str, loop: VirtualLoop, seed: str, *, hasty: bool = False) -> None:
        self.cluster, self.loop, self._hasty = cluster, loop, hasty
        self._queued: list[Callable[[], None]] = []
        self._queues = 0
        self.random = random.Random(f"network {cluster} {seed}")  # noqa: S311 - reproducible on purpose
        self.refused = self.silent = self.mute = False
        self.delay = self.slow = self.echo = self.lost_replies = 0.0
        self.storms: list[Storm] = []
        self.barred: set[str] = set()
        self.token = "0"  # noqa: S105 - of a cluster that does not exist
        self._cutters: dict[int, Callable[[str], None]] = {}
        self._serial = 0

    def heal(self) -> None:
        """End every fault; requests that the server has put into a queue stay there until it lets them in."""
        self.refused = self.silent = self.mute = False
        self.delay = self.slow = self.echo = self.lost_replies = 0.0
        self.storms.clear()
        self.barred.clear()

    def bars(self, process: str) -> bool:
        """Whether a process gets nothing through."""
        return bool(self.barred) and replica_of(process) in self.barred

    @property
    def carries(self) -> bool:
        """Whether what a watch has to say gets through now."""
        return not (self.silent or self.mute or self.refused)

    def latency(self) -> float:
        """Return how long something travels one way."""
        seconds = 0.0005 + 0.004 * self.random.random()
        if self.slow and self.random.random() < self.slow:
            seconds += self.delay * self.random.random()
        return seconds

    def on_cut(self, cutter: Callable[[str], None]) -> Callable[[], None]:
        """Call `cutter(why)` when connections are cut, with "" when the server ends its watches; return how to stop
        that.
        """
        self._serial += 1
        serial = self._serial
        self._cutters[serial] = cutter
        return lambda: self._cutters.pop(serial, None) and None

    def cut(self, why: str) -> None:
        """Reset what is open."""
        for cutter in list(self._cutters.values()):
            cutter(why)

    def end_watches(self) -> None:
        """Let the server end its watches in the ordinary way."""
        self.cut("")

    def queue_watches(self) -> None:
        """Let the server put new watches into a queue, as one with much to do does, until `admit_watches`."""
        self._queues += 1

    def admit_watches(self) -> None:
        """Let the server answer what waits in its queue."""
        self._queues -= 1
        if not self._queues:
            queued, self._queued = self._queued, []
            for arrive in queued:
                arrive()

    def send(
        self, asked: NetworkRequest, token: str, carry_out: Callable[[], Any], answer: Reply, process: str = ""
    ) -> None:
        """Let a request of a process travel; the answer is settled when one comes back, and times out where none
        does."""
        if self._hasty and self.slow:
            answer.time_out()
        if self.refused:
            answer.fail_after(self.latency(), Unreachable(f"{self.cluster}: connection refused"))
        elif self.silent or self.bars(process):
            answer.time_out()
        else:
            self.loop.world_later(self.latency(), self._arrive, asked, token, carry_out, answer)

    def _carried_out(self, asked: NetworkRequest, token: str, carry_out: Callable[[], Any]) -> Any:
        """Carry a request out; return its result, or the error with which the server answers all the same."""
        try:
            result = carry_out()
        except ApiError as error:
            result = error
        return self._refusal(asked, token, after=True) or result

    def _arrive(self, asked: NetworkRequest, token: str, carry_out: Callable[[], Any], answer: Reply) -> None:
        if self.refused or self.silent:
            answer.time_out()
            return
        if asked.verb == "watch" and self._queues:
            self._queue(asked, token, carry_out, answer)
            return
        result = self._refusal(asked, token, after=False) or self._carried_out(asked, token, carry_out)
        write = asked.verb in _WRITES
        if self.mute or (write and self.lost_replies and self.random.random() < self.lost_replies):
            if self.random.random() < 0.5:
                answer.time_out()
            else:
                answer.fail_after(self.latency(), Unreachable(f"{self.cluster}: connection reset by peer"))
            return
        self.loop.world_later(self.latency(), self._return, answer, result)

    def _queue(self, asked: NetworkRequest, token: str, carry_out: Callable[[], Any], answer: Reply) -> None:
        def cut(why: str) -> None:
            if why:
                self._queued.remove(arrive)
                undo()
                answer.fail_after(0.0, Unreachable(f"{self.cluster}: {why}"))

        def arrive() -> None:
            undo()
            self._arrive(asked, token, carry_out, answer)

        undo = self.on_cut(cut)
        self._queued.append(arrive)

    def _return(self, answer: Reply, result: Any) -> None:
        if self.silent or self.mute:
            answer.time_out()
        elif self.refused:
            answer.fail_after(0.0, Unreachable(f"{self.cluster}: connection reset by peer"))
        else:
            answer.settle(result)

    def _refusal(self, asked: NetworkRequest, token: str, *, after: bool) -> ApiError | None:
        if not after and token != self.token:
            return ApiError(401, "Unauthorized", "Unauthorized")
        for storm in self.storms:
            fits = storm.resource in ("", asked.resource) and storm.verb in ("", asked.verb)
            if fits and storm.after == after and self._strikes(storm, asked) and self.random.random() < storm.share:
                retry_after = 1.0 if storm.status in (429, 503) else None
                reason = _REASONS.get(storm.status, "InternalError")
                return ApiError(storm.status, reason, "simulated trouble", retry_after)
        return None

    def _strikes(self, storm: Storm, asked: NetworkRequest) -> bool:
        """Conflicts are for writes, and what is only said afterwards as well; the rest is for everybody."""
        return asked.verb in _WRITES if storm.after or storm.status == 409 else True


class Reply:
    """What a client waits for: an object, an error, or the end of its patience, counted from when it asked."""

    def __init__(self, network: Network, timeout: float) -> None:
        self._network = network
        self._deadline = network.loop.time() + timeout
        self.future: asyncio.Future[Any] = network.loop.create_future()

    def settle(self, result: Any) -> None:
        """Deliver an object or an error; too late is never, and a stream that nobody waits for any more is closed."""
        if self.future.done():
            if hasattr(result, "close"):
                result.close()
            return
        if self._network.loop.time() > self._deadline:
            self.time_out()
        elif isinstance(result, Exception):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)

    def fail_after(self, seconds: float, error: Exception) -> None:
        """Deliver an error a little later."""
        self._network.loop.world_later(seconds, self._fail, error)

    def time_out(self) -> None:
        """Deliver, when the client's patience ends, that nothing came."""
        error = Unreachable(f"{self._network.cluster}: timed out")
        self._network.loop.world_later(self._deadline - self._network.loop.time(), self._fail, error)

    def _fail(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
