"""Merges pod templates: what a cluster's defaults fill in, and the part of them that reaches a placeholder
(tektoncd/pipeline pkg/apis/pipeline/pod/affinity_assitant_template.go, 3ee1745ae).

In: the run's pod template, Tekton's ConfigMap `config-defaults`. Out: merged templates, always new objects: a builder
that edits the user's own template changes every pod that is made of it later."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import msgspec

from controlplane.controllers.coscheduling.objects import PipelineRun
from controlplane.controllers.coscheduling.placement.template_merge import check_template, merged
from controlplane.controllers.coscheduling.problems import InputProblem, InputRefused
from controlplane.kube.documents import documents
from controlplane.kube.kinds import Json
from controlplane.values import Value

POD_TEMPLATE = "default-pod-template"
ASSISTANT_TEMPLATE = "default-affinity-assistant-pod-template"
SERVICE_ACCOUNT = "default-service-account"
DEFAULTS_NAME = "config-defaults"
DEFAULTS_WHERE = f"ConfigMap tekton-pipelines/{DEFAULTS_NAME}"
# What a placeholder takes over; not hostNetwork, runtimeClassName or volumes.
_ASSISTANT_FIELDS = ("nodeSelector", "tolerations", "imagePullSecrets", "securityContext", "priorityClassName")


class Defaults(Value):
    """What `config-defaults` fills in; None and "" where it says nothing."""

    pod_template: Json | None = None
    assistant_template: Json | None = None
    service_account: str = ""


def read_defaults(data: Mapping[str, object], where: str = DEFAULTS_WHERE) -> Defaults:
    """Read the defaults; `InputRefused` names the key whose text is no pod template."""
    account = data.get(SERVICE_ACCOUNT, "")
    if not isinstance(account, str):
        raise InputRefused(
            InputProblem(where, f"data.{SERVICE_ACCOUNT}", "expected a text", "give the name of a service account")
        )
    return Defaults(
        pod_template=_template(data, POD_TEMPLATE, where),
        assistant_template=_template(data, ASSISTANT_TEMPLATE, where),
        service_account=account,
    )


def _template(data: Mapping[str, object], key: str, where: str) -> Json | None:
    found = data.get(key)
    if isinstance(found, str):
        listed = list(documents("", found))
        wrong = next(
            (one.wrong for one in listed if one.wrong), "" if len(listed) < 2 else "has more than one document"
        )
        if wrong:
            raise InputRefused(
                InputProblem(where, f"data.{key}", f"it {wrong.partition('; ')[0]}", "give a pod template")
            )
        found = listed[0].content if listed else None
    if found is None:
        return None
    if not isinstance(found, dict):
        raise InputRefused(InputProblem(where, f"data.{key}", "it is no object", "give the fields of a pod template"))
    check_template(found, where, f"data.{key}")
    return found


def with_defaults(run: PipelineRun, defaults: Defaults) -> PipelineRun:
    """Return the run as admission leaves it: the default pod template merged into its own, the default service account
    set.
    """
    return msgspec.structs.replace(
        run,
        pod_template=merged(run.pod_template, defaults.pod_template),
        service_account=run.service_account or defaults.service_account,
    )


def placeholder_template(run: PipelineRun, defaults: Defaults) -> Json:
    """Return the part of a pod spec that a placeholder takes from the run, then from its own default template."""
    own = run.pod_template or {}
    found = {field: own[field] for field in _ASSISTANT_FIELDS if own.get(field) is not None}
    default = defaults.assistant_template or {}
    for field in _ASSISTANT_FIELDS:
        if field not in found and default.get(field) is not None:
            found[field] = default[field]
    if found.get("priorityClassName") == "":
        del found["priorityClassName"]  # it kept the default from being filled in, and says nothing itself
    account = default.get("serviceAccountName") or run.service_account
    if account:
        found["serviceAccountName"] = account
    if own.get("schedulerName"):
        # The run's alone: its tasks have it too, and two schedulers know nothing of each other's plans.
        found["schedulerName"] = own["schedulerName"]
    return copy.deepcopy(found)


def task_template(run: PipelineRun, task: str) -> Json | None:
    """Return the pod template of a task's TaskRun: the task's own, filled in from the run's."""
    spec = run.task_specs.get(task)
    return merged(spec.pod_template if spec else None, run.pod_template)
