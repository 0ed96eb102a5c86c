"""What the metrics say of source pods: told from what was seen, event by event, as the service folds it."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import msgspec
import pytest

from controlplane.app.measure import Measure
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source import events
from controlplane.controllers.candidates.source import observations as seen
from controlplane.controllers.candidates.source.observations import SourcePodObserved
from controlplane.log.event import NewEvent, Recorded
from controlplane.telemetry import Metrics
from tests.audit.script import Script
from tests.candidates.stage import NS
from tests.candidates.told import Told
from tests.deploy.queries import unknown
from tests.docs.snippets import ROOT, blocks


class Meter:
    """A `Measure` beside a story; `read` is what Prometheus would scrape of what was told up to now."""

    def __init__(self, story: Told, *, leads: bool = True) -> None:
        self.story, self.metrics, self._read = story, Metrics(), 0
        self.measure = Measure(self.metrics, Script("a").fleet, placing=story.placing)
        self.hear(live=False)
        if leads:
            self.measure.leads(1)

    def hear(self, *, live: bool = True, apart: bool = False) -> Meter:
        """Hear what was told since, as one batch, or each event apart."""
        versions: Counter[str] = Counter()
        recorded = []
        for position, row in enumerate(self.story.rows, 1):
            versions[row.stream] += 1
            recorded.append(
                Recorded(
                    position=position,
                    stream=row.stream,
                    version=versions[row.stream],
                    event=row.event,
                    cluster=row.cluster,
                    caused_by=row.caused_by,
                    recorded_at=self.story.process.now,
                )
            )
        new, self._read = recorded[self._read :], len(recorded)
        for batch in [[one] for one in new] if apart else [new] if new else []:
            self.measure.folded(batch, live)
        return self

    def read(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"controlplane_candidates_{name}", labels) or 0

    def all(self) -> dict[str, float]:
        """Every count that is not zero, by its name and labels."""
        found = {}
        for family in self.metrics.registry.collect():
            if family.name.startswith("controlplane_candidates_") and family.type == "counter":
                for sample in family.samples:
                    name = family.name.removeprefix("controlplane_candidates_")
                    found[" ".join([name, *sample.labels.values()])] = sample.value
        return found


def test_a_pod_on_its_way_is_counted_by_target() -> None:
    story = Told("a", "b")
    meter = Meter(story)
    story.asked()
    meter.hear()
    story.tick(2.5).reserves("a").settle()
    story.tick(1.5).binds("a").settle()
    meter.hear()
    assert meter.all() == {"offered a": 1, "offered b": 1, "reserved a": 1, "permitted a Bind": 1, "bound a": 1}
    assert meter.read("placement_seconds_count", cluster="a") == 1
    assert meter.read("placement_seconds_sum", cluster="a") == 4
    assert meter.read("placement_seconds_count", cluster="b") == 0


def test_what_is_said_again_is_not_counted_again() -> None:
    story = Told("a", "b", "c")
    meter = Meter(story)
    story.asked().says(seen.CandidateRefused, "b", why="NotInvited", message="no")
    story.says(seen.CandidateUnschedulable, "c", why="NoNode", message="0/3 nodes")
    story.reserves("a").settle()
    before = meter.hear().all()
    assert before["refused b NotInvited"] == before["refused c NoNode"] == before["reserved a"] == 1
    story.noise().settle()
    story.noise().settle()
    assert meter.hear(apart=True).all() == before
    bound = story.binds("a").settle()
    bound.status("a").settle().status("a", 2, "Succeeded").settle()
    assert meter.hear(apart=True).all() == {**before, "bound a": 1}


def test_a_permit_that_is_sent_again_is_one() -> None:
    story = Told("a")
    meter = Meter(story)
    story.asked().reserves("a").settle()
    story.reserves("a").settle()  # it does not carry the permit: that write was lost
    assert [type(row.event) for row in story.rows].count(events.PermitGranted) == 2
    assert meter.hear().all() == {"offered a": 1, "reserved a": 1, "permitted a Bind": 1}


def test_a_new_reservation_and_a_new_no_are_counted() -> None:
    story = Told("a", "b")
    meter = Meter(story)
    story.asked().reserves("a").settle()
    story.says(seen.CandidateUnreserved, "a", reservation=1, why="Timeout").settle()
    story.reserves("a", number=2).settle()
    story.says(seen.CandidateRefused, "b", why="PodSecurity", message="no").settle()
    story.says(seen.CandidateWaiting, "b").settle()
    story.says(seen.CandidateRefused, "b", why="PodSecurity", message="no").settle()
    found = meter.hear().all()
    assert (found["reserved a"], found["unreserved a Timeout"], found["permitted a Bind"]) == (2, 1, 2)
    assert found["refused b PodSecurity"] == 2


def test_room_that_is_to_be_made_is_a_permit_of_another_kind() -> None:
    story = Told("a")
    meter = Meter(story)
    story.asked().says(seen.CandidateUnschedulable, "a", why="NoNode", preemptable=True).settle()
    assert meter.hear().all() == {"offered a": 1, "refused a NoNode": 1, "permitted a Preempt": 1}


@pytest.mark.parametrize("why", ["", "made up by another cluster", "x" * 10_000])
def test_a_reason_of_another_cluster_is_a_label_only_if_it_is_known(why: str) -> None:
    story = Told("a")
    meter = Meter(story)
    story.asked().says(seen.CandidateRefused, "a", why=why).settle()
    story.reserves("a").says(seen.CandidateUnreserved, "a", reservation=1, why=why)
    found = meter.hear().all()
    assert (found["refused a Other"], found["unreserved a Other"]) == (1, 1)


def test_what_an_api_server_does_not_take_is_refused_once() -> None:
    story = Told("a")
    meter = Meter(story)
    story.pod().settle()
    asked = next(row.event for row in story.rows if isinstance(row.event, events.CandidateRequested))
    no = events.CandidateWriteFailed(
        target=asked.target,
        action="CandidateRequested",
        code=403,
        error="Forbidden",
        message="no rights",
        failures=1,
        retry_at=story.process.now + timedelta(seconds=1),
    )
    broken = msgspec.structs.replace(no, code=500, error="InternalError")
    stream = f"sourcepod/{NS}/web"
    story.put(stream, broken, "a")
    assert meter.hear().all() == {"offered a": 1}
    for _ in range(3):
        story.tick(2).settle()
        story.put(stream, no, "a")
    assert meter.hear().all() == {"offered a": 1, "refused a NotCreated": 1}


def test_a_no_that_comes_behind_what_took_its_place_counts_nothing() -> None:
    """The write is open no more, and another one to the same target is: nothing is remembered of that no."""
    story = Told("a")
    meter = Meter(story)
    story.pod().settle()
    first = next(n for n, row in enumerate(story.rows, 1) if isinstance(row.event, events.CandidateRequested))
    asked = story.rows[first - 1].event
    assert isinstance(asked, events.CandidateRequested)
    story.put(f"sourcepod/{NS}/web", asked, "a")
    no = events.CandidateWriteFailed(
        target=asked.target, action="CandidateRequested", code=403, error="Forbidden", message="no", failures=1,
        retry_at=story.process.now,
    )  # fmt: skip
    late = NewEvent(stream=f"sourcepod/{NS}/web", event=no, cluster="a", caused_by=first)
    story.process.append(late)
    assert meter.hear().all() == {"offered a": 1}


def test_a_stream_that_cannot_be_folded_stops_no_counting() -> None:
    story = Told("a")
    meter = Meter(story)
    story.pod().settle()
    odd = next(row.event for row in story.rows if isinstance(row.event, SourcePodObserved))
    found = [
        Recorded(position=n, stream=stream, version=1, event=event, cluster="a", recorded_at=story.process.now)
        for n, (stream, event) in enumerate([("sourcepod/nameless", odd), ("sourcepod/nameless", odd)], 1000)
    ]
    meter.measure.folded(found, live=True)
    assert meter.hear().all() == {"offered a": 1}


@pytest.mark.parametrize(
    ("reason", "tell"),
    [
        (CandidateReason.POD_REJECTED, lambda story: story.rejected("a")),
        (CandidateReason.TARGET_FORGOTTEN, lambda story: story.lose("a").give_up("a")),
        (CandidateReason.TARGET_LOST, lambda story: story.lose("a").tick(10_000)),
        (CandidateReason.POD_MISSING, lambda story: story.candidate_gone("a")),
    ],
)
def test_a_delegate_that_was_lost_is_counted_by_its_reason(reason: CandidateReason, tell: object) -> None:
    story = Told("a", "b")
    meter = Meter(story)
    story.bound("a")
    assert callable(tell)
    tell(story)
    story.settle()
    found = meter.hear().all()
    assert found[f"lost a {reason}"] == 1
    assert found["offered a"] + found["offered b"] >= 3, "it is placed anew"


def test_a_permit_that_was_outlived_is_lost_too() -> None:
    story = Told("a", "b")
    meter = Meter(story)
    story.permitted("a").lose("a").settle()
    story.tick(10_000).settle()
    assert meter.hear().all()["lost a PermitWasOutlived"] == 1


def test_targets_that_changed_lose_nothing() -> None:
    story = Told("a", "b")
    meter = Meter(story)
    story.asked().no_target("b").settle()
    assert not [name for name in meter.hear().all() if name.startswith("lost")]


def test_what_happened_before_this_process_led_is_not_counted() -> None:
    story = Told("a", "b").asked().reserves("a").settle()
    meter = Meter(story)
    assert meter.all() == {}
    story.noise().settle()
    assert meter.hear().all() == {}, "the same reservation, and the same permit, seen again"
    story.binds("a").settle()
    assert meter.hear().all() == {"bound a": 1}
    assert meter.read("placement_seconds_count", cluster="a") == 0, "when it was elected is not known here"


def test_who_follows_counts_nothing() -> None:
    story = Told("a")
    meter = Meter(story, leads=False)
    story.bound("a")
    assert meter.hear(live=False).all() == {}
    meter.measure.leads(2)
    story.pod_gone().settle()
    meter.hear().measure.follows()
    story.pod("other").settle()
    assert meter.hear(live=True).all() == {}


def test_it_keeps_nothing_of_pods_that_are_over() -> None:
    story = Told("a")
    meter = Meter(story)
    story.asked("one", "two")
    kept = meter.hear().measure._candidates
    assert kept is not None
    assert len(kept._elected) == len(kept._states) == 2
    story.pod_gone("one").settle().candidate_gone("a", "one").settle()
    meter.hear()
    assert set(kept._states) == {f"sourcepod/{NS}/two"} == set(kept._elected)
    assert kept._states[f"sourcepod/{NS}/two"] is story.placing.sources[f"sourcepod/{NS}/two"]
    assert SourcePodObserved in {type(row.event) for row in story.rows}


def test_the_guides_queries_ask_for_what_is_served() -> None:
    page = ROOT / "docs/howto/candidates.md"
    queries = [line for block in blocks(page) for line in block.text.splitlines() if "controlplane_candidates_" in line]
    assert len(queries) == 2
    assert [unknown(query) for query in queries] == [set(), set()]
