"""What the job framework says of itself."""

from __future__ import annotations

from controlplane.controllers.jobframework import (
    events,
    namespace_events,
    pod_events,
    runtime_events,
    set_events,
    topology_events,
)
from controlplane.controllers.jobframework.phrases import PHRASES, WRITES
from controlplane.controllers.jobframework.reasons import REASONS
from controlplane.runtime.hosting import GrantedRights
from controlplane.runtime.manifest import Deferred, Manifest

_EVENTS = (
    *events.EVENTS,
    *pod_events.EVENTS,
    *topology_events.EVENTS,
    *runtime_events.EVENTS,
    *set_events.EVENTS,
    *namespace_events.EVENTS,
)
MANIFEST = Manifest(
    title="Jobs and their Workloads",
    intro="Recorded where `quota.mode` is `builtin`.",
    events=_EVENTS,
    phrases=PHRASES,
    reasons=REASONS,
    decision=events.JobDecision,
    write=events.JobWrite,
    writes={one: WRITES[one.__name__] for one in _EVENTS if issubclass(one, events.JobWrite)},
    runs=lambda settings, policy: settings.quota.builtin,
    host=Deferred("controlplane.controllers.jobframework.hosting:host"),
    folds=Deferred("controlplane.controllers.jobframework.state:FOLDS"),
    rights=(
        GrantedRights(
            manifest="rbac/management/jobframework.yaml",
            when=lambda settings: settings.quota.builtin,
            role="controlplane-jobframework",
        ),
    ),
    streams={
        "jobframework/job/KIND/NS/NAME": "a job, with its Workloads",
        "jobframework/job/podgroups/NS/GROUP": "the pods of a group, with their Workload",
        "jobframework/workload/NS/NAME": "a Workload that no job owns yet",
        "jobframework/topology/NS/NAME": "the pods of a Workload that a topology places, or of an elastic job",
        "jobframework/runtime/KIND/NAME": "what pods of jobs rest on, beside the job: a runtime of the trainer",
        "jobframework/namespace/NAME": "a namespace, where jobs are looked after by namespaces",
        "jobframework/flavor/NAME": "a ResourceFlavor, as jobs get it",
        "jobframework/priorityclass/KIND/NAME": "a priority class",
        "jobframework/refused/KIND/NS/NAME": "an object that cannot be read",
    },
)
