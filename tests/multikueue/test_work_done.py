"""The work that a change makes is that of what has changed, and not of all that there ever was."""

from __future__ import annotations

import sys

import msgspec

from controlplane.controllers.connectivity.eligibility import ClustersJudged, Fit
from controlplane.controllers.multikueue.events import StatusRelayDecided, WinnerChosen
from controlplane.controllers.multikueue.nominate import SCORED
from controlplane.controllers.multikueue.observations import JobGone, JobObserved, MultiKueueConfigGone, Owner
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.multikueue.scoring import ScoringRules
from controlplane.kube.kinds import JOBS
from tests.multikueue.dispatched import ONE, TWO
from tests.multikueue.scene import NS, WL, Scene
from tests.multikueue.sliced import REPLACED, RUNS
from tests.support.rows import each


def test_nothing_is_kept_of_jobs_that_are_gone() -> None:
    scene = Scene("a", policy={"judged": frozenset({JOBS.name})})
    before = kept(scene)
    for number in range(20):
        name = f"train-{number}"
        stream = f"job/{JOBS.name}/{NS}/{name}"
        seen = {"namespace": NS, "name": name, "uid": f"uid-{number}", "kind": JOBS.name}
        scene.fold(stream, JobObserved(**seen, resource_version="1", template="aa" * 32, status="00" * 32))
        judged = ClustersJudged(**seen, clusters={"a": Fit()})
        scene.fold(f"fit/{JOBS.name}/{NS}/{name}", judged)
        assert kept(scene) > before
        scene.fold(stream, JobGone(**seen))
    assert kept(scene) == before


def kept(scene: Scene) -> int:
    """How much is known of what there is around Workloads."""
    return len(msgspec.json.encode([vars(scene.fleet.index.around), scene.fleet.index.jobs], enc_hook=vars))


def slices(count: int) -> Scene:
    """An elastic job that was made larger so often; the last slice runs, and all before it were replaced."""
    scene = Scene("a").job(size={"main": count}, suspended=False, inactive=False, status=ONE)
    for number in range(1, count + 1):
        before = f"{NS}/slice-{number - 1}" if number > 1 else ""
        scene.on(f"slice-{number}")
        scene.workload(
            {**RUNS, **(REPLACED if number < count else {})},
            check="Ready",
            cluster_name="a",
            elastic=True,
            replaces=before,
            size={"main": number},
        )
    scene.clone("a", RUNS, size={"main": count})
    scene.remote_job("a", suspended=False, inactive=False, status=ONE, size={"main": count})
    scene.fleet.take_dirty()
    return scene


@each(("count"), [3, 30])
def test_slices_that_were_replaced_are_not_looked_at_for_each_status_of_their_job(count: int) -> None:
    scene = slices(count)
    scene.remote_job("a", status=TWO)
    assert scene.fleet.take_dirty() == [scene.stream]
    scene.tick(seconds=2)
    (relay,) = scene.decide()
    assert isinstance(relay, StatusRelayDecided)
    scene.fleet.take_dirty()
    scene.job(status=TWO)
    assert scene.fleet.take_dirty() == [scene.stream]


def test_those_that_have_something_left_are() -> None:
    scene = slices(4)
    scene.on("slice-2").clone("a", {"Finished": "WorkloadSliceReplaced"}, size={"main": 2})
    scene.fleet.take_dirty()
    scene.on("slice-4").job(status=TWO)
    assert scene.fleet.take_dirty() == [f"workload/{NS}/slice-{number}" for number in (2, 4)]


def test_a_config_that_is_only_labelled_has_no_workload_looked_at() -> None:
    scene = Scene("a", "b").reserved()
    scene.fleet.take_dirty()
    scene.config("a", "b")
    assert scene.stream not in scene.fleet.take_dirty()
    scene.config("a")
    assert scene.stream in scene.fleet.take_dirty()
    scene.fold("multikueueconfig/config", MultiKueueConfigGone(name="config", uid="cf"))
    assert scene.stream in scene.fleet.take_dirty()


def calls_of_a_choice(others: int) -> int:
    """How many calls it takes to fold that a cluster was chosen, where so many wait in another queue."""
    rules = ScoringRules(spread_label="metadata.name", spread_required=True)
    scene = Scene("a", "b", policy={"dispatcher": SCORED, "scoring": rules})
    for number in range(others):
        owner = Owner(api_version="batch/v1", kind="Job", name=f"other-{number}", uid=f"uid-{number}")
        scene.on(f"other-{number}").workload({"QuotaReserved": True}, cluster_queue="other", owner=owner)
    scene.on(WL).reserved()
    chosen = WinnerChosen(cluster="a", attempt=1, among={}, reason=WorkloadReason.ONLY_ADMITTED)
    scene.fleet.take_dirty()
    calls = 0

    def count(_frame: object, event: str, _of: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    scene.fold(scene.stream, chosen)
    sys.setprofile(None)
    assert scene.fleet.take_dirty() == [scene.stream]
    return calls


def test_those_that_wait_in_other_queues_are_not_looked_at_for_a_choice() -> None:
    calls_of_a_choice(1)
    assert calls_of_a_choice(200) == calls_of_a_choice(2)
