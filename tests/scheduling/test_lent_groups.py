"""A candidate's PodGroup that is not in the target: its Pods say how many start together, as long as nobody here says
otherwise.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controlplane.controllers.scheduling.gangs.place import UNMARKED, Place
from controlplane.controllers.scheduling.gangs.state import ClusterGangs
from controlplane.controllers.scheduling.snapshot.objects import read_pod
from controlplane.kube.candidate_pods import CANDIDATE, SOURCE, SOURCE_UID
from controlplane.kube.kinds import Json
from controlplane.kube.pod_groups import GROUP_NAME, QUORUM

PLACE = Place("default", "g", "a")


def pod(number: int, least: str = "2", source: str = "a", node: str = "", uid: str = "") -> Json:
    notes = {GROUP_NAME: "g", **({QUORUM: least} if least else {}), **({SOURCE: source} if source else {})}
    notes |= {SOURCE_UID: uid} if uid else {}
    name = f"{source}-{number}" if source not in ("", "a") else f"p-{number}"
    name = f"{uid}-{number}" if uid else name
    head = {"name": name, "namespace": "default", "uid": name, "labels": {CANDIDATE: name}, "annotations": notes}
    return {"metadata": head, "spec": {"containers": [], **({"nodeName": node} if node else {})}}


def group(least: int) -> Json:
    return {"metadata": {"name": "g", "namespace": "default"}, "spec": {"minMember": least}}


def held(gangs: ClusterGangs) -> str:
    found = gangs.hold(PLACE)
    return found.reason if found is not None else ""


def test_members_wait_for_as_many_as_their_source_says() -> None:
    gangs = ClusterGangs()
    gangs.see(read_pod(pod(0)))
    assert held(gangs) == "TooFewMembers"
    gangs.see(read_pod(pod(1)))
    assert held(gangs) == ""
    assert gangs.condition(PLACE, "why") is None  # there is no PodGroup to write it on
    gangs.see(read_pod(pod(2, "3")))
    assert gangs.groups[PLACE].min_member == 3  # the source has changed its mind
    for number in range(3):
        gangs.forget(f"p-{number}")
    assert PLACE not in gangs.groups


def test_a_pod_group_of_this_cluster_says_more() -> None:
    gangs = ClusterGangs()
    gangs.put(group(3))
    for number in (0, 1):
        gangs.see(read_pod(pod(number)))
    assert held(gangs) == "TooFewMembers"
    gangs.drop(PLACE[:2])
    assert held(gangs) == ""
    gangs.put(group(3))
    assert held(gangs) == "TooFewMembers"
    assert gangs.condition(PLACE, "why") is not None


def test_without_a_word_of_the_source_the_group_is_missed() -> None:
    gangs = ClusterGangs()
    for least in ("", "0", "-1", "two"):
        gangs.see(read_pod(pod(0, least)))
        assert held(gangs) == "GroupMissing"


def test_gangs_of_two_sources_never_mix() -> None:
    gangs = ClusterGangs()
    gangs.see(read_pod(pod(0, "2", "a")))
    gangs.see(read_pod(pod(0, "3", "b")))
    other = Place("default", "g", "b")
    assert held(gangs) == "TooFewMembers"  # the other source's pod is none of its members
    gangs.see(read_pod(pod(1, "2", "a")))
    assert held(gangs) == ""
    assert gangs.groups[PLACE].min_member == 2
    assert gangs.groups[other].min_member == 3
    assert gangs.hold(other) is not None
    for number in (0, 1):
        gangs.see(read_pod(pod(number, "2", "a", node="n")))
    assert gangs.singly(PLACE)
    assert not gangs.singly(other)


@pytest.mark.parametrize("least", ["2", ""])
def test_a_pod_group_of_this_cluster_has_a_gang_for_each_source(least: str) -> None:
    gangs = ClusterGangs()
    gangs.put(group(2))
    own, other = Place("default", "g"), Place("default", "g", "b")
    gangs.see(read_pod(pod(0, least, "a")))
    gangs.see(read_pod(pod(0, least, "b")))
    here = pod(0)
    here["metadata"] |= {"name": "own", "uid": "own", "labels": {}, "annotations": {GROUP_NAME: "g"}}
    gangs.see(read_pod(here))
    for place in (own, PLACE, other):
        assert gangs.members(place)
        assert gangs.hold(place) is not None
    # One of them speaks for the PodGroup at a time: this cluster's own pods, where there are some.
    assert gangs.condition(own, "why") is not None
    assert gangs.condition(PLACE, "why") is None
    assert gangs.condition(other, "why") is None
    gangs.forget("own")
    assert gangs.condition(PLACE, "why") is not None
    assert gangs.condition(other, "why") is None
    gangs.put(group(1))
    assert all(gangs.hold(place) is None for place in (PLACE, other))


def test_two_gangs_of_one_name_are_tried_one_after_the_other() -> None:
    gangs = ClusterGangs()
    gangs.put(group(2))
    pods = [read_pod(pod(number, "2", source)) for number in (0, 1) for source in ("a", "b")]
    for one in pods:
        gangs.see(one)
    assert [one.source for one in sorted(pods, key=lambda one: gangs.sort_key(one, 0.0))] == ["a", "a", "b", "b"]


def test_a_pod_of_before_waits_until_it_says_its_source() -> None:
    """Pods that an earlier version made do not say which source they are of: they may be two gangs."""
    gangs = ClusterGangs()
    for number in (0, 1):
        gangs.see(read_pod(pod(number, "2", "", node="n")))
    gangs.see(read_pod(pod(2, "2", "")))
    unknown = Place("default", "g", UNMARKED)
    assert gangs.members(unknown) == ["p-0", "p-1", "p-2"]
    found = gangs.hold(unknown)
    assert found is not None
    assert found.reason == "SourceUnknown"
    assert not gangs.singly(unknown)
    for number in (0, 1, 2):
        gangs.see(read_pod(pod(number, "2", "a", node="n" if number < 2 else "")))
    assert gangs.members(unknown) == []
    assert held(gangs) == ""
    assert gangs.singly(PLACE)


def test_gangs_of_two_clusters_that_have_one_name_never_mix() -> None:
    gangs = ClusterGangs()
    one, other = Place("default", "g", "a", "u1"), Place("default", "g", "a", "u2")
    gangs.see(read_pod(pod(0, uid="u1")))
    gangs.see(read_pod(pod(0, uid="u2")))
    assert [found.reason for place in (one, other) if (found := gangs.hold(place))] == ["TooFewMembers"] * 2
    gangs.see(read_pod(pod(1, uid="u1")))
    assert gangs.hold(one) is None
    assert gangs.hold(other) is not None
    pods = [read_pod(pod(number, uid=uid)) for number in (0, 1) for uid in ("u1", "u2")]
    assert [one.uid for one in sorted(pods, key=lambda one: gangs.sort_key(one, 0.0))] == [
        "u1-0",
        "u1-1",
        "u2-0",
        "u2-1",
    ]


def test_what_says_no_cluster_counts_with_those_that_say_one() -> None:
    """A gang that runs since before its Candidates said it gets new members that say it."""
    gangs = ClusterGangs()
    for number in (0, 1):
        gangs.see(read_pod(pod(number, "2", node="n")))
    assert gangs.singly(PLACE)
    gangs.see(read_pod(pod(2, "2", uid="u1")))
    whole = Place("default", "g", "a", "u1")
    assert sorted(gangs.members(whole)) == ["p-0", "p-1", "u1-2"]
    assert gangs.members(PLACE) == []
    assert gangs.singly(whole)
    assert {gangs.place(name) for name in ("p-0", "p-1", "u1-2")} == {whole}


def test_of_two_clusters_it_counts_with_neither() -> None:
    gangs = ClusterGangs()
    gangs.see(read_pod(pod(0, "2", node="n")))
    gangs.see(read_pod(pod(1, "2", uid="u1")))
    gangs.see(read_pod(pod(2, "2", uid="u2")))
    assert gangs.members(PLACE) == ["p-0"]
    assert gangs.members(Place("default", "g", "a", "u1")) == ["u1-1"]
    gangs.forget("u2-2")
    assert sorted(gangs.members(Place("default", "g", "a", "u1"))) == ["p-0", "u1-1"]
    gangs.forget("u1-1")
    assert gangs.members(PLACE) == ["p-0"]


def test_who_waits_and_who_was_let_go_does_so_also_once_its_gang_says_its_cluster() -> None:
    gangs = ClusterGangs()
    until = datetime(2026, 1, 1, tzinfo=UTC)
    for number in (0, 1, 2):
        gangs.see(read_pod(pod(number, "3")))
    gangs.reserved("p-0", until)
    gangs.reserved("p-1", until)
    gangs.let_go("p-1")
    marked = pod(2, "3")
    marked["metadata"]["annotations"][SOURCE_UID] = "u1"
    gangs.see(read_pod(marked))
    whole = Place("default", "g", "a", "u1")
    assert gangs.waiting() == {whole: until}
    assert gangs.gang(whole).released == {"p-1"}
