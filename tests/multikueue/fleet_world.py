"""Tiny models for the properties of a fleet: an API server with the little of Kueue that matters there, and a log with
the loop around it.

A `Server` carries out what `MultiKueueController` renders and remembers what it has not shown yet, kind by kind, as
watches are."""

from __future__ import annotations

import copy
from typing import Any

from controlplane.clusters.protocol import ApiError, Foreign, Unreachable
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.events import JobCreationDecided, WorkloadDecision, WorkloadWrite
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.job_kinds import JOB_KINDS, adapters_for
from controlplane.kube.kinds import APPLY_PATCH, JOBS, WORKLOADS, Json, Kind, Request, meta
from controlplane.log.event import Event, NewEvent, Recorded
from tests.multikueue.scene import CHECK, START, stamp

ORIGIN, FINALIZER = "kueue.x-k8s.io/multikueue-origin", "kueue.x-k8s.io/resource-in-use"
KINDS = (WORKLOADS, JOBS)


def true(obj: Json | None, kind: str) -> bool:
    conditions = ((obj or {}).get("status") or {}).get("conditions") or []
    return any(c["type"] == kind and c["status"] == "True" for c in conditions)


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        result.pop(name, None) if value is None else result.update({name: merged(result.get(name), value)})
    return result


class Server:
    """One cluster with at most one Workload and one Job. `unseen` is what its watches have not shown yet."""

    def __init__(self, name: str) -> None:
        self.name, self.version, self.made = name, 0, 0
        self.objects: dict[Kind, Json] = {}
        self.unseen: dict[Kind, list[tuple[Json, int, bool]]] = {kind: [] for kind in KINDS}
        self.reachable, self.refuses, self.loses_reply = True, 0, False
        self.kept = False  # a deletion of the job was refused: whoever goes on knows that it may run there
        self.now = START

    def store(self, kind: Kind, obj: Json) -> None:
        if obj == self.objects.get(kind):
            return
        self.version += 1
        obj = copy.deepcopy(obj)
        meta(obj)["resourceVersion"] = str(self.version)
        if "deletionTimestamp" in meta(obj) and not meta(obj).get("finalizers"):
            self.objects.pop(kind, None)
            self.unseen[kind].append((obj, self.version, True))
        else:
            self.objects[kind] = obj
            self.unseen[kind].append((obj, self.version, False))

    def change(self, kind: Kind, patch: Json) -> None:
        self.store(kind, merged(self.objects[kind], patch))

    def remove(self, kind: Kind) -> None:
        self.change(kind, {"metadata": {"deletionTimestamp": stamp(self.now)}})

    def condition(self, type_: str, value: bool = True, reason: str = "Test") -> None:
        if true(self.objects[WORKLOADS], type_) == value:
            return
        status = self.objects[WORKLOADS].get("status") or {}
        kept = [c for c in status.get("conditions") or [] if c["type"] != type_]
        said = {"type": type_, "status": str(value), "reason": reason, "lastTransitionTime": stamp(self.now)}
        self.change(WORKLOADS, {"status": {"conditions": [*kept, said]}})

    def execute(self, request: Request) -> Json | None:
        if not self.reachable:
            raise Unreachable("no answer")
        if self.refuses:
            self.refuses -= 1
            self.kept = self.kept or (request.verb == "delete" and request.ref.kind == JOBS)
            raise ApiError(403, "Forbidden", "not now")
        answer = self._carry_out(request)
        if self.loses_reply:
            self.loses_reply = False
            raise Unreachable("reset after the call")
        return answer

    def _carry_out(self, request: Request) -> Json | None:
        kind, found = request.ref.kind, self.objects.get(request.ref.kind)
        if request.verb == "create":
            if found is None:
                self.made += 1
                body = merged(request.body, {"metadata": {"uid": f"{self.name}-{kind.kind}-{self.made}"}})
                self.store(kind, body)
                return self.objects[kind]
            assert request.owner_label
            if (meta(found).get("labels") or {}).get(ORIGIN) != request.owner_label[1]:
                raise Foreign("somebody else's", found)
            if "deletionTimestamp" in meta(found):
                raise ApiError(409, "AlreadyExists", "is being deleted")
            return found
        if found is None:
            raise ApiError(404, "NotFound", "gone")
        wrong_version = request.resource_version and request.resource_version != meta(found)["resourceVersion"]
        if wrong_version or (request.uid and request.uid != meta(found)["uid"]):
            raise ApiError(409, "Conflict", "changed")
        if request.verb == "delete":
            assert request.uid
            assert request.owner_label == ((ORIGIN, "multikueue") if request.resource_version else None)
            assert meta(found)["labels"][ORIGIN] == "multikueue", "deleted what is not ours"
            self.remove(kind)
            return None
        assert request.resource_version, "a patch without a resourceVersion"
        written = applied(found, request) if request.content_type == APPLY_PATCH else merged(found, request.body)
        self.webhook(found, written)
        self.store(kind, written)
        return self.objects.get(kind, found)

    def webhook(self, old: Json, new: Json) -> None:
        """Specs 1.5, rules 1–3: nothing that we write may ever be refused for them."""
        before, after = old.get("status") or {}, new.get("status") or {}
        chosen, chosen_before = after.get("clusterName"), before.get("clusterName")
        assert not (chosen and after.get("nominatedClusterNames"))
        assert not (chosen and chosen_before and chosen != chosen_before)
        assert not chosen or chosen_before or chosen in (before.get("nominatedClusterNames") or [])

    # the little of Kueue that matters

    def manager(self) -> None:
        """One step of the manager's core."""
        workload, job = self.objects[WORKLOADS], self.objects[JOBS]
        status = workload.get("status") or {}
        check = status["admissionChecks"][0]
        if true(workload, "Finished"):
            return
        if true(job, "Complete"):
            self.condition("Finished", reason="Succeeded")
        elif check["state"] == "Retry" and not true(workload, "Evicted"):
            self.evict(retries=check.get("retryCount", 0) + 1)
        elif true(workload, "Evicted") and not job["spec"]["suspend"]:
            self.change(JOBS, {"spec": {"suspend": True}})
        elif true(workload, "Evicted") and true(workload, "QuotaReserved") and not job["status"].get("active"):
            self.condition("QuotaReserved", value=False)
            self.condition("Admitted", value=False)
        elif true(workload, "QuotaReserved") and check["state"] == "Ready" and not true(workload, "Evicted"):
            self.condition("Admitted")
            self.change(JOBS, {"spec": {"suspend": False}})

    def evict(self, retries: int = 0) -> None:
        check: Json = {"name": CHECK, "state": "Pending", "message": "", "lastTransitionTime": stamp(self.now)}
        check |= {"retryCount": retries} if retries else {}
        gone = {"clusterName": None, "nominatedClusterNames": None}
        self.change(WORKLOADS, {"status": {"admissionChecks": [check], **gone}})
        self.condition("Evicted")

    def worker(self) -> None:
        """One step of a worker's core."""
        clone, job = self.objects.get(WORKLOADS), self.objects.get(JOBS)
        if clone is None or true(clone, "Finished"):
            return
        bound = meta(clone).get("labels", {}).get("kueue.x-k8s.io/job-uid")
        if true(clone, "DeactivationTarget") and clone["spec"].get("active") is not False:
            self.change(WORKLOADS, {"spec": {"active": False}})
            self.condition("Evicted", reason="Deactivated")
        elif job is None and bound:
            self.condition("Finished", reason="OwnerNotFound")
        elif job is not None and not bound and "deletionTimestamp" not in meta(clone):
            labels = {"kueue.x-k8s.io/job-uid": meta(job)["uid"]}
            self.change(WORKLOADS, {"metadata": {"labels": labels, "finalizers": [FINALIZER]}})
        elif job is not None and true(job, "Complete"):
            self.condition("Finished", reason="Succeeded")
        elif job is not None and true(clone, "Evicted") and not job["spec"]["suspend"]:
            self.change(JOBS, {"spec": {"suspend": True}, "status": {"active": None}})
        elif job is not None and true(clone, "Admitted") and not true(clone, "Evicted") and job["spec"]["suspend"]:
            self.change(JOBS, {"spec": {"suspend": False}, "status": {"active": 1, "startTime": stamp(self.now)}})


