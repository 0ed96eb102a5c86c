"""The conditions of a Workload agree with each other, whoever reads them at whichever moment.

In: the commits of Workloads on the management cluster. Out: a violation as soon as an object is committed whose status
contradicts itself. The rules are those of Kueue's own status (kubernetes-sigs/kueue pkg/workload/workload.go,
admissionchecks.go, ff69552e)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.workloads.oddities import odd, planted
from controlplane.kube.kinds import Json
from controlplane.simulation.apiserver.history import Commit
from controlplane.simulation.world import MANAGEMENT

RULE = "conditions agree"
_SOMEBODY_S = frozenset({"example.com/Odd"})
_Conditions = Mapping[str, Json]


class StatusRules:
    """Looks at each Workload as it is committed. `looked` counts them."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.looked = 0

    def on_commit(self, commit: Commit) -> None:
        """Look at a change of a Workload."""
        record, before = commit.record, commit.previous
        if commit.type == "DELETED" or planted(record) or odd(MANAGEMENT, record):
            return
        self.looked += 1
        after = record.obj.get("status") or {}
        was = (before.obj.get("status") or {}) if before is not None else {}
        if before is not None and odd(MANAGEMENT, before):
            was = after  # it is as it was before somebody made it odd: nothing was decided now
        if wrong := next(contradictions(was, after), ""):
            self._trace.violate(RULE, f"{record.name} at {record.version}: {wrong}")


def _by_type(status: Json) -> _Conditions:
    return {one["type"]: one for one in status.get("conditions") or () if one["type"] not in _SOMEBODY_S}


def contradictions(before: Json, after: Json) -> Iterator[str]:
    """Yield in which ways a status contradicts itself, or what it was before, in words."""
    was, now = _by_type(before), _by_type(after)
    true_before = {name for name, one in was.items() if one["status"] == "True"}
    true = {name for name, one in now.items() if one["status"] == "True"}
    yield from _reservation(true_before, true, after)
    if "Admitted" in true - true_before:
        states = {check["state"] for check in after.get("admissionChecks") or ()}
        yield from (f"Admitted with a check that is {state}" for state in sorted(states - {"Ready"}))
    if "Finished" in true_before - true:
        yield "it is Finished no more"
    yield from _times(was, now)


def _reservation(true_before: Set[str], true: Set[str], after: Json) -> Iterator[str]:
    """What has quota has an admission, and is not evicted when it gets it; what is admitted has quota."""
    reserved, given = "QuotaReserved" in true, after.get("admission") is not None
    if reserved != given:
        yield f"QuotaReserved is {reserved} and status.admission is {'there' if given else 'not there'}"
    if "Admitted" in true and not reserved:
        yield "Admitted without QuotaReserved"
    if "QuotaReserved" in true - true_before:
        yield from (f"{name} is True with new quota" for name in sorted({"Evicted", "Preempted"} & true))


def _times(was: _Conditions, now: _Conditions) -> Iterator[str]:
    """The time of a condition moves with its status, and never without."""
    for name, one in now.items():
        old = was.get(name)
        if (
            old is not None
            and old["status"] == one["status"]
            and old["lastTransitionTime"] != one["lastTransitionTime"]
        ):
            yield f"the time of {name} moved from {old['lastTransitionTime']} without its status"
