"""Builds what a run gets beside its tasks: placeholder StatefulSets and the claims of its templates
(tektoncd/pipeline pkg/reconciler/pipelinerun/affinity_assistant.go, 3ee1745ae).

In: a run as admission leaves it, its mode, the flags and defaults. Out: Kubernetes objects, each with the run as its
owner. Nothing here looks at a cluster; whether an object may be created, or is there already, is decided by whoever
asks."""

from __future__ import annotations

import copy

from controlplane.controllers.coscheduling.flags import Flags, Mode
from controlplane.controllers.coscheduling.names import (
    COMPONENT,
    claim_name,
    is_label_value,
    made_claim_name,
    placeholder_name,
    template_name,
)
from controlplane.controllers.coscheduling.objects import (
    CLAIMS,
    COMPONENT_LABEL,
    INSTANCE_LABEL,
    RUN_LABEL,
    STATEFUL_SETS,
    WORKSPACE_LABEL,
    Binding,
    PipelineRun,
)
from controlplane.controllers.coscheduling.placement.templates import Defaults, placeholder_template
from controlplane.kube.kinds import Json, meta
from controlplane.kube.well_known import HOSTNAME
from controlplane.values import Value

RESOURCES = {"cpu": "50m", "memory": "100Mi"}
"""What a placeholder asks for, and is limited to: the class Guaranteed, at next to no cost."""

NOP_IMAGE = "nop"
"""The image's name where nobody says which one: Tekton knows it only from its controller's flag `-nop-image`."""

_REPEL_WEIGHT = 100
_WAIT = "tekton_run_indefinitely"  # what the nop image waits for a signal at
_OS_LABEL, _WINDOWS = "kubernetes.io/os", "windows"


class Style(Value):
    """What is the same for all placeholders of a cluster. `everywhere`: isolated runs avoid those of other namespaces
    too.
    """

    flags: Flags = Flags()
    defaults: Defaults = Defaults()
    image: str = NOP_IMAGE
    everywhere: bool = False


def claim_of(run: PipelineRun, binding: Binding, mode: Mode) -> str:
    """Return the name of the claim behind a binding: the existing one, or the template's; "" if none is."""
    if binding.claim or binding.template is None:
        return binding.claim
    if mode.per_run and not run.follows:
        return made_claim_name(binding.base, binding.name, run.uid, placeholder_name("", run.name))
    return claim_name(binding.base, binding.name, run.uid)


def placeholder_of_claims(run: PipelineRun, mode: Mode) -> dict[str, str]:
    """Return the placeholder of each claim of a run, in the order of its workspaces.

    In mode `workspaces` two workspaces may share a claim. There is one placeholder for it, named after the last of them
    as Tekton does; tasks of the other follow it too (Tekton lets them wait for one that never
    exists)."""
    if mode is Mode.DISABLED:
        return {}
    single = run.follows or placeholder_name("", run.name)
    return {
        claim_of(run, binding, mode): single if mode.per_run else placeholder_name(binding.name, run.name)
        for binding in run.bindings
        if binding.has_claim
    }


def stateful_sets(run: PipelineRun, mode: Mode, style: Style) -> list[Json]:
    """Return the placeholders of a run: none, one for each distinct claim, or exactly one, even without any
    workspace. A run that shares another one's has none.
    """
    if mode is Mode.DISABLED or run.follows:
        return []
    if not mode.per_run:
        return [
            _stateful_set(run, mode, style, name, [claim], [])
            for claim, name in placeholder_of_claims(run, mode).items()
        ]
    claims = [binding.claim for binding in run.bindings if binding.claim]
    templates = [_claim_template(run, binding) for binding in run.bindings if binding.template is not None]
    return [_stateful_set(run, mode, style, placeholder_name("", run.name), claims, templates)]


def claims(run: PipelineRun, mode: Mode) -> list[Json]:
    """Return the claims that the run's controller makes of its templates; none where the StatefulSet controller makes
    them.
    """
    if mode.per_run and not run.follows:
        return []
    return [_claim(run, binding, binding.template) for binding in run.bindings if binding.template is not None]


def repulsion(*, everywhere: bool = False) -> Json:
    """Return the term by which a placeholder avoids others; without `everywhere` only those of its own namespace."""
    term: Json = {"labelSelector": {"matchLabels": {COMPONENT_LABEL: COMPONENT}}, "topologyKey": HOSTNAME}
    return term | ({"namespaceSelector": {}} if everywhere else {})


