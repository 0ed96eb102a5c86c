"""One Workload: why it is where it is, its way over the clusters, its attempts, and its events with their causes.

In: an `Asked` with a namespace and a name, of the Workload or of its job. Out: all of that, as `controlplane why` and
`timeline` tell it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString

from controlplane.audit import quota_past
from controlplane.audit.answer import Told, told
from controlplane.audit.archived import archived_stream, gone_stream
from controlplane.audit.find import Found, find, nearest
from controlplane.audit.lanes import Lane
from controlplane.audit.quota_wait import answer, sentences
from controlplane.audit.shown import clock
from controlplane.audit.timeline import TimelineEntry
from controlplane.audit.words import reason_of, type_of, what
from controlplane.audit.workloads_now import result
from controlplane.controllers.multikueue.hosting import reading_policy
from controlplane.controllers.multikueue.observations import WorkloadObserved
from controlplane.log.event import Recorded
from controlplane.pages.asking import Archived, Asked, NotFound, Parameter
from controlplane.pages.concealing import as_shown
from controlplane.runtime.explanation import Statement
from controlplane.values import Value

PARAMETERS = (Parameter("events", "which events are listed besides the story", ("newest", "all"), default="newest"),)
_NEWEST = 100
_PLACEMENTS: LiteralString = (
    "SELECT attempt, clusters_offered, clusters_refused, cluster, reason, since, chosen_at, ready_at, finished_at, "
    "until, coalesce(retry_reason, released_reason, evicted_reason, finish_reason) AS ended FROM audit.placements "
    "WHERE log = %(log)s AND namespace = %(namespace)s AND workload = %(name)s ORDER BY attempt"
)


class EventItem(Value):
    """An event. `caused_by` is the position of what it rests on, null for what was seen."""

    position: int
    at: datetime
    type: str
    reason: str
    cluster: str
    what: str
    stream: str
    caused_by: int | None = None


class Attempt(Value):
    """An attempt to find a cluster, as in `audit.placements`; `ended` is why it ended."""

    attempt: int
    offered: list[str]
    refused: list[str]
    cluster: str
    reason: str
    since: datetime | None
    chosen_at: datetime | None
    ready_at: datetime | None
    until: datetime | None
    ended: str


class StatementItem(Value):
    """What became of what has ended, with the positions that prove it."""

    about: str
    text: str
    at: datetime
    positions: list[int]


class WaitItem(Value):
    """An interval in which it waited for quota: why, in which ClusterQueue, what was missing, and who was preempted for
    it or whom it had been preempted for, in words."""

    since: datetime
    until: datetime | None
    lasted: str
    reason: str
    message: str
    cluster_queue: str
    missing: str
    others: str
    position: int


class WorkloadStory(Value):
    """One Workload. `result` is how it finished, `since` when it was first seen; queue and priority are those that were
    seen last. `quota` says why it waits for quota and when it would have it, where this service decides on that, and
    `waited` how it waited; Workloads of namespaces that are not to be seen are counted there. `events` are the newest
    ones, or all; `more` says how many there are besides."""

    namespace: str
    name: str
    jobs: list[str]
    others: list[str]
    state: str
    cluster: str
    waits_for: str
    sentence: str
    quota: list[str]
    waited: list[WaitItem]
    rests_on: list[EventItem]
    statements: list[StatementItem]
    lanes: Sequence[Lane]
    moments: Sequence[TimelineEntry]
    attempts: list[Attempt]
    events: list[EventItem]
    more: int
    result: str = ""
    since: datetime | None = None
    queue: str = ""
    cluster_queue: str = ""
    priority: int | None = None


def workload(asked: Asked) -> WorkloadStory:
    """Return the story of a Workload, or of a job without one."""
    reader, found = asked.reader, named(asked)
    story = told(
        reader,
        asked.policy(),
        found,
        asked.moment,
        lambda said: reading_policy(asked.settings, said),
        lambda recorded: as_shown(recorded, asked.sees),
    )
    namespace, name = found.key.split("/") if found.key else _asked_for(asked)
    events = story.events if asked.given["events"] == "all" else story.events[-_NEWEST:]
    rows = [] if asked.at is not None else reader.rows(_PLACEMENTS, namespace=namespace, name=name)
    return WorkloadStory(
        namespace=namespace,
        name=name,
        jobs=found.job_names,
        others=[stream.removeprefix("workload/") for stream in found.others],
        **_standing(story),
        quota=_quota(asked, found, story),
        waited=_waited(story),
        rests_on=[event_item(recorded) for recorded in story.explanation.events],
        statements=[_statement(one) for one in story.explanation.statements],
        lanes=story.lanes,
        moments=[moment for moment in story.moments if moment.noteworthy],
        attempts=[_attempt(row) for row in rows],
        events=[event_item(recorded) for recorded in reversed(events)],
        more=len(story.events) - len(events),
        **_as_seen(story),
    )


def named(asked: Asked) -> Found:
    """Return the streams of the Workload or job that was named. Raises `NotFound`, also for what may not be seen, and
    `Archived`."""
    namespace, name = _asked_for(asked)
    found = find(asked.reader, namespace, name) if asked.sees(namespace) else None
    if found is not None:
        if place := gone_stream(asked.reader, found.streams[0]):
            gone = archived_stream(f"the Workload {namespace}/{name}", place)
            raise Archived(f"{gone}. Its events left the database at {clock(place.dropped_at)} UTC")
        return found
    near = [each for each in nearest(asked.reader, namespace, name) if asked.sees(each.partition("/")[0])]
    when = " at that time" if asked.at is not None else ""
    raise NotFound(f"there is no Workload or job {namespace}/{name} in the log {asked.reader.log}{when}", near)


def _asked_for(asked: Asked) -> tuple[str, str]:
    return asked.path["namespace"], asked.path["name"]


def _standing(story: Told) -> dict[str, Any]:
    stands = story.explanation.standing
    return {
        "state": stands.word,
        "cluster": stands.cluster,
        "waits_for": stands.waits_for,
        "sentence": story.explanation.sentence,
    }


def _as_seen(story: Told) -> dict[str, Any]:
    """Return what the newest sight of the Workload says of it; what is gone is told as it was last."""
    found = next((one.event for one in reversed(story.events) if isinstance(one.event, WorkloadObserved)), None)
    since = story.moments[0].at if story.moments else None
    if found is None:
        return {"since": since}
    return {
        "result": result(found),
        "since": since,
        "queue": found.queue_name,
        "cluster_queue": found.cluster_queue,
        "priority": found.priority.value,
    }


def _quota(asked: Asked, found: Found, story: Told) -> list[str]:
    """Return why a Workload waits for quota, in sentences."""
    if story.explanation.standing.word != "Pending" or not found.key:
        return []
    namespace, _, name = found.key.partition("/")
    wait = answer(asked.reader, asked.engine_settings(), namespace, name, asked.moment)
    return [] if wait is None else list(sentences(wait, asked.sees))


def _waited(story: Told) -> list[WaitItem]:
    """Return how a Workload waited for quota: by its events as they are shown, so that nobody is named who is not to
    be."""
    return [
        WaitItem(
            since=one.since,
            until=one.until,
            lasted=quota_past.lasted(one),
            reason=one.reason,
            message=one.message,
            cluster_queue=one.cluster_queue,
            missing=quota_past.missing(one),
            others=quota_past.others(one),
            position=one.position,
        )
        for one in quota_past.worth_telling(quota_past.intervals(story.events))
    ]


def event_item(recorded: Recorded) -> EventItem:
    """Return an event as lists show it."""
    return EventItem(
        position=recorded.position,
        at=recorded.recorded_at,
        type=type_of(recorded),
        reason=reason_of(recorded),
        cluster=recorded.cluster,
        what=what(recorded.event),
        stream=recorded.stream,
        caused_by=recorded.caused_by or None,
    )


def _statement(one: Statement) -> StatementItem:
    at, positions = one.events[0].recorded_at, [recorded.position for recorded in one.events]
    return StatementItem(about=one.about, text=one.text, at=at, positions=positions)


def _attempt(row: dict[str, Any]) -> Attempt:
    return Attempt(
        attempt=row["attempt"],
        offered=list(row["clusters_offered"] or ()),
        refused=list(row["clusters_refused"] or ()),
        cluster=row["cluster"] or "",
        reason=row["reason"] or "",
        since=row["since"],
        chosen_at=row["chosen_at"],
        ready_at=row["ready_at"],
        until=row["until"],
        ended=row["ended"] or "",
    )
