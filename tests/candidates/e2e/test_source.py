"""A source process and its targets over HTTP: who gets a pod, and what becomes of it and of everything else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from click.testing import CliRunner

from controlplane.cli import cli
from controlplane.controllers.candidates.objects import CANDIDATES, SOURCE_UID
from controlplane.kube.kinds import EVENTS, MULTIKUEUE_CLUSTERS, NAMESPACES, meta
from tests.candidates.e2e.stage import NS, Stage

Make = Callable[..., Awaitable[Stage]]


async def test_the_first_that_is_ready_gets_the_pod_and_the_others_nothing(stage: Make) -> None:
    it = await stage("east", "west")
    it.targets["west"].room = 0
    it.submit()
    assert await it.placed() == "east"
    await it.until(lambda: len(it.left()) == 2, "only the delegate and its candidate")
    (made,) = it.targets["east"].candidates
    uid = meta(it.store.get(NAMESPACES, "", "kube-system"))["uid"]
    assert meta(made)["annotations"] == {SOURCE_UID: uid}
    it.targets["east"].show("Running", startTime="2026-01-01T00:00:00Z")
    await it.until(lambda: (it.pod() or {})["status"]["phase"] == "Running", "the delegate's status")
    assert len(it.said("PermitGranted")) == 1
    events = [record.obj for record in it.store.records(EVENTS)]
    assert {e["reason"] for e in events if e["regarding"]["kind"] == "Pod"} == {"Scheduled"}


async def test_it_writes_nothing_when_nothing_happens(stage: Make) -> None:
    it = await stage("east", "west")
    it.submit()
    await it.placed()
    await it.until(lambda: len(it.left()) == 2, "only the delegate")
    await it.quiet(0.5)
    position, version = it.said("Elected"), it.store.version
    before = len(it.said("StatusShown"))
    await it.quiet(1.0)
    assert (it.said("Elected"), it.store.version, len(it.said("StatusShown"))) == (position, version, before)


@pytest.mark.deep
async def test_a_new_process_does_not_say_that_nobody_can_be_reached_before_it_has_tried(stage: Make) -> None:
    it = await stage("east", "west")
    for target in it.targets.values():
        target.room = 0
    it.submit()
    await it.until(lambda: "Insufficient cpu" in it.condition().get("message", ""), "both said no")
    await it.quiet(0.3)
    before = it.said("StatusShown")
    for _ in range(2):
        await it.kill()
        await it.up()
        await it.quiet(0.5)
    assert it.said("StatusShown") == before
    assert not any("cannot be reached" in said["message"] for said in before)


async def test_a_target_that_cannot_be_reached_delays_nobody(stage: Make) -> None:
    it = await stage("east", "west")
    it.cut("west")
    began = asyncio.get_running_loop().time()
    it.submit()
    assert await it.placed() == "east"
    assert asyncio.get_running_loop().time() - began < 3.0


async def test_nothing_is_left_of_a_source_pod_that_was_deleted_not_even_where_nobody_could_be_reached(
    stage: Make,
) -> None:
    it = await stage("east", "west")
    for target in it.targets.values():
        target.holds = True
    it.submit()
    await it.until(lambda: all(double.pods for double in it.targets.values()), "candidates everywhere")
    it.cut("west")
    it.delete()
    await it.until(lambda: not it.targets["east"].candidates, "east clean")
    it.heal("west")
    await it.until(lambda: it.left() == [], "nothing left")
    await it.until(lambda: it.said("CleanupDone"), "said so")


async def test_a_lost_delegate_begins_a_new_epoch_and_a_new_candidate(stage: Make) -> None:
    it = await stage("east", "west")
    it.targets["west"].room = 0
    it.submit()
    await it.placed(where="east")
    it.targets["west"].room, it.targets["east"].room = 100, 0
    it.targets["east"].evict()
    assert await it.placed(where="west") == "west"
    assert [found["epoch"] for found in it.said("Elected")] == [1, 2]
    assert it.said("DelegateLost")[0]["reason"] == "PodMissing"
    await it.until(lambda: len(it.left()) == 2, "only the new delegate")


async def test_a_delegate_whose_target_stays_away_is_given_up_and_removed_when_it_is_back(stage: Make) -> None:
    it = await stage("east", "west", "north")
    it.targets["west"].room = it.targets["north"].room = 0
    it.submit()
    await it.placed(where="east")
    it.targets["west"].room = 100
    it.cut("east")
    await it.until(lambda: it.bound_in() == ["east", "west"], "placed anew")
    assert it.said("DelegateLost")[0]["reason"] == "TargetLost"
    it.heal("east")
    await it.until(lambda: it.bound_in() == ["west"], "the old one removed")


async def test_a_leader_killed_between_a_permit_and_its_write_is_followed_by_one_that_sends_the_same_permit(
    stage: Make,
) -> None:
    it = await stage("east", "west", lease=timedelta(seconds=20))
    east = it.world.clusters["east"].faults
    it.targets["west"].room = 0
    silent = east.half_open(verbs=("patch",), resources=(CANDIDATES.name,))
    it.submit()
    await it.until(lambda: it.said("PermitGranted"), "the permit decided")
    await it.kill()
    assert it.bound_in() == []
    assert not any("permit" in obj["spec"] for obj in it.targets["east"].candidates)
    east.remove(silent)
    await it.up()
    assert await it.placed() == "east"
    permits = {(found["number"], found["candidate"], found["until"]) for found in it.said("PermitGranted")}
    assert len(permits) == 1


async def test_marks_that_only_we_may_set_are_refused_on_the_pod_with_what_to_do(stage: Make) -> None:
    it = await stage("east")
    it.submit("forged", annotations={"candidates.controlplane.dev/permit": "1"})
    it.submit("honest")
    await it.placed("honest")
    await it.until(lambda: it.condition("forged"), "the reason on the pod")
    said = it.condition("forged")
    assert said["status"] == "False"
    assert "candidates.controlplane.dev/permit is not for users to set: remove it" in said["message"]
    await it.until(
        lambda: [e for e in it.store.records(EVENTS) if e.obj["regarding"]["name"] == "forged"], "an Event on it"
    )
    assert it.bound_in("forged") == []


async def test_a_namespace_that_may_not_send_is_told_so_and_others_go_on(stage: Make) -> None:
    it = await stage("east", namespaces=("elsewhere",))
    it.submit()
    await it.until(lambda: it.condition(), "the reason on the pod")
    assert f'namespace "{NS}" may not send candidates' in it.condition()["message"]
    assert it.left() == []


async def test_a_target_that_does_not_invite_the_namespace_says_so_on_the_pod(stage: Make) -> None:
    it = await stage("east", invited=False)
    it.submit()
    await it.until(lambda: it.condition(), "the reason on the pod")
    assert 'cluster "home" is not invited into namespace "default"' in it.condition()["message"]
    it.invite("east")
    assert await it.placed() == "east"


async def test_a_namespaces_own_targets_and_tiers_count(stage: Make) -> None:
    it = await stage("cloud", "own", targets=())
    it.submit()
    await it.until(lambda: it.condition(), "no targets")
    assert "has no targets" in it.condition()["message"]
    it.allow("cloud", tier=1)
    it.allow("own")
    assert await it.placed() == "own"


async def test_a_workloads_pods_are_spread_over_the_targets(stage: Make) -> None:
    it = await stage("east", "west", max_skew=1)
    owner = it.owner()
    for number in range(4):
        it.submit(f"web-{number}", uid_of=owner)
    places = [await it.placed(f"web-{number}") for number in range(4)]
    assert sorted(places) == ["east", "east", "west", "west"]


async def test_a_pod_that_is_deleted_as_soon_as_it_was_made_leaves_nothing(stage: Make) -> None:
    it = await stage("east")
    for number in range(3):
        it.submit(f"brief-{number}")
        it.delete(f"brief-{number}")
    await it.until(lambda: len(it.said("CleanupDone")) == 3, "all settled")
    assert it.left() == []


def shown(it: Stage, *arguments: str) -> str:
    """What the command line prints about the stage's log."""
    result = CliRunner().invoke(cli, [*arguments, "--database-url", it.url])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.deep
