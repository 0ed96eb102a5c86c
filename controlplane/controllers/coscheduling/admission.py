"""Answers the admission hook: what is added to TaskRuns, CustomRuns and pods where Tekton itself places nothing.

In: an AdmissionReview, the mode, and how to find a run. Out: an AdmissionReview with a JSON patch, or without one for
what concerns no run. Nothing is kept back: what cannot be judged is let through with a warning, for a hook that is in
doubt must not stop a cluster.

A TaskRun gets the annotation of the placeholder that it follows; Tekton's own controller makes the affinity of it.
Where one placeholder serves the whole run, claims of templates are made by its StatefulSet, so the TaskRun is bound to
those instead of the ones that Tekton made. A pod that carries the annotation and no term for it gets the term."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controlplane.controllers.coscheduling.flags import Mode
from controlplane.controllers.coscheduling.names import claim_name, placeholder_name
from controlplane.controllers.coscheduling.objects import INSTANCE_LABEL, PipelineRun, annotations_of, controller_of
from controlplane.controllers.coscheduling.placement.binding import beside
from controlplane.controllers.coscheduling.placement.existing import follows
from controlplane.controllers.coscheduling.placement.placeholders import claim_of, placeholder_of_claims
from controlplane.controllers.coscheduling.problems import InputProblem, InputRefused
from controlplane.job_kinds.pipelinerun import AFFINITY_ASSISTANT
from controlplane.kube.kinds import PIPELINE_RUNS, Json
from controlplane.kube.reviews import allowed, namespace_of, requested
from controlplane.kube.well_known import REQUIRED_AFFINITY

Find = Callable[[str, str, str], PipelineRun | None]
"""Finds a run by namespace, name and UID; None if it is not known."""


def answer(review: Mapping[str, Any], mode: Mode, find: Find) -> Json:
    """Return the answer to an AdmissionReview; `InputRefused` if it is none."""
    request = requested(review)
    if request is None:
        what = "it has no request with a uid"
        raise InputRefused(InputProblem("AdmissionReview", "request", what, "send a review of admission.k8s.io/v1"))
    obj = request.get("object")
    patch: list[Json] = []
    warnings: list[str] = []
    if request.get("operation") == "CREATE" and isinstance(obj, dict) and mode is not Mode.DISABLED:
        namespace = namespace_of(request, obj)
        match (request.get("kind") or {}).get("kind"):
            case "TaskRun" | "CustomRun":
                patch = _bind(obj, namespace, mode, find, warnings)
            case "Pod":
                patch = _tie(obj)
    return allowed(request, patch, warnings)


def _bind(obj: Json, namespace: str, mode: Mode, find: Find, warnings: list[str]) -> list[Json]:
    owner = controller_of(obj)
    if owner.get("kind") != PIPELINE_RUNS.kind:
        return []
    name = str(owner.get("name"))
    run = find(namespace, name, str(owner.get("uid")))
    if run is None:
        warnings.append(
            f"PipelineRun {namespace}/{name} is not known here: what it started is not placed beside anything"
        )
        return []
    # Tekton itself names the placeholder that it makes for a run; that of a run that shares another one's is none.
    replaced = placeholder_name("", run.name) if run.follows else ""
    if run.foreign or annotations_of(obj).get(AFFINITY_ASSISTANT, replaced) != replaced:
        return []
    workspaces = (obj.get("spec") or {}).get("workspaces") or []
    made = {claim_name(one.base, one.name, run.uid): claim_of(run, one, mode) for one in run.bindings if one.template}
    claims = [((one.get("persistentVolumeClaim") or {}).get("claimName") or "") for one in workspaces]
    placeholder = _placeholder(run, mode, claims)
    return [*(_annotate(obj, placeholder) if placeholder else ()), *_rebind(claims, made)]


def _rebind(claims: list[str], made: Mapping[str, str]) -> list[Json]:
    """Return the patches that bind a task to the claims that its placeholder's StatefulSet makes."""
    return [
        {"op": "replace", "path": f"/spec/workspaces/{number}/persistentVolumeClaim/claimName", "value": made[claim]}
        for number, claim in enumerate(claims)
        if made.get(claim, claim) != claim
    ]


def _placeholder(run: PipelineRun, mode: Mode, claims: list[str]) -> str:
    """Return the placeholder that a task with some claims follows, "" if none."""
    if mode.per_run:
        return run.follows or placeholder_name("", run.name)
    of_claims = placeholder_of_claims(run, mode)
    return next((of_claims[claim] for claim in reversed(claims) if claim in of_claims), "")


def _annotate(obj: Json, placeholder: str) -> list[Json]:
    if not annotations_of(obj):
        return [{"op": "add", "path": "/metadata/annotations", "value": {AFFINITY_ASSISTANT: placeholder}}]
    path = f"/metadata/annotations/{AFFINITY_ASSISTANT.replace('~', '~0').replace('/', '~1')}"
    return [{"op": "add", "path": path, "value": placeholder}]


def _tie(pod: Json) -> list[Json]:
    """Return the patch that adds the pod affinity term after what is there; none for a pod that follows nothing, or has
    it.
    """
    placeholder = annotations_of(pod).get(AFFINITY_ASSISTANT)
    if not placeholder or not follows(pod, placeholder):
        return []
    term = beside(placeholder)
    affinity = (pod.get("spec") or {}).get("affinity")
    if not affinity:
        return [{"op": "add", "path": "/spec/affinity", "value": {"podAffinity": {REQUIRED_AFFINITY: [term]}}}]
    near = affinity.get("podAffinity")
    if not near:
        return [{"op": "add", "path": "/spec/affinity/podAffinity", "value": {REQUIRED_AFFINITY: [term]}}]
    terms = near.get(REQUIRED_AFFINITY)
    path = f"/spec/affinity/podAffinity/{REQUIRED_AFFINITY}"
    if not terms:
        return [{"op": "add", "path": path, "value": [term]}]
    selected = [((one.get("labelSelector") or {}).get("matchLabels") or {}).get(INSTANCE_LABEL) for one in terms]
    return [] if placeholder in selected else [{"op": "add", "path": f"{path}/-", "value": term}]
