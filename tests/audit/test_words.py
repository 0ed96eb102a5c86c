"""Every event has its words, known or not."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from controlplane.app.hosted import TYPES
from controlplane.audit.words import fields_of, reason_of, type_of, what
from controlplane.controllers.manifests import EVERY, SCHEDULER, SERVICE
from controlplane.controllers.multikueue.events import EffectFailed
from controlplane.controllers.multikueue.observations import CloneObserved, JobObserved, WorkloadObserved
from controlplane.controllers.podgroups.events import OwnerResolved
from controlplane.kube.conditions import Condition
from controlplane.log.event import Event, Recorded, Unknown
from controlplane.runtime.manifest import Manifest, Vocabulary
from tests.audit.samples import sample
from tests.interface.shape import scheduler
from tests.support.rows import each

NEW = Unknown("QuotaLent", 3, '{"reason":"Cohort","to":"b"}')


EVENTS = [event for manifest in EVERY for event in manifest.events]


def test_every_event_has_one_phrase_and_every_reason_one_sentence() -> None:
    Vocabulary(EVERY)
    for manifest in EVERY:
        assert set(manifest.phrases) == set(manifest.events), manifest.title
        kinds = {type(reason) for reason in manifest.reasons}
        assert {reason for kind in kinds for reason in kind} == set(manifest.reasons), manifest.title


def test_an_event_without_a_phrase_is_refused() -> None:
    with pytest.raises(ValueError, match="no phrase for WorkloadObserved"):
        Vocabulary([Manifest(title="MultiKueue", events=(WorkloadObserved,), phrases={}, streams={})])


def test_the_events_of_a_log_are_those_of_its_manifests() -> None:
    for types, manifests in ((TYPES, SERVICE), (scheduler().types, SCHEDULER)):
        assert set(types) == {event for manifest in manifests for event in manifest.events}


@each("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_they_can_be_said_of_any_event(kind: type[Event]) -> None:
    event = sample(kind)
    if isinstance(event, OwnerResolved):  # its positions are those of its chain
        first = msgspec.structs.replace(event.resolution, selected=0, matched=None)
        event = msgspec.structs.replace(event, resolution=first)
    said = what(event)
    assert said
    assert "\n" not in said
    assert said != kind.__name__


def test_an_unknown_event_is_shown_as_it_is() -> None:
    recorded = Recorded(position=1, stream="s", version=1, event=NEW, recorded_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert (what(NEW), type_of(recorded), reason_of(recorded)) == ("QuotaLent", "QuotaLent", "Cohort")
    assert fields_of(NEW) == {"reason": "Cohort", "to": "b"}


def true(*kinds: str) -> list[Condition]:
    return [Condition(type=kind, status="True", reason="Why") for kind in kinds]


@each(
    ("conditions", "fields", "said"),
    [
        ([], {}, "waits for quota"),
        (["QuotaReserved"], {}, "has quota in cq"),
        (["QuotaReserved"], {"cluster_queue": ""}, "has quota"),
        (["QuotaReserved", "Admitted"], {}, "is admitted"),
        (["QuotaReserved", "Admitted", "Evicted"], {}, "is evicted (Why)"),
        (["Evicted"], {}, "waits for quota again"),
        (["QuotaReserved", "Evicted"], {"active": False}, "is deactivated"),
        (["QuotaReserved"], {"deleting": True}, "is being deleted"),
        (["QuotaReserved", "Evicted", "Finished"], {"deleting": True}, "finished (Why)"),
    ],
)
def test_how_far_a_workload_has_come(conditions: list[str], fields: dict[str, object], said: str) -> None:
    known = {"deleting": False, "active": True, "cluster_queue": "cq", **fields, "conditions": true(*conditions)}
    assert what(sample(WorkloadObserved, **known)) == f"Workload {said}"
    if "cq" not in said:
        known |= {"made_for": ""}
        known.pop("cluster_queue")
        assert what(sample(CloneObserved, **known)) == f"copy {said}"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"suspended": True}, "is suspended"),
        ({}, "may start"),
        ({"inactive": False}, "runs"),
        ({"deleting": True}, "is being deleted"),
        ({"finished": True, "deleting": True}, "finished"),
    ],
)
def test_what_a_job_does(fields: dict[str, bool], said: str) -> None:
    known = {"suspended": False, "inactive": True, "deleting": False, "finished": False, **fields}
    assert what(sample(JobObserved, **known)) == f"job {said}"


def test_a_refused_write_says_what_the_server_said() -> None:
    assert what(sample(EffectFailed, code=403, error="Forbidden")) == "write refused (403 Forbidden)"
    assert what(sample(EffectFailed, code=500, error="")) == "write refused (500)"
