"""Answers the admission hook of pods: who asks for it by a label is given the scheduler that sends pods to other
clusters.

In: an AdmissionReview, and whether a namespace may send. Out: an AdmissionReview with a JSON patch, or without one. The
label is on the pod or on its namespace; by the selectors of `deploy/candidates/webhook` an API server asks about no
other pod, and the pod's own label goes before its namespace's. Nothing is kept back: what is in doubt is let through
with a warning, and runs where it was created. The API server fills in `default-scheduler` before it asks
(kubernetes/kubernetes pkg/apis/core/v1/defaults.go, v1.36), so that a pod that says so itself is given ours too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controlplane.controllers.candidates.objects import ELECT_LABEL, PODS
from controlplane.controllers.candidates.source.policy import SourcePolicy
from controlplane.kube.fields import UNFIT, items, section, text
from controlplane.kube.kinds import Json, meta
from controlplane.kube.reviews import allowed, json_patch, requested
from controlplane.kube.well_known import SYSTEM_NAMESPACE

MaySend = Callable[[str], bool | None]
"""Tells whether the pods of a namespace may be sent to other clusters; None if that is not known."""

_KUBERNETES = ("", "default-scheduler")


def answer(review: Mapping[str, Any], policy: SourcePolicy, own: str, may_send: MaySend) -> Json:
    """Return the answer to an AdmissionReview; `ValueError` if it is none. `own` is the namespace of the service."""
    request = requested(review)
    if request is None:
        raise ValueError("it has no request with a uid: send a review of admission.k8s.io/v1")
    pod = request.get("object")
    if not isinstance(pod, dict) or not _creates_pod(request):
        return allowed(request, [], [])
    namespace = str(request.get("namespace") or "")
    try:
        return allowed(request, *_patch(pod, namespace, policy, own, may_send))
    except UNFIT as error:  # the API server refuses it, or knows better
        return allowed(request, [], [f"it was not looked at by the webhook of candidates: {error}"[:256]])


def _creates_pod(request: Json) -> bool:
    kind = request.get("kind")
    whole = request.get("operation") == "CREATE" and not request.get("subResource")
    return whole and isinstance(kind, dict) and (kind.get("group") or "", kind.get("kind")) == (PODS.group, PODS.kind)


def _patch(
    pod: Json, namespace: str, policy: SourcePolicy, own: str, may_send: MaySend
) -> tuple[list[Json], list[str]]:
    labels, spec = section(meta(pod), "labels", "metadata"), section(pod, "spec")
    asked, scheduler = labels.get(ELECT_LABEL), text(spec, "schedulerName", "spec")
    if asked == "false" or namespace in (SYSTEM_NAMESPACE, own) or _stays(pod, spec):
        return [], []
    if asked not in (None, "true"):
        return [], [
            f'label {ELECT_LABEL}: "{asked}": use "true" or "false"; the pod is not sent to another cluster'[:256]
        ]
    if scheduler not in _KUBERNETES:
        theirs = asked is not None and scheduler != policy.scheduler_name
        kept = f'spec.schedulerName: "{scheduler}" is kept, though label {ELECT_LABEL} asks for another: leave one out'
        return [], [kept[:256]] if theirs else []
    sends = may_send(namespace)
    if not sends:
        return [], [_not_sent(namespace, known=sends is not None)]
    return json_patch(pod, {**pod, "spec": {**spec, "schedulerName": policy.scheduler_name}}), []


def _stays(pod: Json, spec: Json) -> bool:
    """Whether a pod has its node in this cluster: it names one, or is a DaemonSet's, which makes one for each node."""
    owners = items(meta(pod), "ownerReferences", "metadata")
    daemons = any(owner.get("controller") and owner.get("kind") == "DaemonSet" for owner in owners)
    return daemons or bool(text(spec, "nodeName", "spec"))


def _not_sent(namespace: str, *, known: bool) -> str:
    if known:
        return f'namespace "{namespace}" may not send candidates: add it to candidates.namespaces; the pod stays here'
    return f'whether namespace "{namespace}" may send candidates is not known yet: the pod stays here; create it anew'
