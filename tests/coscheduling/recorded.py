"""An answer about a PipelineRun in short: what our plan and Tekton's own controller must agree on.

In: objects of a plan, or what the controller created. Out: the same without what the API server or the controller adds
to any object, and without what differs by decision (docs/reference/coscheduling.md, Held against Tekton): labels and
owners of claim templates, the scheduler of placeholders, the repulsion that leaks into tasks, the annotation of tasks
of two workspaces with one claim."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controlplane.controllers.coscheduling.placement.objects_by_kind import ObjectsByKind
from controlplane.controllers.coscheduling.placement.plan import PlannedCluster, plan, plan_json

Json = dict[str, Any]

_REPELS: Json = {
    "labelSelector": {"matchLabels": {"app.kubernetes.io/component": "affinity-assistant"}},
    "topologyKey": "kubernetes.io/hostname",
}
_TERMS = (
    ("preferredDuringSchedulingIgnoredDuringExecution", {"weight": 100, "podAffinityTerm": _REPELS}),
    ("requiredDuringSchedulingIgnoredDuringExecution", _REPELS),
)
_EMPTY_IS_ABSENT = frozenset(
    {
        "status",
        "updateStrategy",
        "securityContext",
        "resources",
        "metadata",
        "affinity",
        "podAntiAffinity",
        "podAffinity",
        "labels",
        "annotations",
        "podTemplate",
        "nodeSelector",
    }
)
_SAID_EMPTY = ("storageClassName", "priorityClassName")


def asked(question: Json) -> Json:
    """Return our answer to a question: the plan's JSON."""
    objects = [question["run"], *question["pipelines"], *question["tasks"]]
    cluster = PlannedCluster(flags=question["flags"], defaults=question["defaults"])
    return plan_json(plan(question["run"], ObjectsByKind(objects), cluster))


def shortened(answer: Json, question: Json, *, ours: bool) -> Json:
    """Return what counts of an answer; `ours` is a plan's, otherwise it is the controller's."""
    shared = _shares_a_claim(question)
    return {
        "statefulSets": dict(_stateful_set(one, ours=ours) for one in answer["statefulSets"] or ()),
        "persistentVolumeClaims": dict(_claim(one) for one in answer["persistentVolumeClaims"] or ()),
        "taskRuns": dict(_task(one, shared=shared) for one in answer["taskRuns"] or ()),
    }


def _shares_a_claim(question: Json) -> bool:
    if question["flags"].get("coschedule", "workspaces").lower() != "workspaces":
        return False
    bindings: Iterable[Json] = question["run"]["spec"].get("workspaces") or ()
    claims = [source["claimName"] for one in bindings if (source := one.get("persistentVolumeClaim"))]
    return len(set(claims)) < len(claims)


def _plain(value: Any) -> Any:
    """Return a value without fields that say nothing."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields = ((field, _plain(inner)) for field, inner in value.items() if field != "creationTimestamp")
    return {field: inner for field, inner in fields if not _says_nothing(field, inner)}


def _says_nothing(field: str, value: Any) -> bool:
    if value == {}:
        return field in _EMPTY_IS_ABSENT
    return value is None or value == [] or (value == "" and field not in _SAID_EMPTY)


def _stateful_set(obj: Json, *, ours: bool) -> tuple[str, Json]:
    found = _plain(obj)
    meta, spec = found["metadata"], found["spec"]
    pod = spec["template"]["spec"]
    labels = dict(meta["labels"])
    assert labels == spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    labels.pop("tekton.dev/pipeline", None)  # the controller labels the run itself before it copies its labels
    if pod.get("serviceAccountName") == "default":  # what its own default is where nobody names one
        del pod["serviceAccountName"]
    if ours:
        pod.pop("schedulerName", None)
    if pod.get("priorityClassName") == "":
        del pod["priorityClassName"]
    for field, term in _TERMS:
        terms = pod["affinity"]["podAntiAffinity"].get(field, [])
        while terms[-2:] == [term, term]:  # each further placeholder repeats it in the run's own object
            terms.pop()
    short: Json = {"labels": labels, "owner": meta["ownerReferences"], "replicas": spec["replicas"], "pod": pod}
    if templates := spec.get("volumeClaimTemplates"):
        short["templates"] = [_template(one, ours=ours) for one in templates]
    return meta["name"], short


def _template(found: Json, *, ours: bool) -> Json:
    labels = found["metadata"].get("labels", {})
    if ours:
        labels = {key: value for key, value in labels.items() if not key.startswith("tekton.dev/")}
    notes = found["metadata"].get("annotations", {})
    return {"name": found["metadata"]["name"], "labels": labels, "annotations": notes, "spec": found["spec"]}


def _claim(obj: Json) -> tuple[str, Json]:
    found = _plain(obj)
    meta = found["metadata"]
    notes = {field: meta.get(field, {}) for field in ("labels", "annotations")}
    return meta["name"], {"owner": meta["ownerReferences"], "spec": found["spec"], **notes}


def _task(one: Json, *, shared: bool) -> tuple[str, Json]:
    found: Json = {"kind": one["kind"], "workspaces": _plain(one.get("workspaces") or [])}
    if not shared:
        found["annotations"] = one["annotations"] or {}
    if one["kind"] == "TaskRun":
        template = _plain(one.get("podTemplate") or {})
        template.pop("affinity", None)
        if template.get("hostNetwork") is False:
            del template["hostNetwork"]
        found["podTemplate"] = template
        if not shared:
            found["affinity"] = _without_repulsion(one.get("affinity") or {})
    return one["task"], found


def _without_repulsion(affinity: Json) -> Json:
    found: Json = _plain(affinity)
    anti = found.get("podAntiAffinity", {})
    for field, term in _TERMS:
        anti[field] = [one for one in anti.get(field, []) if one != term]
    return {field: value for field, value in _plain({**found, "podAntiAffinity": anti}).items() if value}
