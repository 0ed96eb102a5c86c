"""The pods of a simulated cluster's Jobs, for whoever looks at a Job with kubectl: `get pods`, `describe`,
`logs job/x`.

In: Jobs, whose statuses `jobs` plays; one that another controller manages runs elsewhere. Out: their pods, owned by
them: as many as the status has active, ended when the Job has ended, gone when it is suspended. Nothing is decided by
these pods, other than by those of `job_pods`, and nothing runs in them. The node that they are on is there to be looked
at too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controlplane.clock import Clock
from controlplane.job_kinds import INTEGRATIONS
from controlplane.kube.conditions import is_true
from controlplane.kube.kinds import JOBS, PODS, STRATEGIC_PATCH, Json, Kind, meta
from controlplane.kube.well_known import ENDED_PHASES
from controlplane.simulation.apiserver.pods import set_condition, stamp
from controlplane.simulation.controllers.behaviour import Behaviour, Key, View, place_of
from controlplane.simulation.controllers.job_pods import pod_of
from controlplane.simulation.controllers.workload_owners import controller_of


def node_named(name: str, quota: Mapping[str, str], version: str, at: str) -> Json:
    """Return a Node as one looks that has what a quota gives, and is ready since a time."""
    amounts = {**quota, "pods": "110"}
    info = dict.fromkeys(("machineID", "systemUUID", "bootID", "kernelVersion"), "simulated")
    info |= {"osImage": "simulated", "containerRuntimeVersion": "simulated://0", "kubeletVersion": version}
    info |= {"kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64"}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "nothing runs here: it is simulated",
    }
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{**ready, "lastHeartbeatTime": at, "lastTransitionTime": at}],
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": info,
        },
    }


MOST: Final = 50
"""So many pods of one Job are there at most: a Job with thousands of completions shall not fill a laptop."""

_BATCH: Final = INTEGRATIONS[JOBS]


class ShownPods(Behaviour):
    """Keeps the pods of one cluster's Jobs; its view must have Jobs and Pods."""

    def __init__(self, name: str, view: View, clock: Clock, node: str = "") -> None:
        """`node`: the one that all pods are on; "" if the cluster has none to show."""
        super().__init__(name, clock)
        self._view, self._node = view, node
        view.listen(self._on_change)

    def reconcile(self, key: Key) -> float | None:
        """Bring the pods of a Job to where its status is; None: only a change of the Job brings it back."""
        job = self._view.get(JOBS, *key)
        if (
            job is None
            or meta(job).get("deletionTimestamp")
            or _BATCH.managed_by(job) not in ("", _BATCH.own_controller)
        ):
            return None
        uid = meta(job)["uid"]
        pods = [pod for pod in self._view.all(PODS).values() if controller_of(pod).get("uid") == uid]
        status = job.get("status") or {}
        if is_true(job, "Complete"):
            self._end(job, pods, "Succeeded", int(status.get("succeeded") or 0))
        elif is_true(job, "Failed"):
            self._end(job, pods, "Failed", int(status.get("failed") or 0))
        elif not job["spec"].get("suspend"):
            self._run(job, pods, status)
        else:
            self._leave(pods, 0)
        return None

    def _on_change(self, kind: Kind, old: Json | None, new: Json | None) -> None:
        if kind == JOBS and new is not None:
            self.enqueue(place_of(new))
        elif (
            kind == PODS and new is None and old is not None and (owner := controller_of(old)).get("kind") == JOBS.kind
        ):
            self.enqueue(
                (meta(old)["namespace"], owner["name"])
            )  # somebody may have deleted it: then another one comes

    def _run(self, job: Json, pods: list[Json], status: Json) -> None:
        """Have as many pods pending or running as are active, and those of them ready that are."""
        alive = [pod for pod in pods if pod["status"].get("phase") not in ENDED_PHASES]
        wanted = min(int(status.get("active") or 0), MOST)
        self._leave(alive, wanted)
        alive = alive[:wanted] + [self._create(job) for _ in range(wanted - len(alive))]
        for pod in alive[: int(status.get("ready") or 0)]:
            if pod["status"].get("phase") == "Pending":
                self._show(pod, "Running", status.get("startTime"))

    def _end(self, job: Json, pods: list[Json], phase: str, count: int) -> None:
        """Have so many pods that ended in a phase, made now where the Job never had them at once."""
        ended = [pod for pod in pods if pod["status"].get("phase") == phase]
        alive = [pod for pod in pods if pod["status"].get("phase") not in ENDED_PHASES]
        missing = max(0, min(count, MOST) - len(ended))
        for pod in [*alive, *(self._create(job) for _ in range(missing - len(alive)))][:missing]:
            self._show(pod, phase, (job.get("status") or {}).get("startTime"))
        self._leave(alive[missing:], 0)

    def _leave(self, alive: list[Json], wanted: int) -> None:
        for pod in alive[wanted:]:
            if pod["status"].get("phase") not in ENDED_PHASES:
                self._view.store.delete(PODS, *place_of(pod), uid=meta(pod)["uid"], grace=0)

    def _create(self, job: Json) -> Json:
        pod = pod_of(job)
        if self._node:
            pod["spec"]["nodeName"] = self._node
        return self._view.store.create(PODS, pod, field_manager="kube-controller-manager")

    def _show(self, pod: Json, phase: str, started: object) -> None:
        at = stamp(self.clock.now())
        began, over = str(started or at), phase in ENDED_PHASES
        status: Json = {"phase": phase, "startTime": began, "conditions": []}
        set_condition(status, "PodScheduled", "True", began)
        set_condition(status, "Initialized", "True", began)
        reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase)
        for kind in ("Ready", "ContainersReady"):
            set_condition(status, kind, "False" if over else "True", at, reason)
        code = 0 if phase == "Succeeded" else 1
        ended = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": began, "finishedAt": at}
        state: dict[str, Any] = {"terminated": ended} if over else {"running": {"startedAt": began}}
        status["containerStatuses"] = [
            {
                "name": container["name"],
                "image": container.get("image", ""),
                "imageID": "",
                "ready": not over,
                "started": not over,
                "restartCount": 0,
                "state": state,
            }
            for container in pod["spec"].get("containers") or ()
        ]
        body = {"metadata": {"uid": meta(pod)["uid"]}, "status": status}
        place = place_of(pod)
        self._view.store.patch(
            PODS, *place, body, content_type=STRATEGIC_PATCH, subresource="status", field_manager="kubelet"
        )
