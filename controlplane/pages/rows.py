"""Makes the rows of the directory: of what is folded, of what the fold has let go of, and of what is over.

In: the fold, and what was seen last of each Workload. Out: a `Row`, or None of what nothing is known. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from controlplane.audit.workloads_now import one_of, result
from controlplane.controllers.multikueue.index import WorkloadIndex
from controlplane.controllers.multikueue.observations import WorkloadGone, WorkloadObserved
from controlplane.log.event import Recorded
from controlplane.pages.directory import Row
from controlplane.pages.workloads_seen import Seen


class LastSeen:
    """What was seen last of Workloads on the management cluster, by stream. `touched`: that it is there, or gone;
    `seen`: how it is."""

    def __init__(self) -> None:
        self.touched: dict[str, Recorded] = {}
        self.seen: dict[str, Recorded] = {}

    def take(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""
        if not is_workloads(recorded.stream):
            return
        event, seen = recorded.event, self.seen.get(recorded.stream)
        if isinstance(event, WorkloadObserved):
            self.seen[recorded.stream] = self.touched[recorded.stream] = recorded
        elif isinstance(event, WorkloadGone) and (seen is None or getattr(seen.event, "uid", "") == event.uid):
            self.touched[recorded.stream] = recorded  # and not the end of another one that had its name before

    def clear(self) -> None:
        """Forget it."""
        self.touched.clear()
        self.seen.clear()


def is_workloads(stream: str) -> bool:
    """Whether a stream is that of a Workload, and says of which: the log may hold one that does not."""
    return stream.startswith("workload/") and stream.count("/") == 2


def name_of(stream: str) -> tuple[str, str]:
    """Return namespace and name of a Workload's stream."""
    _, namespace, name = stream.split("/", 2)
    return namespace, name


def row_of(index: WorkloadIndex, last_seen: LastSeen, stream: str, before: Row | None, now: datetime) -> Row | None:
    """Return the row of a Workload in the place of the one before."""
    last, state = last_seen.touched.get(stream), index.workloads.get(stream)
    at, position = _changed(last, before)
    if state is not None and state.local is not None:
        since = datetime.fromtimestamp(before.since if before is not None else at, tz=now.tzinfo)
        return row_of_live(one_of(index, state, since, now), state.local, at, position)
    # What the index has let go of is told by the last that was seen of it.
    if (seen := last_seen.seen.get(stream)) is not None and isinstance(seen.event, WorkloadObserved):
        before = _last_of(seen.event, before, seen.recorded_at.timestamp())
    if before is None:
        return None
    word = "Finished" if before.result and before.state != "Deleted" else before.state
    if last is not None and isinstance(last.event, WorkloadGone):
        word = "Deleted"
    return before._replace(state=word, waits_for="", changed=at, position=position)


def _changed(last: Recorded | None, before: Row | None) -> tuple[float, int]:
    """Return when, and where in the log, something changed last."""
    if last is not None:
        return last.recorded_at.timestamp(), last.position
    return (before.changed, before.position) if before is not None else (0.0, 0)


def row_of_past(seen: Seen) -> Row:
    """Return the row of what is over."""
    namespace, name = name_of(seen.stream)
    return Row(
        namespace, name, "Finished" if seen.gone is None else "Deleted", seen.result or "", seen.queue,
        seen.cluster_queue, seen.kind, seen.owner, seen.cluster, 0, "",
        seen.since.timestamp(), (seen.gone_at or seen.at).timestamp(), seen.gone or seen.position,
    )  # fmt: skip


def _last_of(seen: WorkloadObserved, before: Row | None, at: float) -> Row:
    """Return the row of what was seen before it was let go of."""
    row = before or Row(seen.namespace, seen.name, "Deleted", since=at)
    owner = seen.owner
    return row._replace(
        state="Finished" if seen.is_true("Finished") else "Deleted",
        result=result(seen) if seen.is_true("Finished") else "",
        queue=seen.queue_name,
        cluster_queue=seen.cluster_queue,
        kind=owner.kind if owner else "",
        owner=owner.name if owner else "",
        cluster=seen.cluster_name or row.cluster,
    )


def row_of_live(one: dict[str, Any], local: WorkloadObserved, changed: float, position: int) -> Row:
    """Return the row of what is live, or has just finished."""
    return Row(
        one["namespace"], one["name"], one["state"], one["result"] or result(local) if one["state"] == "Finished" else "",
        one["queue"], local.cluster_queue, one["kind"], one["job"], one["cluster"], one["attempt"], one["waits_for"],
        one["since"].timestamp(), changed, position,
    )  # fmt: skip
