"""A candidate's PodGroup that is not in the target: its Pods say how many start together, as long as nobody here says
otherwise.
"""

from __future__ import annotations

from controlplane.controllers.scheduling.gangs.state import ClusterGangs
from controlplane.controllers.scheduling.snapshot.objects import read_pod
from controlplane.kube.kinds import Json
from controlplane.kube.pod_groups import GROUP_NAME, QUORUM

PLACE = ("default", "g")


def pod(number: int, least: str = "2") -> Json:
    notes = {GROUP_NAME: "g", **({QUORUM: least} if least else {})}
    head = {"name": f"p-{number}", "namespace": "default", "uid": f"p-{number}", "annotations": notes}
    return {"metadata": head, "spec": {"containers": []}}


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
    gangs.drop(PLACE)
    assert held(gangs) == ""
    gangs.put(group(3))
    assert held(gangs) == "TooFewMembers"
    assert gangs.condition(PLACE, "why") is not None


def test_without_a_word_of_the_source_the_group_is_missed() -> None:
    gangs = ClusterGangs()
    for least in ("", "0", "-1", "two"):
        gangs.see(read_pod(pod(0, least)))
        assert held(gangs) == "GroupMissing"
