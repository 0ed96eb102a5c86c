"""Pods: binding, eviction, graceful deletion, the conditions that the server sets itself."""

from __future__ import annotations

import itertools
from typing import Any

from controlplane.kube.kinds import NODES, POD_DISRUPTION_BUDGETS, PODS, PRIORITY_CLASSES, STRATEGIC_PATCH, Json
from tests.simulation.contract.client import Answer, Api, version

_names = itertools.count()


def pod(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "example.com/none"}], **spec},
    }


async def bind(api: Api, name: str, node: str = "node-1", **metadata: Any) -> Answer:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": api.namespace, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return await api.call("POST", PODS.path(api.namespace, name, "binding"), body)


async def evict(api: Api, name: str, **options: Any) -> Answer:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": api.namespace}}
    return await api.call(
        "POST", PODS.path(api.namespace, name, "eviction"), {**body, **({"deleteOptions": options} if options else {})}
    )


async def running(api: Api, name: str, *, healthy: bool = True) -> Json:
    """Create a pod, bind it, and say as a kubelet that it runs."""
    (await api.create(PODS, pod(name))).ok(201)
    (await bind(api, name)).ok(201)
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"} if healthy else {}
    status = {"phase": "Running", **({"conditions": [ready]} if healthy else {})}
    return (await api.patch(PODS, name, {"status": status}, "status", STRATEGIC_PATCH)).ok()


def condition(found: Json, kind: str) -> Json | None:
    return next((c for c in found["status"].get("conditions") or () if c["type"] == kind), None)


class TestBinding:
    async def test_puts_the_pod_on_the_node_and_says_so(self, api: Api) -> None:
        made = (await api.create(PODS, pod("a"))).ok(201)
        said = (await bind(api, "a")).ok(201)
        assert (said["kind"], said["status"]) == ("Status", "Success")
        bound = (await api.get(PODS, "a")).ok()
        assert bound["spec"]["nodeName"] == "node-1"
        assert int(version(bound)) > int(version(made))
        scheduled = condition(bound, "PodScheduled")
        assert scheduled is not None
        assert (scheduled["status"], scheduled.get("reason")) == ("True", None)

    async def test_happens_once(self, api: Api) -> None:
        (await api.create(PODS, pod("a"))).ok(201)
        (await bind(api, "a")).ok(201)
        for node in ("node-1", "node-2"):
            again = await bind(api, "a", node)
            again.refused(409, "Conflict", "pods/binding", 'pod a is already assigned to node "node-1"')

    async def test_is_for_the_pod_that_it_names(self, api: Api) -> None:
        made = (await api.create(PODS, pod("a"))).ok(201)
        other = "11111111-1111-1111-1111-111111111111"
        (await bind(api, "a", uid=other)).refused(
            409,
            "Conflict",
            f"Precondition failed: UID in precondition: {other}, UID in object meta: {made['metadata']['uid']}",
        )
        (await bind(api, "a", uid=made["metadata"]["uid"])).ok(201)

    async def test_is_for_the_version_that_it_names(self, api: Api) -> None:
        made = (await api.create(PODS, pod("a"))).ok(201)
        newer = (await api.patch(PODS, "a", {"metadata": {"labels": {"x": "y"}}})).ok()
        stale = await bind(api, "a", resourceVersion=version(made))
        stale.refused(409, "Conflict", f"ResourceVersion in precondition: {version(made)}")
        (await bind(api, "a", resourceVersion=version(newer))).ok(201)

    async def test_does_not_need_the_node(self, api: Api) -> None:
        (await api.create(PODS, pod("a"))).ok(201)
        (await bind(api, "a", "nobody-knows-it")).ok(201)

    async def test_needs_a_target(self, api: Api) -> None:
        (await api.create(PODS, pod("a"))).ok(201)
        refused = await bind(api, "a", "")
        assert (refused.status, refused.body["message"]) == (500, "target.name: Required value")

    async def test_needs_the_pod(self, api: Api) -> None:
        (await bind(api, "none")).refused(404, "NotFound", 'pods "none" not found')

    async def test_waits_for_the_gates(self, api: Api) -> None:
        made = (await api.create(PODS, pod("a", schedulingGates=[{"name": "example.com/hold"}]))).ok(201)
        gated = condition(made, "PodScheduled")
        assert gated is not None
        assert (gated["status"], gated["reason"]) == ("False", "SchedulingGated")
        assert gated["message"] == "Scheduling is blocked due to non-empty scheduling gates"
        (await bind(api, "a")).refused(409, "Conflict", "pod a has non-empty .spec.schedulingGates")

    async def test_is_not_for_a_pod_that_is_being_deleted(self, api: Api) -> None:
        held = pod("a")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        (await api.create(PODS, held)).ok(201)
        (await api.delete(PODS, "a")).ok()
        (await bind(api, "a")).refused(409, "Conflict", "pod a is being deleted, cannot be assigned to a host")
        (await api.patch(PODS, "a", {"metadata": {"finalizers": None}})).ok()

    async def test_clears_the_nomination(self, api: Api) -> None:
        (await api.create(PODS, pod("a"))).ok(201)
        (await api.patch(PODS, "a", {"status": {"nominatedNodeName": "node-1"}}, "status")).ok()
        (await bind(api, "a")).ok(201)
        assert "nominatedNodeName" not in (await api.get(PODS, "a")).ok()["status"]

    async def test_keeps_what_the_scheduler_had_said_before_up_to_date(self, api: Api) -> None:
        made = (await api.create(PODS, pod("a"))).ok(201)
        said = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/0 nodes are available",
            "lastTransitionTime": made["metadata"]["creationTimestamp"],
        }
        body = {"metadata": {"uid": made["metadata"]["uid"]}, "status": {"conditions": [said]}}
        patched = (await api.patch(PODS, "a", body, "status", STRATEGIC_PATCH)).ok()
        refused = condition(patched, "PodScheduled")
        assert refused is not None
        assert refused["reason"] == "Unschedulable"
        (await bind(api, "a")).ok(201)
        bound = condition((await api.get(PODS, "a")).ok(), "PodScheduled")
        assert bound is not None
        assert (bound["status"], bound.get("reason"), bound.get("message")) == ("True", None, None)


