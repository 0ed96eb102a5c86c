"""A copy is made of all that its job has, and the log holds nothing of what its user keeps to himself.

In: the commits of the management cluster, the creations on workers, the bodies as they reach the log. Out: a violation
when a copy has another spec than its object ever had, when a creation leaves out an annotation that its object always
had, or when a body holds a value that a variable, an argument or an annotation of a job has."""

from __future__ import annotations

import json

from controlplane.dst.engine.server import Written
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.workloads.kinds import ADAPTERS, GATED
from controlplane.kube.kinds import JOBS, WORKLOADS, Json, Kind, meta
from controlplane.log.event import NewEvent, canonical
from controlplane.simulation.apiserver.history import Commit

#: In the value of whatever a user of a plan would not like to find in the log.
PRIVATE = "hunter2"
NOTE = "example.com/note"
_WHOLE, _KEPT = "a copy is made of all of its job", "the log holds no value that is private"
# What adapters set themselves, and Kueue on either side.
_OWN = frozenset(
    {"suspend", "managedBy", "selector", "manualSelector", "active", "priority", "priorityClassRef", "preemptionGates"}
)


class SpecHistory:
    """Which specs the objects of the management cluster ever had."""

    def __init__(self, trace: Trace, management: str) -> None:
        self._trace, self._management = trace, management
        self._specs: dict[tuple[Kind, str], set[bytes]] = {}

    def on_commit(self, commit: Commit) -> None:
        """Take note of an object of the management cluster."""
        record = commit.record
        if record.kind == WORKLOADS or record.kind in ADAPTERS:
            self._specs.setdefault((record.kind, record.name), set()).add(_spec(record.obj))

    def on_written(self, write: Written) -> None:
        """Look at a creation on a worker."""
        known = self._specs.get((write.kind, write.name))
        if write.cluster == self._management or write.verb != "create" or known is None:
            return
        what = f"{write.kind.kind} {write.name} on {write.cluster}"
        if _spec(write.body) not in known:
            self._trace.violate(_WHOLE, f"{what} has another spec than it ever had on the management cluster")
        if write.kind != WORKLOADS and PRIVATE not in str((meta(write.body).get("annotations") or {}).get(NOTE)):
            self._trace.violate(_WHOLE, f"{what} lacks an annotation")

    def appended(self, new: NewEvent) -> None:
        """Look at the bodies of an event."""
        if any(PRIVATE in body.text for body in new.bodies):
            self._trace.violate(_KEPT, f"{type(new.event).__name__} of {new.stream}")


def _spec(obj: Json) -> bytes:
    """Return what has to be the same; pods have labels of their own cluster's Job."""
    spec: Json = json.loads(canonical({key: one for key, one in (obj.get("spec") or {}).items() if key not in _OWN}))
    if obj.get("kind") == JOBS.kind:
        spec["template"] = (spec.get("template") or {}).get("spec")
    for adapter in ADAPTERS.values():
        if adapter.kind.kind == obj.get("kind"):
            if adapter in GATED:
                _ungated(spec)
            for path in (adapter.suspend_path, adapter.managed_by_path):
                _without(spec, path)
    return canonical(spec)


def _ungated(part: Json) -> None:
    """Leave the scheduling gates out, which are of each cluster's own."""
    part.pop("schedulingGates", None)
    for inner in part.values():
        if isinstance(inner, dict):
            _ungated(inner)


def _without(spec: Json, path: tuple[str, ...]) -> None:
    for name in path[:-1]:
        spec = spec.get(name) or {}
    spec.pop(path[-1], None)
