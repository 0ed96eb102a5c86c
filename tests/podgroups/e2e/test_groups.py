"""PodGroups over HTTP: a process, a simulated cluster with Deployments and a toy scheduler, and what users would see of
it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from controlplane.kube.kinds import EVENTS, NODES, PODS, Json, meta
from controlplane.simulation.kinds.base import CONFIG_MAPS, DEFAULT_KINDS
from controlplane.simulation.kinds.own_cluster import DEPLOYMENTS, POD_GROUPS, REPLICA_SETS, WORKFLOWS
from tests.support.local import NS, Make, Stage

GROUP_NAME = "scheduling.k8s.io/group-name"
MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
CONFIG = ("volcano-controller-configmap", "volcano-system")


def container(cpu: str = "500m") -> Json:
    return {"name": "c", "image": "example.com/app:1", "resources": {"requests": {"cpu": cpu}}}


def template(app: str, **spec: Any) -> Json:
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"schedulerName": "volcano", "containers": [container()], **spec},
    }


def deployment(it: Stage, name: str, replicas: int, **annotations: str) -> Json:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name)}
    return it.make(DEPLOYMENTS, name, metadata={"annotations": annotations}, spec=spec)


def rules(it: Stage, text: str) -> None:
    it.make(CONFIG_MAPS, *CONFIG, data={"volcano-controller.conf": text})


BY_DEPLOYMENT = "podgroup-level-rules:\n- apiversion: apps/v1\n  kind: deployment\n"


def groups_of(it: Stage, app: str) -> set[str]:
    return {(meta(pod).get("annotations") or {}).get(GROUP_NAME, "") for pod in it.pods(app=app)}


def running(it: Stage, app: str) -> int:
    return sum((pod.get("status") or {}).get("phase") == "Running" for pod in it.pods(app=app))


def phase(it: Stage, name: str) -> str:
    found = it.get(POD_GROUPS, name) or {}
    return str((found.get("status") or {}).get("phase", ""))


async def test_fifty_pods_of_five_deployments_are_five_groups_without_a_single_read(stage: Make) -> None:
    it = await stage(start=False)
    rules(it, BY_DEPLOYMENT)
    made = [deployment(it, f"web-{number}", 10, **{MIN_MEMBER: "10"}) for number in range(5)]
    await it.up()
    await it.until(lambda: all(running(it, f"web-{number}") == 10 for number in range(5)), "50 running pods")
    for number, owner in enumerate(made):
        name = f"podgroup-{meta(owner)['uid']}"
        assert groups_of(it, f"web-{number}") == {name}
        group = it.get(POD_GROUPS, name)
        assert group is not None
        [reference] = meta(group)["ownerReferences"]
        assert (reference["kind"], reference["uid"], reference["controller"]) == (
            "Deployment",
            meta(owner)["uid"],
            True,
        )
        assert group["spec"]["minMember"] == 10
        assert group["spec"]["minResources"] == {"cpu": "5"}
        await it.until(lambda name=name: phase(it, name) == "Running", "the phase")
    assert len(it.all(POD_GROUPS)) == 5
    assert it.requests("create", "podgroups.scheduling.volcano.sh") == 5
    assert it.said("OwnerRead") == []  # Deployments and ReplicaSets are watched
    assert it.requests("get", "deployments.apps") == it.requests("get", "replicasets.apps") == 0
    await it.quiet()


async def test_owners_of_other_kinds_are_read_once_however_many_pods_they_have(stage: Make) -> None:
    it = await stage(start=False)
    rules(it, "podgroup-level-rules:\n- apiversion: argoproj.io/v1alpha1\n  kind: workflow\n  adjust-level: 0\n")
    flow = it.make(WORKFLOWS, "outer", spec={})
    flow_ref = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "controller": True}
    inner = it.make(
        WORKFLOWS, "inner", metadata={"ownerReferences": [{**flow_ref, "name": "outer", "uid": meta(flow)["uid"]}]}
    )
    middle = it.make(
        REPLICA_SETS,
        "odd",
        metadata={"ownerReferences": [{**flow_ref, "kind": "Workflow", "name": "inner", "uid": meta(inner)["uid"]}]},
        spec={"replicas": 20, "selector": {"matchLabels": {"app": "odd"}}, "template": template("odd")},
    )
    await it.up()
    await it.until(lambda: running(it, "odd") == 20, "20 running pods under the first rules")
    # The rule is moved up to a kind that is nowhere: the walk has to go to the root, by reading.
    it.patch(
        CONFIG_MAPS,
        CONFIG[0],
        {"data": {"volcano-controller.conf": "podgroup-level-rules:\n- {apiversion: v1, kind: nowhere}\n"}},
        CONFIG[1],
    )
    await it.until(lambda: it.said("RulesAccepted")[1:], "other rules")
    late = it.make(
        REPLICA_SETS,
        "late",
        metadata={"ownerReferences": [{**flow_ref, "kind": "Workflow", "name": "inner", "uid": meta(inner)["uid"]}]},
        spec={"replicas": 20, "selector": {"matchLabels": {"app": "late"}}, "template": template("late")},
    )
    await it.until(lambda: running(it, "late") == 20, "20 running pods")
    assert groups_of(it, "late") == {f"podgroup-{meta(late)['uid']}"}
    assert groups_of(it, "odd") == {f"podgroup-{meta(inner)['uid']}"}, middle
    assert it.requests("get", "workflows.argoproj.io") == 2  # inner and outer, once each


async def test_other_rules_name_no_live_group_anew_and_new_pods_follow_them(stage: Make) -> None:
    it = await stage(start=False)
    rules(it, BY_DEPLOYMENT)
    old = deployment(it, "old", 3)
    await it.up()
    await it.until(lambda: running(it, "old") == 3, "running pods")
    it.patch(CONFIG_MAPS, CONFIG[0], {"data": {"volcano-controller.conf": "podgroup-level-rules: []\n"}}, CONFIG[1])
    await it.until(lambda: it.said("RulesAccepted")[1:], "other rules")
    deployment(it, "new", 2)
    await it.until(lambda: running(it, "new") == 2, "running pods")
    assert groups_of(it, "old") == {f"podgroup-{meta(old)['uid']}"}
    [sets] = it.all(REPLICA_SETS, app="new")
    assert groups_of(it, "new") == {f"podgroup-{meta(sets)['uid']}"}


async def test_a_bad_document_leaves_the_last_good_rules_in_force_and_says_so(stage: Make) -> None:
    it = await stage(start=False)
    rules(it, BY_DEPLOYMENT)
    await it.up()
    bad = "podgroup-level-rules:\n- apiversion: apps/v1\n  kind: deployment\n  adjust-level: 3\n"
    it.patch(CONFIG_MAPS, CONFIG[0], {"data": {"volcano-controller.conf": bad}}, CONFIG[1])

    def told() -> list[Json]:
        return [one for one in it.all(EVENTS) if one["regarding"]["name"] == CONFIG[0] and one["type"] == "Warning"]

    await it.until(told, "an Event on the ConfigMap")
    assert "adjust-level" in told()[0]["note"]
    note = (meta(it.get(CONFIG_MAPS, *CONFIG) or {}).get("annotations") or {})["controlplane/podgroup-rules"]
    assert "adjust-level" in note
    made = deployment(it, "web", 2)
    await it.until(lambda: running(it, "web") == 2, "running pods")
    assert groups_of(it, "web") == {f"podgroup-{meta(made)['uid']}"}


async def test_a_rollout_keeps_its_group_and_goes_through_with_a_full_quorum(stage: Make) -> None:
    it = await stage(start=False)
    rules(it, BY_DEPLOYMENT)
    made = deployment(it, "web", 4, **{MIN_MEMBER: "4"})
    await it.up()
    await it.until(lambda: running(it, "web") == 4, "running pods")
    newer = template("web", containers=[container("1")])
    it.patch(DEPLOYMENTS, "web", {"spec": {"template": newer}})

    def rolled() -> bool:
        pods = it.pods(app="web")
        return len(pods) == 4 and all(pod["spec"]["containers"][0] == container("1") for pod in pods)

    await it.until(rolled, "the rollout")
    await it.until(lambda: running(it, "web") == 4, "running pods")
    name = f"podgroup-{meta(made)['uid']}"
    assert groups_of(it, "web") == {name}
    await it.until(
        lambda: (it.get(POD_GROUPS, name) or {})["spec"]["minResources"] == {"cpu": "4"}, "minResources of the newest"
    )
    assert len(it.all(POD_GROUPS)) == 1


async def test_without_the_right_to_read_owners_the_first_owner_is_taken_and_it_is_said(stage: Make) -> None:
    it = await stage(start=False)
    rules(it, "podgroup-level-rules:\n- apiversion: example.com/v1\n  kind: top\n")
    flow = it.make(WORKFLOWS, "flow", spec={})
    reference = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "flow", "controller": True}
    it.cluster.faults.storm(403, verbs=["get"], resources=["workflows.argoproj.io"])
    await it.up()
    metadata = {"labels": {"app": "step"}, "ownerReferences": [{**reference, "uid": meta(flow)["uid"]}]}
    it.make(PODS, "step", metadata=metadata, spec={"schedulerName": "volcano", "containers": [container()]})
    name = f"podgroup-{meta(flow)['uid']}"
    await it.until(lambda: running(it, "step") == 1, "a running pod")
    assert groups_of(it, "step") == {name}

    def condition() -> Json:
        entries = ((it.get(POD_GROUPS, name) or {}).get("status") or {}).get("conditions") or []
        return next((one for one in entries if one["type"] == "OwnerResolved"), {})

    await it.until(lambda: condition().get("reason") == "OwnerForbidden", "the condition")


async def test_a_leader_that_is_killed_in_between_leaves_no_second_group(stage: Make) -> None:
    it = await stage(start=False)
    rules(it, BY_DEPLOYMENT)
    made = [deployment(it, f"web-{number}", 5) for number in range(4)]
    await it.up()
    await it.until(lambda: it.all(POD_GROUPS), "a first group")
    await it.kill()
    deployment(it, "web-4", 5)
    await it.up()
    await it.until(lambda: all(running(it, f"web-{number}") == 5 for number in range(5)), "running pods")
    for number, owner in enumerate(made):
        assert groups_of(it, f"web-{number}") == {f"podgroup-{meta(owner)['uid']}"}
    assert len(it.all(POD_GROUPS)) == 5


async def test_room_is_summed_up_and_a_group_that_does_not_fit_waits_for_it(stage: Make) -> None:
    it = await stage(start=False, nodes=1)
    it.node("small", cpu="1")
    it.store.delete(NODES, "", "n1")
    rules(it, BY_DEPLOYMENT)
    await it.up()
    made = deployment(it, "big", 3, **{MIN_MEMBER: "3"})  # 1.5 of 1.2
    name = f"podgroup-{meta(made)['uid']}"
    await it.until(lambda: phase(it, name) == "Pending" and len(groups_of(it, "big")) == 1, "a group that waits")
    await asyncio.sleep(0.5)
    assert phase(it, name) == "Pending"
    assert running(it, "big") == 0
    it.node("more", cpu="2")
    await it.until(lambda: running(it, "big") == 3, "running pods")
    sightings = len(it.said("RoomObserved"))
    assert 2 <= sightings <= 8


async def test_pods_of_others_are_not_recorded(stage: Make) -> None:
    it = await stage()
    it.make(PODS, "theirs", spec={"schedulerName": "default-scheduler", "containers": [container("4")]})
    await it.until(
        lambda: any(one["room"].get("used", {}).get("cpu") == 4 * 10**9 for one in it.said("RoomObserved")), "its use"
    )
    assert it.said("MemberObserved") == []


async def test_a_cluster_without_the_crds_is_served_quietly(stage: Make) -> None:
    bare = tuple(kind for kind in DEFAULT_KINDS if not kind.kind.group.endswith(("kueue.x-k8s.io", "jobset.x-k8s.io")))
    it = await stage("podgroups", "coscheduling", start=False, kinds=bare)
    await it.up()
    await it.until(lambda: len(it.said("KindOff")) >= 3, "kinds that are off")
    assert not [one for one in it.said("KindOff") if "kueue" in one["kind"]]
    await it.quiet()


async def test_groups_go_with_their_owner(stage: Make) -> None:
    it = await stage(start=False)
    rules(it, BY_DEPLOYMENT)
    deployment(it, "web", 2)
    await it.up()
    await it.until(lambda: running(it, "web") == 2, "running pods")
    it.store.delete(DEPLOYMENTS, NS, "web", propagation="Background")
    await it.until(lambda: not it.all(POD_GROUPS) and not it.pods(app="web"), "nothing left")
    await it.quiet()


async def test_pods_that_come_and_go_within_a_breath_are_forgotten(stage: Make) -> None:
    it = await stage()
    for number in range(5):
        it.make(PODS, f"brief-{number}", spec={"schedulerName": "volcano", "containers": [container()]})
        it.store.delete(PODS, NS, f"brief-{number}")
    await it.until(lambda: len(it.said("MemberGone")) == len(it.said("MemberObserved")) > 0, "their end")
    await it.until(lambda: not it.all(POD_GROUPS), "no group left")
    await it.quiet()