class TestDelete:
    async def test_a_pod_without_a_node_goes_at_once(self, api: Api) -> None:
        (await api.create(PODS, pod("a"))).ok(201)
        (await api.delete(PODS, "a")).ok()
        (await api.get(PODS, "a")).refused(404, "NotFound")

    async def test_a_pod_on_a_node_waits_for_its_kubelet(self, api: Api) -> None:
        await running(api, "a")
        gone = (await api.delete(PODS, "a")).ok()
        assert gone["metadata"]["deletionGracePeriodSeconds"] == 30
        assert (await api.get(PODS, "a")).ok()["metadata"]["deletionTimestamp"]
        (await api.patch(PODS, "a", {"status": {"message": "stopping"}}, "status")).ok()
        (await api.get(PODS, "a")).ok()
        (await api.delete(PODS, "a", {"gracePeriodSeconds": 0})).ok()
        (await api.get(PODS, "a")).refused(404, "NotFound")

    async def test_a_pod_that_has_ended_goes_at_once(self, api: Api) -> None:
        await running(api, "a")
        (await api.patch(PODS, "a", {"status": {"phase": "Succeeded"}}, "status")).ok()
        (await api.delete(PODS, "a")).ok()
        (await api.get(PODS, "a")).refused(404, "NotFound")


class TestEviction:
    async def budget(self, api: Api, app: str, allowed: int) -> None:
        name = f"budget-{app}"
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}
        (await api.create(POD_DISRUPTION_BUDGETS, body)).ok(201)
        status = {
            "disruptionsAllowed": allowed,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
            "observedGeneration": 1,
        }
        (await api.patch(POD_DISRUPTION_BUDGETS, name, {"status": status}, "status")).ok()

    async def test_says_why_and_deletes(self, api: Api) -> None:
        await running(api, "a")
        (await evict(api, "a")).ok(201)
        going = (await api.get(PODS, "a")).ok()
        target = condition(going, "DisruptionTarget")
        assert target is not None
        assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")
        assert going["metadata"]["deletionTimestamp"]

    async def test_keeps_to_the_budget(self, api: Api) -> None:
        await running(api, "a")
        await self.budget(api, "a", 0)
        refused = await evict(api, "a")
        refused.refused(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")
        assert "deletionTimestamp" not in (await api.get(PODS, "a")).ok()["metadata"]

    async def test_who_is_not_ready_may_go_while_the_others_are_enough(self, api: Api) -> None:
        await running(api, "a", healthy=False)
        await self.budget(api, "a", 0)
        (await evict(api, "a")).ok(201)

    async def test_spends_the_budget(self, api: Api) -> None:
        await running(api, "b")
        await self.budget(api, "b", 1)
        (await evict(api, "b")).ok(201)
        status = (await api.get(POD_DISRUPTION_BUDGETS, "budget-b")).ok()["status"]
        assert status["disruptionsAllowed"] == 0
        assert list(status["disruptedPods"]) == ["b"]

    async def test_a_pod_that_does_not_run_needs_no_budget(self, api: Api) -> None:
        (await api.create(PODS, pod("a"))).ok(201)
        await self.budget(api, "a", 0)
        (await evict(api, "a")).ok(201)
        (await api.get(PODS, "a")).refused(404, "NotFound")

    async def test_is_for_the_pod_that_it_names(self, api: Api) -> None:
        await running(api, "a")
        other = "11111111-1111-1111-1111-111111111111"
        refused = await evict(api, "a", preconditions={"uid": other})
        assert refused.status == 409, refused.body


class TestPriority:
    async def test_comes_from_the_class(self, api: Api) -> None:
        name = f"high-{api.namespace}"
        body = {"metadata": {"name": name}, "value": 1000, "preemptionPolicy": "Never"}
        (await api.call("POST", PRIORITY_CLASSES.path(), body)).ok(201)
        made = (await api.create(PODS, pod("a", priorityClassName=name))).ok(201)
        assert (made["spec"]["priority"], made["spec"]["preemptionPolicy"]) == (1000, "Never")

    async def test_is_nothing_without_one(self, api: Api) -> None:
        assert (await api.create(PODS, pod("a"))).ok(201)["spec"]["priority"] == 0

    async def test_a_class_that_is_not_there_is_refused(self, api: Api) -> None:
        refused = await api.create(PODS, pod("a", priorityClassName="nobody-knows-it"))
        refused.refused(403, "Forbidden", "no PriorityClass with name nobody-knows-it was found")


async def test_nodes_are_made_up_by_anybody(api: Api) -> None:
    name = f"node-{next(_names)}-{api.namespace}"
    made = (await api.call("POST", NODES.path(), {"metadata": {"name": name}})).ok(201)
    status = {"status": {"allocatable": {"cpu": "4", "pods": "10"}, "capacity": {"cpu": "4", "pods": "10"}}}
    ready = (await api.call("PATCH", NODES.path("", name, "status"), status, content_type=STRATEGIC_PATCH)).ok()
    assert ready["status"]["allocatable"]["cpu"] == "4"
    assert made["metadata"]["uid"] == ready["metadata"]["uid"]
