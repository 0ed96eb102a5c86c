"""The plugin Gang by itself: how it is enabled, its args, the order of the queue, and what a PodGroup may say."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.controllers.scheduling.framework.configuration import (
    ConfigurationError,
    build,
    default_framework,
    read,
)
from controlplane.controllers.scheduling.framework.plugin import CycleState, QueuedPod
from controlplane.controllers.scheduling.framework.status import Code
from controlplane.controllers.scheduling.gangs.place import Place
from controlplane.controllers.scheduling.gangs.state import ClusterGangs
from controlplane.controllers.scheduling.plugins.gang import Gang
from controlplane.controllers.scheduling.snapshot.cluster import ClusterTables
from controlplane.controllers.scheduling.snapshot.objects import read_pod
from controlplane.controllers.scheduling.snapshot.snapshot import Snapshot
from controlplane.kube.kinds import Json
from controlplane.kube.pod_fields import PodMisfit
from controlplane.kube.pod_groups import GROUP_NAME
from tests.scheduler.objects import node, pod
from tests.support.rows import each

ENABLED = {"multiPoint": {"enabled": [{"name": "Gang"}], "disabled": [{"name": "PrioritySort"}]}}


def profile(name: str = "p", **args: Any) -> Json:
    return {"schedulerName": name, "plugins": ENABLED, "pluginConfig": [{"name": "Gang", "args": args}]}


def problems(*profiles: Json) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        build(read({"profiles": list(profiles)}))
    return caught.value.problems


def a_group(name: str, least: int = 1, created: str = "2026-01-01T00:00:00Z", **spec: Any) -> Json:
    metadata = {"namespace": "default", "name": name, "creationTimestamp": created}
    return {"metadata": metadata, "spec": {"minMember": least, **spec}}


def member(name: str, group: str, **more: Any) -> Json:
    found = pod(name, **more)
    found["metadata"]["annotations"] = {GROUP_NAME: group}
    return found


def begun(cluster: ClusterTables) -> Gang:
    plugin = Gang()
    plugin.begin(cluster)
    cluster.gangs.now = datetime(2026, 1, 2, tzinfo=UTC)
    return plugin


def test_it_is_not_in_the_default_profile() -> None:
    everywhere = default_framework().points.values()
    assert not any(plugin.name == "Gang" for plugins in everywhere for plugin in plugins)


def test_it_takes_the_place_of_priority_sort() -> None:
    points = build(read({"profiles": [profile()]}))["p"].points
    where = {point for point, plugins in points.items() if any(plugin.name == "Gang" for plugin in plugins)}
    assert where == {"preEnqueue", "queueSort", "preFilter", "permit"}
    assert len(points["queueSort"]) == 1


def test_beside_priority_sort_it_is_refused() -> None:
    both = {"schedulerName": "p", "plugins": {"multiPoint": {"enabled": [{"name": "Gang"}]}}}
    assert problems(both) == ["profiles[0].plugins.queueSort: exactly one plugin is needed"]


@each(
    ("args", "field"),
    [
        ({"scheduleTimeoutSeconds": 0}, "scheduleTimeoutSeconds"),
        ({"scheduleTimeoutSeconds": 901}, "scheduleTimeoutSeconds"),
        ({"initialBackoffSeconds": 0}, "initialBackoffSeconds"),
        ({"initialBackoffSeconds": 5, "maxBackoffSeconds": 1}, "maxBackoffSeconds"),
        ({"toleratedGapPercent": 100}, "toleratedGapPercent"),
        ({"toleratedGap": 1}, "args"),
    ],
)
def test_wrong_args_are_named(args: Json, field: str) -> None:
    assert any(field in problem for problem in problems(profile(**args)))


def test_all_profiles_need_the_same_args() -> None:
    assert "same args of plugin Gang" in problems(profile("p"), profile("q", scheduleTimeoutSeconds=9))[0]


def test_groups_one_after_the_other_and_members_side_by_side() -> None:
    cluster = ClusterTables()
    plugin = begun(cluster)
    cluster.gangs.here.put_class({"metadata": {"name": "urgent"}, "value": 100})
    cluster.gangs.put(a_group("late", created="2026-01-01T01:00:00Z"))
    cluster.gangs.put(a_group("early"))
    cluster.gangs.put(a_group("urgent", created="2026-01-01T02:00:00Z", priorityClassName="urgent"))
    pods = [read_pod(member(f"{group}-{n}", group)) for n in range(2) for group in ("late", "early", "urgent")]
    pods.append(read_pod(pod("single", priority=50)))
    for one in pods:
        cluster.gangs.see(one)
    order = sorted((QueuedPod(one, 1.0 + at) for at, one in enumerate(pods)), key=plugin.sort_key)
    assert [queued.pod.name for queued in order] == [
        "urgent-0",
        "urgent-1",
        "single",
        "early-0",
        "early-1",
        "late-0",
        "late-1",
    ]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minMember": 0}, "minMember"),
        ({"minMember": "3"}, "minMember"),
        ({"minMember": 1, "minResources": {"cpu": "many"}}, "minResources[cpu]"),
    ],
)
def test_a_group_that_cannot_be_read_names_the_field_and_holds_its_pods(spec: Json, field: str) -> None:
    cluster = ClusterTables()
    plugin = begun(cluster)
    with pytest.raises(PodMisfit) as caught:
        cluster.gangs.put({**a_group("g"), "spec": spec})
    assert field in str(caught.value)
    one = read_pod(member("g-0", "g"))
    cluster.gangs.see(one)
    (reason,) = plugin.pre_enqueue(one).reasons
    assert field in reason


def test_min_resources_leave_the_own_pods_out_and_read_quota_names() -> None:
    cluster = ClusterTables()
    plugin = begun(cluster)
    cluster.gangs.put(a_group("g", 2, minResources={"requests.cpu": "3", "pods": "2"}))
    running = {**member("other", "g", requests={"cpu": "1"})}
    pods = [read_pod(member(f"g-{number}", "g", requests={"cpu": "2"})) for number in range(2)]
    for one in pods:
        cluster.gangs.see(one)
    snapshot = Snapshot([_node("n", "2")], cluster=cluster)
    status = plugin.pre_filter(CycleState(), pods[0], snapshot).status
    assert status.code is Code.UNRESOLVABLE
    assert status.reasons == ("the cluster has too little cpu for minResources of PodGroup g",)
    snapshot.put_node(_node("m", "2"))
    assert plugin.pre_filter(CycleState(), pods[0], snapshot).status.ok
    snapshot.add_pod(pods[0], "n")  # it is its own, and counts for the group
    assert plugin.pre_filter(CycleState(), pods[1], snapshot).status.ok
    snapshot.add_pod(read_pod({**running, "metadata": {**running["metadata"], "annotations": {}}}), "m")
    assert plugin.pre_filter(CycleState(), pods[1], snapshot).status.ok
    snapshot.add_pod(read_pod(pod("big", requests={"cpu": "1"})), "m")
    assert not plugin.pre_filter(CycleState(), pods[1], snapshot).status.ok


def test_without_a_cluster_it_has_no_say() -> None:
    plugin, one = Gang(), read_pod(member("g-0", "g"))
    assert plugin.pre_enqueue(one).ok
    assert plugin.pre_filter(CycleState(), one, Snapshot()).status.ok
    assert plugin.permit(CycleState(), one, "n").status.ok


@pytest.mark.parametrize(
    ("more", "counts"),
    [
        ({}, True),
        ({"schedulingGates": [{"name": "example.com/later"}]}, False),
    ],
)
def test_who_has_scheduling_gates_is_not_there_yet(more: Json, counts: bool) -> None:
    gangs = ClusterGangs()
    gangs.put(a_group("g", 2))
    gangs.see(read_pod(member("g-0", "g")))
    second = member("g-1", "g")
    gangs.see(read_pod({**second, "spec": {**second["spec"], **more}}))
    assert (gangs.hold(Place("default", "g")) is None) is counts


def test_a_member_that_is_being_deleted_holds_no_quorum() -> None:
    gangs = ClusterGangs()
    gangs.put(a_group("g", 2))
    for number in range(2):
        gangs.see(read_pod(member(f"g-{number}", "g", on="n")))
    assert gangs.singly(Place("default", "g"))
    for number in range(2):
        leaving = member(f"g-{number}", "g", on="n")
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        gangs.see(read_pod(leaving))
    gangs.see(read_pod(member("g-2", "g")))
    assert not gangs.singly(Place("default", "g"))
    assert gangs.hold(Place("default", "g")) is not None


def _node(name: str, cpu: str) -> Any:
    from controlplane.controllers.scheduling.snapshot.objects import read_node

    return read_node(node(name, allocatable={"cpu": cpu, "memory": "1Gi", "pods": "10"}))


def waiting_for_groups(*names: str) -> tuple[ClusterTables, Gang]:
    cluster = ClusterTables()
    plugin = build(read({"profiles": [profile("p", waitForGroup=list(names))]}))["p"].points["preEnqueue"][-1]
    assert isinstance(plugin, Gang)
    plugin.begin(cluster)
    return cluster, plugin


def test_a_pod_that_is_to_be_grouped_by_others_waits_until_it_names_a_group() -> None:
    """Found by the simulation, in its first scene: pods of a Deployment went to nodes before anybody had put them into
    their group.
    """
    cluster, plugin = waiting_for_groups("batch")
    one = read_pod(pod("g-0", schedulerName="batch"))
    (reason,) = plugin.pre_enqueue(one).reasons
    assert reason == "the pod names no PodGroup yet"
    assert plugin.pre_filter(CycleState(), one, Snapshot(cluster=cluster)).status.reasons == (reason,)
    cluster.gangs.put(a_group("g"))
    named = read_pod(member("g-0", "g", schedulerName="batch"))
    cluster.gangs.see(named)
    assert plugin.pre_enqueue(named).code is Code.SUCCESS


def test_pods_of_other_profiles_go_alone() -> None:
    cluster, plugin = waiting_for_groups("batch")
    alone = read_pod(pod("alone", schedulerName="default-scheduler"))
    assert plugin.pre_enqueue(alone).code is Code.SUCCESS
    assert plugin.pre_filter(CycleState(), alone, Snapshot(cluster=cluster)).status.code is Code.SKIP


def test_a_profile_without_a_name_is_refused() -> None:
    assert problems(profile(waitForGroup=["batch", ""]))[0].endswith(
        "waitForGroup[1]: is empty; name a profile, or leave it out"
    )
