"""Makes narrow observations of jobs and of their copies, by the adapter of their kind.

In: a job as an API server shows it. Out: its event, and the bodies that the event names. Pure."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.multikueue import objects, observations
from controlplane.job_kinds.base import JobKind, JobOutcome
from controlplane.job_kinds.pod import ROLE_HASH
from controlplane.kube import fields
from controlplane.kube.conditions import MESSAGE_LIMIT, conditions_of
from controlplane.kube.fields import Misfit
from controlplane.kube.kinds import PODS, Json, Kind, meta
from controlplane.kube.kueue_names import ORIGIN_LABEL, ORIGIN_UID, PREBUILT
from controlplane.kube.requests import truncated
from controlplane.log.event import Body, body_of

_ADOPT_PODS = frozenset({"v1", "apps/v1", "batch/v1"})
"""The API versions of controllers that take over pods which fit their selector and which nobody controls."""


def users_job(adapter: JobKind, obj: Json, *, labelled: bool) -> tuple[observations.JobObserved, tuple[Body, ...]]:
    """Return what the log says of the user's job, with the bodies that it names; `labelled`: its labels too."""
    status = fields.section(obj, "status")
    template, body = objects.template(obj), body_of(status)
    event = observations.JobObserved(
        **objects.identity(obj),
        kind=adapter.kind.name,
        managed_by=adapter.managed_by(obj),
        suspended=adapter.suspended(obj),
        finished=adapter.outcome(status) is not None,
        inactive=not adapter.active(status),
        says_suspended=any(c.type == "Suspended" and c.status == "True" for c in conditions_of(status)),
        execution_policy=objects.execution_policy(obj),
        cluster_selector=objects.cluster_selector(obj),
        labels=objects.labels(obj) if labelled else {},
        synced=_synced(adapter, obj),
        size=_size(adapter, obj),
        group=(group := adapter.group(obj)),
        role=_role(obj) if group else "",
        held=adapter.held(obj),
        components=adapter.components(obj),
        end=_end(adapter, obj, status),
        template=template.ref,
        status=body.ref,
    )
    return event, (template, body)


def copied_job(adapter: JobKind, obj: Json) -> tuple[observations.RemoteJobObserved, tuple[Body, ...]]:
    """Return what the log says of a copy of it on a worker, with the bodies that it names; `Misfit` for one that is
    bound to no Workload.
    """
    status = fields.section(obj, "status")
    body = body_of(status)
    identity = objects.identity(obj)
    shared, first = adapter.shared(obj)
    bound = first or prebuilt(obj)
    if not bound:
        raise Misfit(
            f"metadata.annotations[{ORIGIN_UID if adapter.composed else PREBUILT}]",
            None,
            f"a Workload's name beside the label {ORIGIN_LABEL}",
        )
    size = _size(adapter, obj)
    part = adapter.sized(fields.section(obj, "spec")) if size else {}
    outcome = adapter.outcome(status)
    sized = body_of(part) if part else None
    event = observations.RemoteJobObserved(
        **identity,
        kind=adapter.kind.name,
        prebuilt=bound,
        suspended=adapter.suspended(obj),
        finished=outcome is not None,
        inactive=not adapter.active(status),
        synced=_synced(adapter, obj),
        size=size,
        sized=sized.ref if sized is not None else "",
        shared=shared,
        end=_job_end(outcome),
        status=body.ref,
        **(_of_a_pod(obj, outcome, deleting=identity["deleting"]) if adapter.kind == PODS else {}),
    )
    return event, (body, *([sized] if sized is not None else ()))


def _of_a_pod(obj: Json, outcome: JobOutcome | None, *, deleting: bool) -> dict[str, Any]:
    """Return what is said of the copy of a pod alone."""
    succeeded = outcome is not None and outcome.success
    return {"role": _role(obj), "succeeded": succeeded, "finalizers": _finalizers(obj) if deleting else []}


def _role(obj: Json) -> str:
    """Return the role of a pod in its group, as Kueue's webhook noted it on the management cluster; "" if it did not.
    A copy is made with it."""
    return str(fields.section(meta(obj), "annotations", "metadata").get(ROLE_HASH) or "")


def _finalizers(obj: Json) -> list[str]:
    """Return what keeps a pod that is deleted, and has stopped or never started."""
    stopped = meta(obj).get("deletionGracePeriodSeconds") == 0
    return fields.strings(meta(obj), "finalizers", "metadata") if stopped else []


def is_made_of_another(kind: Kind, obj: Json) -> bool:
    """Return whether a controller made an object of another one, whose labels and annotations it may have: a RayJob's
    RayCluster has them all, and a pod those of its PipelineRun. A copy is created without an owner."""
    owners = fields.items(meta(obj), "ownerReferences", "metadata")
    makers = [str(one.get("apiVersion")) for one in owners if one.get("controller") is True]
    return any(kind != PODS or one not in _ADOPT_PODS for one in makers)


def prebuilt(obj: Json) -> str:
    """Return the Workload that a job's copy is bound to: annotation first, then label; "" if neither is there."""
    metadata = meta(obj)
    for place in ("annotations", "labels"):
        found = fields.section(metadata, place).get(PREBUILT)
        if found:
            return str(found)
    return ""


def _synced(adapter: JobKind, obj: Json) -> str:
    return body_of(adapter.synced_spec(obj)).ref if adapter.synced else ""


def _size(adapter: JobKind, obj: Json) -> dict[str, int]:
    return adapter.size(obj) if adapter.elastic and objects.elastic(obj) else {}


def _end(adapter: JobKind, obj: Json, status: Json) -> observations.JobEnd | None:
    return _job_end(adapter.outcome(status)) if _size(adapter, obj) else None


def _job_end(outcome: JobOutcome | None) -> observations.JobEnd | None:
    if outcome is None:
        return None
    return observations.JobEnd(success=outcome.success, message=truncated(outcome.message, MESSAGE_LIMIT))
