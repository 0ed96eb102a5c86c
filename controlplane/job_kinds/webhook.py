"""Writes the MutatingWebhookConfiguration by which jobs are made ours when they are created.

In: the kinds of job. Out: YAML. Only what is in a queue and is no copy is sent to the webhook."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.job_kinds import JOB_KINDS
from controlplane.job_kinds.base import JobKind
from controlplane.kube.kinds import PODS
from controlplane.kube.kueue_names import ORIGIN_LABEL, QUEUE_LABEL

_INTRO = """\
# The admission webhook of jobs: what is created in a queue with our admission check gets `managedBy`, and pods their scheduling gate.
# Where `quota.mode` is `builtin`, what is created in any queue waits: jobs are suspended, and pods get Kueue's gate, label and finalizer.
# Made by `python -m controlplane.job_kinds webhook`. Kinds that are not dispatched may be left out.
#
# failurePolicy: Ignore, on purpose. While no replica answers, jobs are created as they are: one that names no controller is rejected by
# its admission check and runs nowhere, and says so. With Fail, nobody could create a job in any queue meanwhile, also in those that
# dispatch nothing.
#
# The name comes after that of Kueue's own configuration: webhooks are asked in the order of these names, and Kueue's may add a queue.
#
# caBundle: the authority of the certificate that `webhook.certificate` names, for the DNS name controlplane-admission.kueue-system.svc;
# cert-manager fills it in by the annotation cert-manager.io/inject-ca-from.
"""

_DEFAULTS = """\
# Only where `quota.mode` is `builtin`: a job that names no queue gets the LocalQueue `default` of its namespace, if there is one, and is
# created suspended; so do pods. Beside webhook.yaml, and not part of the kustomization: every job and pod is sent here.
# Made by `python -m controlplane.job_kinds default-queue`. Kinds that are not in `multikueue.kinds` may be left out.
"""
_ELSEWHERE = """\
    namespaceSelector:
      matchExpressions:
        - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, kueue-system]}
"""


def configuration() -> str:
    """Return the document of `deploy/multikueue-webhook/webhook.yaml`."""
    kinds = sorted(JOB_KINDS.values(), key=lambda one: one.kind.name)
    return f"""\
{_INTRO}apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: multikueue-controlplane
webhooks:
{_webhook("jobs", [one for one in kinds if one.delegates])}{_webhook("pods", [one for one in kinds if not one.delegates])}"""


def defaults() -> str:
    """Return the document of `deploy/multikueue-webhook/default-queue.yaml`: what names no queue may get one."""
    kinds = sorted(
        (one for one in JOB_KINDS.values() if one.reconciled or one.suspends_pods), key=lambda one: one.kind.name
    )
    jobs, pods = [one for one in kinds if one.delegates], [one for one in kinds if not one.delegates]
    return f"""\
{_DEFAULTS}apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: multikueue-controlplane-default-queue
webhooks:
{_webhook("jobs.default-queue", jobs, queued=False)}{_webhook("pods.default-queue", pods, queued=False)}"""


def _webhook(name: str, kinds: Iterable[JobKind], *, queued: bool = True) -> str:
    return f"""\
  - name: {name}.multikueue.controlplane.dev
    clientConfig:
      service:
        name: controlplane-admission
        namespace: kueue-system
        path: /mutate/multikueue
        port: 443
    rules:
{"".join(map(_rule, kinds))}{"" if queued else _ELSEWHERE}    objectSelector:
      matchExpressions:
        - {{key: {QUEUE_LABEL}, operator: {"Exists" if queued else "DoesNotExist"}}}
        - {{key: {ORIGIN_LABEL}, operator: DoesNotExist}}
    reinvocationPolicy: IfNeeded
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Ignore
    timeoutSeconds: 5
"""


def _rule(one: JobKind) -> str:
    template = not one.delegates and one.kind != PODS
    operations = "CREATE, UPDATE" if template else "CREATE"
    group = one.kind.group or '""'
    return (
        f"      - apiGroups: [{group}]\n"
        f"        apiVersions: [{one.kind.version}]\n"
        f"        operations: [{operations}]\n"
        f"        resources: [{one.kind.plural}]\n"
        "        scope: Namespaced\n"
    )
