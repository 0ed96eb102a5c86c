"""Every event and every reason of one's own cluster has its words; the reference names them all, and each once."""

from __future__ import annotations

import msgspec

from controlplane.audit.reference import reference
from controlplane.audit.words import what
from controlplane.controllers.coscheduling import events as coscheduling
from controlplane.controllers.coscheduling.feasibility.events import JUDGING_EVENTS
from controlplane.controllers.coscheduling.feasibility.phrases import PHRASES as JUDGING_PHRASES
from controlplane.controllers.coscheduling.phrases import PHRASES as RUN_PHRASES
from controlplane.controllers.coscheduling.phrases import REASONS as RUN_REASONS
from controlplane.controllers.coscheduling.phrases import RUN_EVENTS
from controlplane.controllers.coscheduling.reasons import CoschedulingReason as RunReason
from controlplane.controllers.podgroups import events as podgroups
from controlplane.controllers.podgroups.phrases import GROUP_EVENTS
from controlplane.controllers.podgroups.phrases import PHRASES as GROUP_PHRASES
from controlplane.controllers.podgroups.phrases import REASONS as GROUP_REASONS
from controlplane.controllers.podgroups.reasons import PodGroupReason as GroupReason
from controlplane.log.event import Event
from tests.audit.samples import sample
from tests.support.rows import each

LOCAL_EVENTS = (*podgroups.EVENTS, *coscheduling.EVENTS)


def test_no_event_and_no_reason_is_missing() -> None:
    assert set(GROUP_PHRASES) == set(GROUP_EVENTS) == set(podgroups.EVENTS)
    assert set(RUN_PHRASES) == set(RUN_EVENTS) == set(coscheduling.EVENTS)
    assert set(JUDGING_PHRASES) == set(JUDGING_EVENTS)
    assert set(GROUP_REASONS) == set(GroupReason)
    assert set(RUN_REASONS) == set(RunReason)


@each("kind", [*LOCAL_EVENTS, *JUDGING_EVENTS], ids=lambda kind: kind.__name__)
def test_they_can_be_said_of_any_event(kind: type[Event]) -> None:
    event = sample(kind)
    if isinstance(event, podgroups.OwnerResolved):  # its positions are those of its chain
        event = msgspec.structs.replace(
            event, resolution=msgspec.structs.replace(event.resolution, selected=0, matched=None)
        )
    said = what(event)
    assert said
    assert "\n" not in said
    assert said != kind.__name__


def test_the_reference_names_every_event_once() -> None:
    page = reference()
    for event in (*LOCAL_EVENTS, *JUDGING_EVENTS):
        assert f"| `{event.__name__}` |" in page
        assert page.count(f"- `{event.__name__}`:") == 1
    for reason in (*GroupReason, *RunReason):
        assert f"| `{reason}` |" in page