async def test_the_log_tells_why_a_pod_is_where_it_is(stage: Make) -> None:
    it = await stage("east", "west")
    it.targets["west"].room = 0
    it.submit()
    it.submit("forged", annotations={"candidates.controlplane.dev/permit": "1"})
    await it.placed(where="east")
    await it.until(lambda: it.condition("forged"), "the reason on the pod")
    why = await asyncio.to_thread(shown, it, "why", f"pod/{NS}/web")
    assert "Pending: It is on node node-1 of cluster east as web-" in why  # as its delegate
    assert "because east was" in why
    why = await asyncio.to_thread(shown, it, "why", f"pod/{NS}/forged")
    assert "Pending: It is not placed, because candidates.controlplane.dev/permit is not for users to set" in why
    story = await asyncio.to_thread(shown, it, "timeline", f"pod/{NS}/web")
    told = [line for line in story.splitlines() if line.strip()]
    order = [
        "offered to east and west (epoch 1)",
        "is held for the candidate",
        "permit 1: the candidate may bind",
        "delegate is Pending on node node-1",
    ]
    places = [next(i for i, line in enumerate(told) if part in line) for part in order]
    assert places == sorted(places)
    it.delete()
    await it.until(lambda: it.said("CleanupDone"), "clean")
    assert "Deleted: It is gone, and nothing is left of it anywhere." in await asyncio.to_thread(
        shown, it, "why", f"pod/{NS}/web"
    )
    events = await asyncio.to_thread(shown, it, "events", "--stream", f"sourcepod/{NS}/web", "--type", "PermitGranted")
    assert "permit 1" in events


