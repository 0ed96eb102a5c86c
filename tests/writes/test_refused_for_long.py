"""A write that an API server refuses for hours: the pause grows up to five minutes and stays there, however often it
was said no.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.controllers.candidates.references.controller import ReferenceController
from controlplane.controllers.candidates.source import state as source
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.events import CandidateWriteFailed
from controlplane.controllers.candidates.source.policy import SourcePolicy
from controlplane.controllers.candidates.target import state as target
from controlplane.controllers.candidates.target.controller import TargetController
from controlplane.controllers.candidates.target.decide import TargetPolicy
from controlplane.controllers.candidates.target.events import TargetWriteFailed
from controlplane.controllers.coscheduling import state as runs
from controlplane.controllers.coscheduling.controller import CoschedulingController
from controlplane.controllers.coscheduling.controller import CoschedulingPolicy as RunsPolicy
from controlplane.controllers.coscheduling.events import CoschedulingFailed
from controlplane.controllers.multikueue import state as workload
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.events import EffectFailed
from controlplane.controllers.multikueue.hosting import policy_of
from controlplane.controllers.podgroups.controller import PodGroupController
from controlplane.controllers.podgroups.events import GroupWriteFailed
from controlplane.controllers.podgroups.index import PodGroupPolicy as GroupsPolicy
from controlplane.controllers.podgroups.state import PodGroupState, fold_group
from controlplane.controllers.scheduling import state as pods
from controlplane.controllers.scheduling.binding.pod_scheduling import OwnPods
from controlplane.controllers.scheduling.events import SchedulingWriteFailed
from controlplane.log.event import Event, Recorded
from controlplane.runtime.controller import OpenWrite, WriteRefusal
from controlplane.settings import Settings
from tests.support.rows import each

NOW = datetime(2026, 11, 21, 18, 0, tzinfo=UTC)
TARGET, ACTION = "there/Thing", "ThingDecided"
NO = WriteRefusal(403, "Forbidden", "not you")
CONFLICT = WriteRefusal(409, "Conflict", "the object has been modified")
TAKEN = WriteRefusal(409, "AlreadyExists", "it is there")


def recorded(stream: str, event: Event) -> Recorded:
    return Recorded(position=7, stream=stream, version=3, event=event, cluster="there", recorded_at=NOW)


def workloads(stream: str, refused: Recorded) -> MultiKueueController:
    fleet = MultiKueueController(policy_of(Settings()), "me")
    if stream.startswith("workload/"):
        fleet.index.workloads[stream] = workload.fold(workload.WorkloadState.initial(stream), refused)
    else:
        fleet.fold(refused)
    return fleet


def sources(stream: str, refused: Recorded) -> SourceController:
    placing = SourceController(SourcePolicy(cluster="home"), "me")
    placing.sources[stream] = source.fold(source.SourceState.initial(stream), refused)
    return placing


def copies(stream: str, refused: Recorded) -> ReferenceController:
    found = ReferenceController(SourceController(SourcePolicy(cluster="home"), "me"))
    found.fold(refused)
    return found


def targets(stream: str, refused: Recorded) -> TargetController:
    found = TargetController(TargetPolicy())
    found.candidates[stream] = target.target_fold(target.TargetState.initial(stream), refused)
    return found


def placements(stream: str, refused: Recorded) -> OwnPods:
    found = OwnPods(["default"], "me")
    found.states[stream] = pods.pod_fold(pods.PodState.initial(stream), refused)
    return found


def pipeline_runs(stream: str, refused: Recorded) -> CoschedulingController:
    room = CoschedulingController(RunsPolicy(), "me")
    room.runs[stream] = runs.fold(runs.RunState.initial(stream), refused)
    return room


def pod_groups(stream: str, refused: Recorded) -> PodGroupController:
    room = PodGroupController(GroupsPolicy(), "me")
    room.index.groups[stream] = fold_group(PodGroupState(), refused)
    return room


ROOMS: list[tuple[str, type[Event], Callable[[str, Recorded], Any]]] = [
    ("workload/ns/one", EffectFailed, workloads),
    ("admissioncheck/one", EffectFailed, workloads),
    ("sourcepod/ns/one", CandidateWriteFailed, sources),
    ("copies/there/ns", CandidateWriteFailed, copies),
    ("candidate/ns/one", TargetWriteFailed, targets),
    ("pod/ns/one", SchedulingWriteFailed, placements),
    ("pipelinerun/ns/one", CoschedulingFailed, pipeline_runs),
    ("podgroup/ns/one", GroupWriteFailed, pod_groups),
]


@each(("before", "pause"), [(1, 2), (2, 4), (8, 256), (9, 300), (46, 300), (60, 300), (5000, 300)])
@each(("stream", "kind", "room"), ROOMS, ids=lambda value: value if isinstance(value, str) else "")
def test_the_pause_grows_to_five_minutes_and_no_further(
    stream: str, kind: Any, room: Callable[[str, Recorded], Any], before: int, pause: int
) -> None:
    said = kind(target=TARGET, action=ACTION, code=403, error="Forbidden", message="no", failures=before, retry_at=NOW)
    capability = room(stream, recorded(stream, said))
    new = capability.failed(OpenWrite(stream, TARGET, "there", 9, ACTION), NO, NOW)
    assert (new.stream, new.cluster, new.caused_by) == (stream, "there", 9)
    assert type(new.event) is kind
    assert (new.event.code, new.event.error, new.event.message) == (403, "Forbidden", "not you")
    assert (new.event.failures, new.event.retry_at) == (before + 1, NOW + timedelta(seconds=pause))
    assert getattr(new.event, "reason", "Forbidden") == "Forbidden"
    other = capability.failed(OpenWrite(stream, TARGET, "there", 9, "OtherDecided"), NO, NOW)
    assert (other.event.failures, other.event.retry_at) == (1, NOW + timedelta(seconds=1))


@each(("before", "pause"), [(0, 1), (1, 2), (3, 8), (4, 8), (9, 8), (5000, 8)])
@each(("stream", "kind", "room"), ROOMS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_conflict_is_no_refusal_and_ends_the_long_pauses(
    stream: str, kind: Any, room: Callable[[str, Recorded], Any], before: int, pause: int
) -> None:
    """A write was refused for minutes, and when it would have been taken its object had moved on: it waited for minutes
    more.
    """
    said = kind(target=TARGET, action=ACTION, code=403, error="Forbidden", message="no", failures=before, retry_at=NOW)
    capability = room(stream, recorded(stream, said))
    new = capability.failed(OpenWrite(stream, TARGET, "there", 9, ACTION), CONFLICT, NOW)
    assert (new.event.failures, new.event.retry_at) == (before + 1, NOW + timedelta(seconds=pause))


def test_a_name_that_is_taken_is_a_refusal() -> None:
    stream, kind, room = ROOMS[0]
    said = kind(target=TARGET, action=ACTION, code=409, error="AlreadyExists", message="", failures=9, retry_at=NOW)
    new = room(stream, recorded(stream, said)).failed(OpenWrite(stream, TARGET, "there", 9, ACTION), TAKEN, NOW)
    assert new.event.retry_at == NOW + timedelta(minutes=5)
