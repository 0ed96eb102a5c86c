"""Answers the admission hook of jobs: what makes a job ours where its queue leads to our admission check.

In: an AdmissionReview, and where a LocalQueue leads. Out: an AdmissionReview with a JSON patch, or without one. Kueue's
own webhooks do the first half where its gate MultiKueue is on (`ApplyDefaultForManagedBy` in kubernetes-sigs/kueue
pkg/controller/jobframework/defaults.go, ff69552e): an empty `managedBy`, or the kind's own controller in it, becomes
ours. What names no controller gets the scheduling gate that keeps its pods from running on the management cluster.
Nothing is kept back: what cannot be judged is let through with a warning, and its check is Rejected later if it would
run there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controlplane.controllers.multikueue.context import KUEUES_GATE, MultiKueuePolicy
from controlplane.job_kinds.base import JobKind, merged
from controlplane.kube.fields import UNFIT, section
from controlplane.kube.kinds import PODS, Json, meta
from controlplane.kube.kueue_names import ORIGIN_LABEL, QUEUE_LABEL
from controlplane.kube.reviews import allowed, json_patch, namespace_of, requested

Leads = Callable[[str, str], bool | None]
"""Tells whether a LocalQueue, by namespace and name, leads to our admission check; None if that is not known."""


class ReviewError(ValueError):
    """What was posted is no AdmissionReview."""


def answer(review: Mapping[str, Any], policy: MultiKueuePolicy, leads: Leads) -> Json:
    """Return the answer to an AdmissionReview; `ReviewError` if it is none."""
    request = requested(review)
    if request is None:
        raise ReviewError("it has no request with a uid: send a review of admission.k8s.io/v1")
    obj, adapter = request.get("object"), policy.adapters.get(_gvk(request.get("kind")))
    if adapter is None or not isinstance(obj, dict):
        return allowed(request, [], [])
    try:
        return allowed(request, *_patch(request, obj, adapter, policy, leads))
    except UNFIT as error:  # the API server refuses it, or knows better
        return allowed(request, [], [f"it was not looked at by the webhook of {policy.controller_name}: {error}"])


def _patch(
    request: Json, obj: Json, adapter: JobKind, policy: MultiKueuePolicy, leads: Leads
) -> tuple[list[Json], list[str]]:
    labels = section(meta(obj), "labels")
    queue = labels.get(QUEUE_LABEL)
    if not queue or ORIGIN_LABEL in labels or not _may_change(request, adapter, policy):
        return [], []
    spec = section(obj, "spec")
    wanted = merged(spec, adapter.claimed(obj, policy.controller_name))
    if wanted == spec:
        return [], []
    namespace = namespace_of(request, obj)
    ours = leads(namespace, str(queue))
    if ours is None:
        where = f"where LocalQueue {namespace}/{queue} leads is not known to {policy.controller_name} yet"
        return [], [f"{where}: if it dispatches, this {adapter.kind.kind} is rejected as it is"]
    return (json_patch(obj, {**obj, "spec": wanted}), []) if ours else ([], [])


def _may_change(request: Json, adapter: JobKind, policy: MultiKueuePolicy) -> bool:
    """Whether something may become ours now: when it is created. The gate of pods that are yet to be made, which a user
    took out of their template unawares, is put back; a template that never had it is left alone, since all its pods
    would be made anew.
    """
    if not adapter.delegates and policy.pod_gate == KUEUES_GATE:
        return False
    if request.get("operation") == "CREATE":
        return True
    before = request.get("oldObject")
    return adapter.kind != PODS and isinstance(before, dict) and adapter.held(before)


def _gvk(kind: Any) -> str:
    """Return Go's spelling of the kind of a review."""
    found = kind if isinstance(kind, dict) else {}
    version = "/".join(str(part) for part in (found.get("group"), found.get("version")) if part)
    return f"{version}, Kind={found.get('kind')}"
