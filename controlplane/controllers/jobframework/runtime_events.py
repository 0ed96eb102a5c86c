"""Defines what is recorded of the objects that pods of a job rest on beside the job: the runtimes of TrainJobs."""

from __future__ import annotations

from controlplane.kube.kinds import Json, ObjectRef
from controlplane.log.event import Event, Kept
from controlplane.runtime.observations import ObjectObserved, ObjectVanished


class JobRuntimeObserved(ObjectObserved):
    """A runtime: `kind` is that of Kubernetes (`clustertrainingruntimes.trainer.kubeflow.org`), `namespace` is empty
    for one of the cluster. `spec` is its outline, with digests of what containers say, and `body` names the whole of
    it."""

    kind: str
    deleting: bool = False
    spec: Json = {}
    body: str = ""
    kept: Kept = {}


class JobRuntimeGone(ObjectVanished):
    """The runtime was deleted."""

    kind: str


def runtime_key(place: ObjectRef) -> str:
    """Return what names a runtime in streams and in jobs: the kind's name, the namespace if it has one, the name."""
    return "/".join(filter(None, (place.kind.name, place.namespace, place.name)))


EVENTS: tuple[type[Event], ...] = (JobRuntimeObserved, JobRuntimeGone)
