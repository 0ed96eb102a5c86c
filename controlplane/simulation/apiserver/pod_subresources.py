"""Carries out what a store is asked about Pods beyond storing them: binding, eviction, and priority at admission.

In: a store and the body of a request. Out: the store's next state and a Status, or the error of a real server. Rules:
`pkg/registry/core/pod/storage` (BindingREST, EvictionREST), `plugin/pkg/admission/priority`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.kube.kinds import POD_DISRUPTION_BUDGETS, PODS, PRIORITY_CLASSES, Json, Kind, meta
from controlplane.kube.selectors import label_selector
from controlplane.kube.well_known import ENDED_PHASES
from controlplane.simulation.apiserver import errors
from controlplane.simulation.apiserver.history import Record
from controlplane.simulation.apiserver.pods import set_condition, stamp
from controlplane.simulation.apiserver.store import Store

BINDINGS = Kind("", "v1", "Binding", "pods/binding")
SUBRESOURCES = frozenset({"binding", "eviction"})
SUCCESS: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


# ---------------------------------------------------------------- binding


def bind(store: Store, namespace: str, name: str, body: Json, *, manager: str, dry_run: bool) -> Json:
    """Bind a pod to a node, once: 409 if it has one, is being deleted, is gated, or is not the pod that the Binding
    means.
    """
    metadata, target = meta(body), body.get("target") or {}
    if metadata.get("name", name) != name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    _check_target(target)
    pod = store.record(PODS, namespace, name).copy()
    _check_preconditions(pod, metadata, name)
    spec = pod["spec"]
    if meta(pod).get("deletionTimestamp"):
        raise errors.conflict(BINDINGS, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise errors.conflict(BINDINGS, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise errors.conflict(BINDINGS, name, f"pod {name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = target["name"]
    if annotations := metadata.get("annotations"):
        pod["metadata"]["annotations"] = {**(meta(pod).get("annotations") or {}), **annotations}
    status = pod.setdefault("status", {})
    set_condition(status, "PodScheduled", "True", stamp(store.now()))
    status.pop("nominatedNodeName", None)
    store.overwrite(PODS, pod, field_manager=manager, dry_run=dry_run)
    return dict(SUCCESS)


def _check_target(target: Any) -> None:
    """500, as the real server has it: what it finds wrong with a Binding is no Status of its own."""
    wrong = []
    if target.get("kind") not in (None, "", "Node"):
        wrong.append(f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"')
    if not target.get("name"):
        wrong.append("target.name: Required value")
    if wrong:
        raise errors.ApiRefusal(500, "", wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")


def _check_preconditions(pod: Json, asked: Json, name: str) -> None:
    for field, spelled in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        wanted, found = asked.get(field), meta(pod)[field]
        if wanted and wanted != found:
            why = f"Precondition failed: {spelled} in precondition: {wanted}, {spelled} in object meta: {found}"
            raise errors.conflict(PODS, name, why)


# ---------------------------------------------------------------- eviction


def evict(store: Store, namespace: str, name: str, body: Json, *, dry_run: bool) -> Json:
    """Evict a pod within its disruption budget: 429 if that has nothing left. A pod that does not run needs no
    budget.
    """
    if meta(body).get("name", name) != name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    record = store.record(PODS, namespace, name)
    options = body.get("deleteOptions") or {}
    asked = options.get("preconditions") or {}
    pod = record.copy()
    running = pod["status"].get("phase") not in (*ENDED_PHASES, "Pending") and not meta(pod).get("deletionTimestamp")
    budget = _budget(store, record) if running else None
    if budget is not None and not _unhealthy(pod, budget):
        _spend(store, budget, name, dry_run=dry_run)
    if running and not dry_run:
        at = stamp(store.now())
        set_condition(pod["status"], "DisruptionTarget", "True", at, "EvictionByEvictionAPI", "Eviction API: evicting")
        store.overwrite(PODS, pod, field_manager="kube-apiserver", dry_run=False)
    store.delete(
        PODS,
        namespace,
        name,
        uid=asked.get("uid") or "",
        grace=options.get("gracePeriodSeconds"),
        dry_run=dry_run,
    )
    return dict(SUCCESS)


def _budget(store: Store, pod: Record) -> Json | None:
    if POD_DISRUPTION_BUDGETS not in store.served or not pod.labels:
        return None
    found = []
    for record in store.records(POD_DISRUPTION_BUDGETS, pod.namespace):
        selector = record.obj["spec"].get("selector")
        if label_selector(selector).matches(pod.labels):
            found.append(record.copy())
    if len(found) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise errors.ApiRefusal(500, "InternalError", text)
    return found[0] if found else None


def _unhealthy(pod: Json, budget: Json) -> bool:
    """Whether a pod is not ready, so that it may go without spending: always, or while the others are healthy
    enough.
    """
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ())
    if ready or budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return bool(not ready)
    status = budget.get("status") or {}
    return bool(status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0)


def _spend(store: Store, budget: Json, pod: str, *, dry_run: bool) -> None:
    status = budget.setdefault("status", {})
    left = status.get("disruptionsAllowed", 0)
    if left <= 0:
        name, healthy, wanted = meta(budget)["name"], status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
        text = f"The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        raise errors.ApiRefusal(
            429,
            "TooManyRequests",
            "Cannot evict pod as it would violate the pod's disruption budget.",
            details={"causes": [{"reason": "DisruptionBudget", "message": text}]},
            retry_after=None,
        )
    status["disruptionsAllowed"] = left - 1
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: stamp(store.now())}
    store.overwrite(POD_DISRUPTION_BUDGETS, budget, field_manager="kube-apiserver", dry_run=dry_run)


# ---------------------------------------------------------------- admission


def priority(store: Store) -> Callable[..., None]:
    """Return the admission of PriorityClasses: a new pod gets its class's value; 403 for a class that is not there."""

    def admit(operation: str, kind: Kind, subresource: str, old: Json | None, new: Json | None) -> None:
        if operation != "create" or kind != PODS or new is None:
            return
        spec = new["spec"]
        value, policy, name = _class(store, spec.get("priorityClassName") or "", meta(new).get("name", ""))
        if spec.get("priority") not in (None, value):
            why = (
                f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given PriorityClass name"
            )
            raise errors.forbidden(PODS, meta(new).get("name", ""), why)
        spec["priority"] = value
        spec.setdefault("preemptionPolicy", policy)
        if name:
            spec["priorityClassName"] = name

    return admit


def _class(store: Store, name: str, pod: str) -> tuple[int, str, str]:
    if name in SYSTEM_CLASSES:
        return SYSTEM_CLASSES[name], "PreemptLowerPriority", name
    classes = {record.name: record.obj for record in store.records(PRIORITY_CLASSES)}
    if not name:
        default = [obj for obj in classes.values() if obj.get("globalDefault")]
        if not default:
            return 0, "PreemptLowerPriority", ""
        name = min(default, key=lambda obj: obj.get("value", 0))["metadata"]["name"]
    found = classes.get(name)
    if found is None:
        raise errors.forbidden(PODS, pod, f"no PriorityClass with name {name} was found")
    return int(found.get("value", 0)), found.get("preemptionPolicy") or "PreemptLowerPriority", name