async def test_without_the_dispatch_of_workloads_pods_are_placed_all_the_same(stage: Make) -> None:
    it = await stage("east", controllers=("candidates",))
    it.submit()
    assert await it.placed() == "east"
    assert it.said("WorkloadObserved") == it.said("KindSynced", kind="workloads.kueue.x-k8s.io") == []


async def test_a_namespace_is_allowed_by_its_label_and_for_as_long_as_it_has_it(stage: Make) -> None:
    it = await stage("east", namespaces=(), namespace_selector="send=yes")
    it.submit("early")
    await it.until(lambda: it.condition("early"), "refused")
    assert "may not send candidates" in it.condition("early")["message"]
    it.store.patch(NAMESPACES, "", NS, {"metadata": {"labels": {"send": "yes"}}})
    assert await it.placed("early") == "east"
    it.store.patch(NAMESPACES, "", NS, {"metadata": {"labels": {"send": None}}})
    await it.until(lambda: it.said("SourceNamespaceGone"), "seen")
    it.submit("late")
    await it.until(lambda: it.condition("late"), "refused")
    it.store.patch(NAMESPACES, "", NS, {"metadata": {"labels": {"send": "yes"}}})
    assert await it.placed("late") == "east"
    assert it.bound_in("early") == ["east"]


@pytest.mark.deep
async def test_a_target_that_was_removed_while_nobody_could_say_so_is_let_go_of(stage: Make) -> None:
    it = await stage("east", "west")
    it.targets["west"].room = 0
    it.submit()
    await it.placed(where="east")
    it.targets["west"].room = 100
    it.cut("east")
    await it.kill()
    it.store.delete(MULTIKUEUE_CLUSTERS, "", "east")
    first = await it.up()
    await it.until(lambda: it.said("ClusterDisconnected"), "let go of")
    assert first.leads
    await it.until(lambda: it.bound_in() == ["east", "west"], "placed anew")


@pytest.mark.deep
async def test_a_namespace_whose_candidates_may_not_be_read_says_so_and_others_go_on(stage: Make) -> None:
    it = await stage("east", "west")
    it.world.clusters["east"].faults.storm(
        403, when=lambda asked: asked.resource == CANDIDATES.name and asked.namespace == NS
    )
    await it.replicas[-1].stop()
    await it.up()
    it.targets["west"].room = 0
    it.submit()
    await it.until(lambda: "east" in it.condition().get("message", ""), "the reason on the pod")
    assert it.condition()["reason"] == "NotPlaced"  # an autoscaler of the source would add nodes in vain
    assert "east: it answers, but candidates of this namespace cannot be read there" in it.condition()["message"]
    assert "(the server is simulated to be in trouble)" in it.condition()["message"]
    assert "cannot be reached" not in it.condition()["message"]
    it.targets["west"].room = 5
    it.submit("other")
    assert await it.placed("other") == "west"


@pytest.mark.deep
async def test_where_no_target_lets_candidates_be_read_that_is_the_reason(stage: Make) -> None:
    it = await stage("east")
    it.world.clusters["east"].faults.storm(403, when=lambda asked: asked.resource == CANDIDATES.name)
    await it.replicas[-1].stop()
    await it.up()
    it.submit()
    await it.until(lambda: it.condition(), "the reason on the pod")
    assert it.said("StatusShown")[-1]["reason"] == "CandidatesUnreadable"
    why = await asyncio.to_thread(shown, it, "why", f"pod/{NS}/web")
    assert "cannot be read there" in why
