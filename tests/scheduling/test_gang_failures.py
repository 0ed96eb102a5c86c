"""What becomes of a gang whose members were let go together and not all bound; and what of that a new process knows."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controlplane.controllers.scheduling.events import (
    BindingDecided,
    GangJudged,
    GangStart,
    NodeReserved,
    ReservationDropped,
)
from controlplane.controllers.scheduling.snapshot.storage import SELECTED_NODE
from controlplane.kube.kinds import PODS
from controlplane.runtime.controller import OpenWrite
from tests.scheduling.bench import CLAIMS, Bench
from tests.scheduling.test_quorums import CONFIG, about_to_be_released, come, gang, ready, run
from tests.scheduling.volumes import CSI, VolumeBench


def let_go(bench: Bench) -> None:
    """Run until the bindings of a gang are on their way."""
    run(bench)
    bench.decide()
    assert bindings(bench)


def bindings(bench: Bench) -> list[OpenWrite]:
    return [write for write in bench.writes() if write.action == "BindingDecided"]


def answer(bench: Bench, **answers: int) -> None:
    """Answer the bindings of pods, in this order."""
    for name, code in answers.items():
        (write,) = (one for one in bindings(bench) if one.stream.endswith(f"/{name}"))
        bench.carry_out(write, code)
    bench.decide()
    run(bench)


def tried(bench: Bench, name: str) -> int:
    return sum(isinstance(one.event, NodeReserved) and one.stream.endswith(f"/{name}") for one in bench.log)


def pass_time(bench: Bench, seconds: float) -> None:
    bench.pass_time(seconds)
    run(bench)


def half_bound_beside_another() -> Bench:
    """One of three is bound, two are refused, and a pod that is in no gang takes the place of one."""
    bench = ready("n", cpu="3")
    gang(bench, "g", 3)
    let_go(bench)
    answer(bench, g0=201, g1=403, g2=403)
    come(bench, "other", "", cpu="1")
    run(bench)
    return bench


def test_a_refused_binding_after_the_quorum_makes_the_gang_rest_and_the_rest_is_counted_with_those_bound() -> None:
    bench = ready("n", cpu="3")
    gang(bench, "g", 3)
    let_go(bench)
    answer(bench, g0=201, g1=403, g2=201)
    assert (bench.on("g0"), bench.on("g1"), bench.on("g2")) == ("n", "", "n")
    assert bench.recorded(GangStart)[-1].failures == 1
    assert [judged.condition for judged in bench.recorded(GangJudged)][-2:] == ["Scheduled", "Unschedulable"]
    pass_time(bench, 0.5)
    assert tried(bench, "g1") == 1  # it rests
    bench.settle(7)
    assert bench.on("g1") == "n"
    assert bench.recorded(GangStart)[-1].together
    assert bench.recorded(GangStart)[-1].failures == 0
    assert [judged.condition for judged in bench.recorded(GangJudged)][-1] == "Scheduled"


def test_who_is_not_bound_yet_gives_its_place_back_with_the_one_that_failed() -> None:
    bench = VolumeBench(CONFIG)
    bench.node("n")
    bench.storage_class("made", CSI)
    bench.group("g", 3)
    for number in range(3):
        bench.claim(f"data{number}", "made")
        bench.using(f"g{number}", f"data{number}", group="g")
    bench.go()
    assert len(bench.view.claims) == 3  # all wait for their volumes
    bench.volume("v0", "n", storageClassName="made")
    bench.bind_claim("data0", "v0")
    bench.go()
    assert bench.on("g0") == "n"
    bench.change(CLAIMS, "data1", {"metadata": {"annotations": {SELECTED_NODE: None}}})
    run(bench)
    assert bench.view.claims == {}
    assert sorted(drop.plugin for drop in bench.recorded(ReservationDropped)) == ["", "Gang"]
    for number in (1, 2):
        bench.volume(f"v{number}", "n", storageClassName="made")
        bench.bind_claim(f"data{number}", f"v{number}")
    for _ in range(4):
        bench.pass_time(11)
        bench.go()
    assert all(bench.on(f"g{number}") == "n" for number in range(3))


def test_those_that_are_left_go_together_or_not_at_all() -> None:
    bench = half_bound_beside_another()
    bench.settle(8)
    assert bench.on("other") == "n"
    assert (bench.on("g1"), bench.on("g2")) == ("", "")  # room for one of them alone is no room
    assert not {"g1", "g2"} & {name for _, name in bench.view.claims}
    bench.node("m", "2")
    bench.settle(8)
    assert bench.on("g1")
    assert bench.on("g2")


def test_rests_grow_as_long_as_the_gang_does_not_come_together() -> None:
    bench = ready("n", cpu="2")
    gang(bench, "g", 2)
    for failures, seconds in ((1, 1), (2, 2), (3, 4)):
        let_go(bench)
        answer(bench, g0=403, g1=403)
        rests = [start for start in bench.recorded(GangStart) if start.until is not None]
        assert rests[-1].failures == failures
        assert rests[-1].until == bench.now + timedelta(seconds=seconds)
        for _ in range(seconds + 2):
            pass_time(bench, 1)
            bench.decide()
            if bindings(bench):
                break
    let_go(bench)
    answer(bench, g0=201, g1=201)
    assert bench.recorded(GangStart)[-1].failures == 0


@pytest.mark.parametrize("restarts", [False, True])
def test_a_rest_outlives_the_process(restarts: bool) -> None:
    bench = ready("n", cpu="2")
    gang(bench, "g", 3)
    run(bench)
    (rest,) = bench.recorded(GangStart)
    assert (rest.failures, rest.until) == (1, bench.now + timedelta(seconds=1))
    bench.now += timedelta(seconds=2)
    bench.node("m", "1")
    bench.delete("nodes", "m")
    run(bench)
    assert bench.recorded(GangStart)[-1].failures == 2
    before = len(bench.recorded(NodeReserved))
    bench.node("m", "1")
    if restarts:
        bench.start()
    pass_time(bench, 1)
    assert len(bench.recorded(NodeReserved)) == before  # two seconds of rest
    bench.settle(8)
    assert all(bench.on(f"g{number}") for number in range(3))


def test_a_new_process_knows_that_a_gang_did_not_come_together() -> None:
    bench = half_bound_beside_another()
    bench.settle(1)
    bench.start()
    bench.settle(8)
    assert (bench.on("g1"), bench.on("g2")) == ("", "")
    bench.node("m", "1")
    bench.settle(8)
    assert bench.on("g1")
    assert bench.on("g2")


@pytest.mark.parametrize("restarts", [False, True])
def test_a_gang_that_came_together_loses_a_member_and_the_new_one_needs_no_quorum(restarts: bool) -> None:
    bench = ready("n", cpu="3")
    gang(bench, "g", 3)
    bench.settle(5)
    for name in ("g1", "g2"):
        bench.delete("pods", name)
    run(bench)
    if restarts:
        bench.start()
    come(bench, "g3", "g")
    let_go(bench)
    answer(bench, g3=403)
    pass_time(bench, 2)
    bench.decide()
    assert tried(bench, "g3") == 2  # its own back-off alone
    assert bench.recorded(GangStart)[-1].failures == 0
    bench.settle(2)
    assert bench.on("g3") == "n"


@pytest.mark.parametrize("restarts", [False, True])
def test_once_nobody_runs_a_gang_begins_anew(restarts: bool) -> None:
    bench = ready("n", cpu="3")
    gang(bench, "g", 3)
    bench.settle(5)
    for number in range(3):
        bench.delete("pods", f"g{number}")
    run(bench)
    if restarts:
        bench.start()
    assert not bench.recorded(GangStart)[-1].together
    for number in range(3, 5):
        come(bench, f"g{number}", "g")
    bench.settle(3)
    assert not any(bench.on(f"g{number}") for number in range(3, 5))


def test_a_gang_of_before_the_log_knew_such_things_is_not_held() -> None:
    bench = ready("n", cpu="4")
    bench.group("g", 3)
    for number in range(3):
        bench.pod(f"g{number}", group="g", nodeName="n")
    bench.start()
    bench.delete("pods", "g2")
    bench.delete("pods", "g1")
    come(bench, "g3", "g")
    bench.settle(3)
    assert bench.on("g3") == "n"


def test_it_is_quiet_once_nothing_changes() -> None:
    bench = ready("n", cpu="3")
    gang(bench, "g", 3)
    bench.settle(6)
    length = len(bench.log)
    bench.start()
    bench.settle(4)
    assert len(bench.log) == length
    assert len(bench.recorded(BindingDecided)) == 3


@pytest.mark.parametrize("seen", ["in the log", "by the watch"])
def test_a_member_that_goes_while_its_gang_is_let_go_turns_the_others_back(seen: str) -> None:
    """The watch may have it a moment before the log does; then the release is taken, and nobody is bound by it."""
    bench = about_to_be_released()
    (release,) = bench.outbox
    if seen == "by the watch":
        bench.loop.changed(PODS, bench.objects["pods", "g0"], bench.now, gone=True)
        assert bench.commit(release)
    bench.delete("pods", "g0")
    assert seen == "by the watch" or not bench.commit(release)
    run(bench)
    assert bench.recorded(BindingDecided) == []
    assert bench.view.claims == {}
    come(bench, "g3", "g")
    bench.settle(8)
    assert all(bench.on(name) for name in ("g1", "g2", "g3"))


def test_who_has_to_be_where_a_sibling_is_does_not_keep_the_gang_back_by_being_older() -> None:
    bench = ready("n", "m", cpu="3")
    bench.group("g", 3)
    term = {"labelSelector": {"matchLabels": {"app": "first"}}, "topologyKey": "kubernetes.io/hostname"}
    beside = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    come(bench, "a", "g", cpu="1", affinity=beside)
    come(bench, "b", "g", cpu="1", affinity=beside)
    bench.pass_time(1)
    come(bench, "z", "g", cpu="1", app="first")
    let_go(bench)
    reserved = [one.node for one in bench.recorded(NodeReserved)]
    assert reserved in (["n"] * 3, ["m"] * 3)
