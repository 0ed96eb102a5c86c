"""What is decided on events before they are in the log is what is decided once they are folded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import pytest

from controlplane.app.hosted import HostedControllers
from controlplane.controllers.multikueue import observations
from controlplane.dst.play import plan_of
from controlplane.log.codec import Codec
from controlplane.log.event import Recorded
from controlplane.settings import Settings
from tests.interface.logs import recorded, written
from tests.multikueue.anticipating import fold_as_anticipated
from tests.multikueue.scene import Scene
from tests.support.deep import deep_after
from tests.support.played import log_of


def kept(name: str) -> Sequence[Recorded]:
    codec = Codec(HostedControllers(Settings()).router.types)
    return [recorded(line, codec) for line in written(name)]


def same(events: Sequence[Recorded], most: int) -> int:
    """Fold a log, and compare what was anticipated of each `most` events of a stream that follow each other with what
    came to be; return how often anything was anticipated."""
    hosted, found = HostedControllers(Settings()), 0
    index = hosted.fleet.index
    for _, following in groupby(events, lambda event: event.stream):
        for some in chunks(list(following), most):
            found += fold_as_anticipated(index, some, hosted.router.fold) == "what follows"
    return found


def chunks(events: Sequence[Recorded], most: int) -> Iterable[Sequence[Recorded]]:
    return (events[start : start + most] for start in range(0, len(events), most))


@pytest.mark.parametrize("name", ["workloads-5", "workloads-23"])
@pytest.mark.parametrize("most", [1, 3])
def test_what_is_anticipated_comes_to_be_in_a_log_that_was_kept(name: str, most: int) -> None:
    assert same(kept(name), most) > 10


@pytest.mark.parametrize("seed", deep_after(1, list(range(1, 60))))
def test_what_is_anticipated_comes_to_be_whatever_happens(seed: int) -> None:
    events = log_of(plan_of(seed))
    assert same(events, 1) >= 0
    assert same(events, 4) >= 0


def test_most_observations_of_workloads_and_copies_are_anticipated() -> None:
    events = log_of(plan_of(1))
    seen = [event for event in events if event.stream.startswith("workload/") and event.observed_at is not None]
    assert same(events, 1) > len(seen) / 2


def test_of_the_users_job_it_is_told_that_nothing_follows_unless_something_does() -> None:
    scene = Scene("a", "b").job()
    assert scene.told == "that nothing follows"  # there is no Workload of it yet
    scene.running("a", "a", "b").tick(minutes=1)
    ended = {"Finished": ("Succeeded", "Job finished successfully")}
    scene.remote_job("a", status="22" * 32, finished=True, inactive=True).clone("a", ended)
    assert scene.names() == ["StatusRelay"]
    scene.job()  # the status is not in it: somebody else's change came before ours
    assert scene.told == "nothing"
    assert scene.names() == ["StatusRelay"]
    scene.job(status="22" * 32, finished=True, inactive=True)
    assert scene.told == "that nothing follows"
    assert scene.names() == []


def test_of_a_new_workload_it_is_told_that_nothing_follows_until_it_has_quota() -> None:
    scene = Scene("a", "b").job()
    scene.workload()
    assert scene.told == "that nothing follows"
    assert scene.names() == []
    scene.reserved()
    assert scene.told == "what follows"
    new = Scene("a", "b").job().workload({"QuotaReserved": True})
    assert new.told == "nothing"
    assert "Nomination" in new.names()


def test_what_leads_to_something_together_is_not_told_to_lead_nowhere() -> None:
    """A Workload and its job come by two watches, and often into one commit: nothing is decided without the other."""
    unknown = Scene("a", "b").workload({"QuotaReserved": True})
    assert unknown.told == "nothing"
    assert unknown.names() == []
    unknown.job()
    assert unknown.told == "nothing"
    assert "Nomination" in unknown.names()
    assert Scene("a", "b").workload().job().told == "nothing"


def test_of_a_slice_nothing_is_told() -> None:
    assert Scene("a", "b").job().workload(elastic=True).told == "nothing"


def test_of_other_streams_nothing_is_told() -> None:
    scene = Scene("a")
    for stream in ("admissioncheck/other", "cluster/a", "multikueueconfig/other", "service"):
        event = observations.AdmissionCheckGone(namespace="", name="other", uid="x")
        recorded = Recorded(position=99, stream=stream, version=1, event=event, recorded_at=scene.now)
        assert scene.fleet.anticipate([recorded], scene.now) is None
