"""Changes a Workload's status as Kueue's `pkg/workload` does, word for word.

In: a status as JSON, which is changed in place, and the moment. Out: whether anything changed
(kubernetes-sigs/kueue pkg/workload/workload.go, admissionchecks.go, evict/evict.go, main after v0.19.2)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from controlplane.kube.kinds import Json
from controlplane.kube.kueue_names import BLOCKED
from controlplane.kube.requests import later, timestamp, truncated
from controlplane.kube.workload_status import RAN_TOO_LONG

QUOTA_RESERVED, ADMITTED, EVICTED, PREEMPTED = "QuotaReserved", "Admitted", "Evicted", "Preempted"
PODS_READY, PODS_READY_TIMEOUT = "PodsReady", "PodsReadyTimeout"
WAIT_FOR_START, WAIT_FOR_RECOVERY = "WaitForStart", "WaitForRecovery"
REQUEUED, FINISHED, DEACTIVATION_TARGET = "Requeued", "Finished", "DeactivationTarget"
MISCONFIGURED, SUSPENDED, DEACTIVATED = "Misconfigured", "Suspended", "Deactivated"
PENDING_EVALUATION, GATED, ON_HOLD = "PendingEvaluation", "AdmissionGated", "OnHold"
NO_RESERVATION, INADMISSIBLE = "NoReservation", "Inadmissible"
PENDING, READY, RETRY, REJECTED = "Pending", "Ready", "Retry", "Rejected"

MESSAGE_LIMIT = 32 * 1024
_REASON_LIMIT, _COUNTED_LIMIT = 1024, 316  # of a condition, and of an eviction that is counted
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class WorkloadStatus:
    """A status that is being changed: of which `generation`, and when."""

    status: Json
    generation: int
    now: datetime

    # What is asked.

    def condition(self, type_: str) -> Json | None:
        """Return a condition, or None."""
        return next((one for one in self.status.get("conditions") or () if one.get("type") == type_), None)

    def is_true(self, type_: str) -> bool:
        """Whether a condition is True."""
        found = self.condition(type_)
        return found is not None and found.get("status") == "True"

    @property
    def reserved(self) -> bool:
        """Whether quota is reserved."""
        return self.is_true(QUOTA_RESERVED)

    @property
    def pending(self) -> bool:
        """Whether it is neither finished nor admitted nor has quota."""
        return not (self.is_true(FINISHED) or self.is_true(ADMITTED) or self.reserved)

    @property
    def checks(self) -> list[Json]:
        """The states of the admission checks."""
        found: list[Json] = self.status.get("admissionChecks") or []
        return found

    def in_state(self, state: str) -> list[Json]:
        """Return the admission checks in a state."""
        return [check for check in self.checks if check.get("state") == state]

    def requeue_at(self) -> datetime | None:
        """Return before which moment it is not queued again."""
        return moment((self.status.get("requeueState") or {}).get("requeueAt"))

    # What is changed.

    def set(self, type_: str, value: str, reason: str, message: str, *, generation: int | None = None) -> bool:
        """Set a condition; its time moves only with its value."""
        made: Json = {
            "type": type_,
            "status": value,
            "reason": reason,
            "message": truncated(message, MESSAGE_LIMIT),
            "lastTransitionTime": timestamp(self.now),
        }
        observed = self.generation if generation is None else generation
        if observed:
            made["observedGeneration"] = observed
        conditions: list[Json] = list(self.status.get("conditions") or ())
        self.status["conditions"] = conditions
        for at, before in enumerate(conditions):
            if before.get("type") == type_:
                if before.get("status") == value:
                    made["lastTransitionTime"] = before.get("lastTransitionTime", made["lastTransitionTime"])
                conditions[at] = made
                return made != before
        conditions.append(made)
        return True

    def drop(self, type_: str) -> None:
        """Remove a condition."""
        self.status["conditions"] = [one for one in self.status.get("conditions") or () if one.get("type") != type_]

    def reserve(self, admission: Json, required: Collection[str]) -> None:
        """Reserve quota, and admit it if all required checks are ready."""
        self.status["admission"] = admission
        self.status.pop("resourceRequests", None)
        reason = "QuotaReserved"
        self.set(QUOTA_RESERVED, "True", reason, f"Quota reserved in ClusterQueue {admission['clusterQueue']}")
        for type_ in (EVICTED, PREEMPTED, BLOCKED):
            before = self.condition(type_)
            if before is not None and before.get("status") == "True":
                self.set(type_, "False", reason, f"Previously: {before.get('message', '')}")
        if set(required) <= {str(check.get("name")) for check in self.checks}:
            self.sync_admitted()

    def unreserve(self, reason: str, message: str) -> bool:
        """Note that no quota is reserved, and why."""
        changed = self.set(QUOTA_RESERVED, "False", reason, message)
        if self.status.get("admission") is not None:
            self.status.pop("admission")
            changed = True
        return self.sync_admitted() or changed

    def sync_admitted(self) -> bool:
        """Let the condition Admitted follow from the reservation and the checks."""
        before = self.condition(ADMITTED)
        if self.condition(QUOTA_RESERVED) is None and before is None:
            return False
        if not self.reserved:
            made = "False", NO_RESERVATION, "The workload has no reservation"
        elif any(check.get("state") != READY for check in self.checks):
            made = "False", "UnsatisfiedAdmissionChecks", "The workload has not all checks ready"
        elif self._topology_pending():
            made = "False", "PendingDelayedTopologyRequests", "There are pending delayed topology requests"
        else:
            made = "True", "Admitted", "The workload is admitted"
        if made[0] == "False" and self.is_true(ADMITTED):
            self._count_time(before or {})
        return self.set(ADMITTED, *made)

    def _count_time(self, admitted: Json) -> None:
        """Add how long it was admitted; nothing if it is deactivated for the time that it had: who activates it gives
        it all of that anew; nor if it was admitted by a clock that was ahead of ours."""
        if self.is_true(EVICTED) and (self.condition(EVICTED) or {}).get("reason") == RAN_TOO_LONG:
            return
        since = moment(admitted.get("lastTransitionTime")) or self.now
        past = int(self.status.get("accumulatedPastExecutionTimeSeconds") or 0)
        self.status["accumulatedPastExecutionTimeSeconds"] = past + max(0, int((self.now - since).total_seconds()))

    def _topology_pending(self) -> bool:
        given = (self.status.get("admission") or {}).get("podSetAssignments") or ()
        return any(
            one.get("topologyAssignment") is None and one.get("delayedTopologyRequest") == "Pending" for one in given
        )

    def sync_preemption_gates(self, wanted: Sequence[str]) -> bool:
        """Let there be a position for each of the gates that it has, closed for a new one
        (`syncPreemptionGateStates`)."""
        gates: list[Json] = self.status.get("preemptionGates") or []
        known = {gate.get("name") for gate in gates}
        made = [
            {"name": one, "position": "Closed", "lastTransitionTime": timestamp(self.now)}
            for one in wanted
            if one not in known
        ]
        kept = [gate for gate in gates if gate.get("name") in wanted]
        if not made and len(kept) == len(gates):
            return False
        self.status["preemptionGates"] = [*kept, *made]
        return True

    def sync_checks(self, wanted: Collection[str]) -> bool:
        """Let there be a state for each of the checks that count, and for no other."""
        checks = self.checks
        if not wanted:
            self.status.pop("admissionChecks", None)
            return bool(checks)
        known = {check.get("name") for check in checks}
        made = [
            {"name": name, "state": PENDING, "message": "", "lastTransitionTime": timestamp(self.now)}
            for name in wanted
            if name not in known
        ]
        kept = [check for check in checks if check.get("name") in wanted]
        if not made and len(kept) == len(checks):
            return False
        self.status["admissionChecks"] = sorted([*kept, *made], key=lambda check: str(check["name"]))
        return True

    def evict(self, reason: str, message: str, cause: str = "") -> None:
        """Note that it is evicted; `cause`: the underlying one of a deactivation."""
        said = f"{reason}DueTo{cause}" if reason == DEACTIVATED and cause else reason
        self.set(EVICTED, "True", said[:_REASON_LIMIT], message)
        self.status.pop("clusterName", None)
        self.status.pop("nominatedClusterNames", None)
        self.reset_checks()
        self.status.pop("unhealthyNodes", None)
        if self.is_true(BLOCKED):
            self.set(BLOCKED, "False", said[:_REASON_LIMIT], message)
        for gate in self.status.get("preemptionGates") or ():
            gate |= {"position": "Closed", "lastTransitionTime": timestamp(self.now)}
        self._count_eviction(reason, cause)

    def reset_checks(self) -> None:
        """Let all checks be asked anew."""
        found = []
        for check in self.checks:
            if check.get("state") == PENDING:
                found.append(check)
                continue
            made: Json = {
                "name": check["name"],
                "state": PENDING,
                "message": f"Reset to Pending after eviction. Previously: {check.get('state')}",
                "lastTransitionTime": timestamp(self.now),
            }
            if check.get("requeueAfterSeconds") is not None:
                made["requeueAfterSeconds"] = check["requeueAfterSeconds"]
            if check.get("state") == RETRY:
                made["retryCount"] = int(check.get("retryCount") or 0) + 1
            found.append(made)
        if found:
            self.status["admissionChecks"] = found

    def _count_eviction(self, reason: str, cause: str) -> None:
        reason, cause = reason[:_COUNTED_LIMIT], cause[:_COUNTED_LIMIT]
        stats: Json = {**(self.status.get("schedulingStats") or {})}
        counted: list[Json] = [dict(one) for one in stats.get("evictions") or ()]
        for one in counted:
            if one.get("reason") == reason and one.get("underlyingCause", "") == cause:
                one["count"] = int(one.get("count") or 0) + 1
                break
        else:
            counted.append({"reason": reason, "underlyingCause": cause, "count": 1})
        self.status["schedulingStats"] = {**stats, "evictions": counted}

    def preempt(self, reason: str, message: str) -> None:
        """Note that it is preempted, and evicted for that."""
        self.set(PREEMPTED, "True", reason, message, generation=0)
        self.evict("Preempted", message)

    def retry_time(self) -> datetime | None:
        """Return the moment that a check asks to wait for, if that is later than what is waited for."""
        latest: datetime | None = None
        for check in self.in_state(RETRY):
            since, after = moment(check.get("lastTransitionTime")), check.get("requeueAfterSeconds")
            if since is not None and isinstance(after, int):
                at = later(since, after)
                latest = at if latest is None or at > latest else latest
        if latest is None or latest <= self.now:
            return None
        waits = self.requeue_at()
        return latest if waits is None or waits < latest else None

    def request_resources(self, requests: list[Json]) -> bool:
        """Note what its pod sets ask for."""
        if (self.status.get("resourceRequests") or []) == requests:
            return False
        self.status["resourceRequests"] = requests
        return True


def as_read(status: Json) -> WorkloadStatus:
    """Return a status that is asked and not changed."""
    return WorkloadStatus(status, 0, _NEVER)


def moment(found: Any) -> datetime | None:
    """Return a moment as an API server writes it; None for what is none."""
    if not isinstance(found, str):
        return None
    try:
        read = datetime.fromisoformat(found)
    except ValueError:
        return None
    return read if read.tzinfo is not None else None


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[list[Json], list[str], Json]:
    """Return the conditions that are others, the types of those that are gone, and what else changed, with None for
    what is gone.
    """
    was = {one["type"]: one for one in before.get("conditions") or ()}
    now = {one["type"]: one for one in after.get("conditions") or ()}
    conditions = [one for type_, one in now.items() if was.get(type_) != one]
    dropped = [type_ for type_ in was if type_ not in now]
    changes: Json = {}
    for field in sorted({*before, *after} - {"conditions"}):
        one, other = before.get(field), after.get(field)
        if (one or None) != (other or None):
            changes[field] = other or None
    return conditions, dropped, changes


def checks_message(checks: list[Json], state: str) -> str:
    """Return which admission checks are in a state, and what each says, as Kueue's conditions do."""
    parts = [
        f'"{check["name"]}" ({check["message"]})' if check.get("message") else f'"{check["name"]}"'
        for check in sorted(checks, key=lambda check: str(check["name"]))
    ]
    return f"{'AdmissionChecks' if len(parts) > 1 else 'AdmissionCheck'} in {state} state: {'; '.join(parts)}"