def _claim(run: PipelineRun, binding: Binding, template: Json) -> Json:
    metadata = _kept_metadata(template)
    metadata |= {
        "name": claim_name(binding.base, binding.name, run.uid),
        "namespace": run.namespace,
        "ownerReferences": [run.owner()],
    }
    return _claim_body(metadata, template)


def _claim_template(run: PipelineRun, binding: Binding) -> Json:
    """Return a claim template of a placeholder, with the owner and labels of the TEP.

    Tekton sets neither, so claims of a run that is deleted before it ends stay for ever. The owner is no
    controller: who makes the claim is."""
    template = binding.template or {}
    metadata = _kept_metadata(template)
    labels = {**metadata.get("labels", {}), RUN_LABEL: run.name}
    if is_label_value(binding.name):
        labels[WORKSPACE_LABEL] = binding.name
    metadata |= {
        "name": template_name(binding.base, binding.name, run.uid),
        "labels": labels,
        "ownerReferences": [run.owner(controller=False)],
    }
    return _claim_body(metadata, template)


def _kept_metadata(template: Json) -> Json:
    return {
        field: copy.deepcopy(meta(template)[field]) for field in ("labels", "annotations") if meta(template).get(field)
    }


def _claim_body(metadata: Json, template: Json) -> Json:
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": metadata,
        "spec": copy.deepcopy(template.get("spec") or {}),
    }


def _stateful_set(
    run: PipelineRun, mode: Mode, style: Style, name: str, existing: list[str], templates: list[Json]
) -> Json:
    labels = {**run.labels, RUN_LABEL: run.name, INSTANCE_LABEL: name, COMPONENT_LABEL: COMPONENT}
    spec: Json = {
        "replicas": 1,
        "serviceName": "",
        "selector": {"matchLabels": dict(labels)},
        "template": {
            "metadata": {"labels": dict(labels)},
            "spec": _pod_spec(run, mode, style, existing, [str(meta(template)["name"]) for template in templates]),
        },
    }
    if templates:
        spec["volumeClaimTemplates"] = templates
    return {
        "apiVersion": STATEFUL_SETS.api_version,
        "kind": STATEFUL_SETS.kind,
        "metadata": {
            "name": name,
            "namespace": run.namespace,
            "labels": labels,
            "ownerReferences": [run.owner()],
        },
        "spec": spec,
    }


def _pod_spec(run: PipelineRun, mode: Mode, style: Style, existing: list[str], mounted: list[str]) -> Json:
    template = placeholder_template(run, style.defaults)
    container: Json = {
        "name": COMPONENT,
        "image": style.image,
        "args": [_WAIT],
        "resources": {"requests": dict(RESOURCES), "limits": dict(RESOURCES)},
    }
    if mounted:
        container["volumeMounts"] = [{"name": name, "mountPath": name} for name in mounted]
    if style.flags.set_security_context:
        windows = (template.get("nodeSelector") or {}).get(_OS_LABEL) == _WINDOWS
        container["securityContext"] = _security_context(style.flags, windows=windows)
    spec: Json = {"containers": [container], **template, "affinity": _affinity(run, mode, everywhere=style.everywhere)}
    if existing:
        # Not mounted: that the pod names them is enough for the scheduler to keep to where their volumes are.
        spec["volumes"] = [
            {"name": f"workspace-{number}", "persistentVolumeClaim": {"claimName": claim}}
            for number, claim in enumerate(existing)
        ]
    return spec


def _security_context(flags: Flags, *, windows: bool) -> Json:
    if windows:
        return {"runAsNonRoot": True}
    found: Json = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return found | ({"readOnlyRootFilesystem": True} if flags.read_only_root else {})


def _affinity(run: PipelineRun, mode: Mode, *, everywhere: bool) -> Json:
    """Return a copy of the run's affinity with the repulsion of other placeholders added."""
    affinity: Json = copy.deepcopy((run.pod_template or {}).get("affinity") or {})
    anti = affinity.get("podAntiAffinity") or {}
    if mode is Mode.ISOLATE:
        field, term = "requiredDuringSchedulingIgnoredDuringExecution", repulsion(everywhere=everywhere)
    else:
        field = "preferredDuringSchedulingIgnoredDuringExecution"
        term = {"weight": _REPEL_WEIGHT, "podAffinityTerm": repulsion()}
    affinity["podAntiAffinity"] = {**anti, field: [*(anti.get(field) or []), term]}
    return affinity