def applied(found: Json, request: Request) -> Json:
    """What a server makes of a server-side apply of a status, where nobody else owns any of its fields."""
    status = request.body["status"]
    if request.field_manager == "kueue-admission":
        return {**found, "status": status}
    assert (request.field_manager, list(status)) == ("kueue.x-k8s.io/multikueue", ["admissionChecks"])
    ours = {check["name"]: check for check in status["admissionChecks"]}
    checks = [ours.get(check["name"], check) for check in found["status"]["admissionChecks"]]
    return {**found, "status": {**found["status"], "admissionChecks": checks}}


class Log:
    """The log, the fleet that lives from it, and the loop around them, one thing at a time."""

    def __init__(self, **policy: Any) -> None:
        self.policy = MultiKueuePolicy(adapters=adapters_for(JOB_KINDS), **policy)
        self.now, self.recorded = START, list[Recorded]()
        self.versions: dict[str, int] = {}
        self.marks: dict[str, int] = {}
        self.bodies: dict[str, bytes] = {}
        self.wakes: dict[str, Any] = {}
        self.fleet = self.fresh()

    def fresh(self) -> MultiKueueController:
        return MultiKueueController(self.policy, "test")

    def append(self, new: NewEvent) -> None:
        if new.source and new.mark <= self.marks.get(new.source, -1):
            return
        if new.source:
            self.marks[new.source] = new.mark
        self.bodies.update({body.ref: body.text.encode() for body in new.bodies})
        self.versions[new.stream] = self.versions.get(new.stream, 0) + 1
        self.check(new.event, new.stream)
        recorded = Recorded(
            position=len(self.recorded) + 1,
            stream=new.stream,
            version=self.versions[new.stream],
            event=new.event,
            cluster=new.cluster,
            recorded_at=self.now,
        )
        self.recorded.append(recorded)
        self.fleet.fold(recorded)

    def check(self, event: Event, stream: str) -> None:
        """What holds of every decision at the moment it is recorded."""
        if isinstance(event, WorkloadDecision):
            assert event.reason in set(WorkloadReason)
        if isinstance(event, WorkloadWrite):
            assert event.target not in {write.target for write in self.fleet.open_writes(stream)}
        if isinstance(event, JobCreationDecided):
            state = self.fleet.index.workloads[stream]
            context = self.fleet.index.context(state)
            for name, remote in state.remotes.items():
                elsewhere = name != event.cluster and context.in_view(name) and remote.job is not None
                assert not elsewhere or f"{name}/Job" in state.trouble, f"the job is on {name} as well"

    def react(self) -> None:
        """Decide about everything that changed or is due, until nothing follows any more."""
        for _ in range(30):
            due = [stream for stream, when in self.wakes.items() if when <= self.now]
            streams = list(dict.fromkeys([*self.fleet.take_dirty(), *due]))
            if not streams:
                return
            for stream in streams:
                self.wakes.pop(stream, None)
                decided = self.fleet.decide(stream, self.now)
                if decided.wake is not None:
                    self.wakes[stream] = decided.wake
                for new in decided.events:
                    self.append(new)
        raise AssertionError("decisions without end")

    def replayed(self) -> MultiKueueController:
        fleet = self.fresh()
        for recorded in self.recorded:
            fleet.fold(recorded)
        return fleet
