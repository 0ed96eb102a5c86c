"""The kubelets of a simulated cluster's nodes, and the pod garbage collector: what happens to a pod once it is bound.

In: pods with a node, and Nodes. Out: their statuses in a kubelet's transitions and words: started, ready, ended after a
while if they are not meant to run for ever; and gone, after they were told to stop. How long a pod runs and how it ends
is said by its annotations, as for jobs, otherwise by `PodTimes`. A pod on a node that is not there is nobody's, and is
removed after a while."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from controlplane.clock import Clock
from controlplane.kube import durations
from controlplane.kube.kinds import NODES, PODS, STRATEGIC_PATCH, Json, Kind, meta
from controlplane.kube.well_known import ENDED_PHASES
from controlplane.simulation.apiserver.pods import set_condition, stamp
from controlplane.simulation.controllers.behaviour import Behaviour, Key, View, place_of
from controlplane.simulation.controllers.jobs import DURATION, OUTCOME


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTimes:
    """How pods live where their annotations do not say: from binding to running, from running to the end (only where
    the restartPolicy is not Always; None: never), and from being told to stop to being gone. `orphans` is how long a
    pod outlives its node."""

    startup: timedelta = timedelta(0)
    duration: timedelta | None = None
    stopping: timedelta = timedelta(0)
    orphans: timedelta = timedelta(seconds=40)


class Kubelet(Behaviour):
    """Every node's kubelet in one."""

    def __init__(self, name: str, view: View, clock: Clock, times: PodTimes | None = None) -> None:
        super().__init__(name, clock)
        self._view, self._times = view, times or PodTimes()
        self._since: dict[tuple[str, str], float] = {}  # (uid, state) → when it was first seen in that state
        view.store.graceful = True
        view.listen(self._on_change)

    def reconcile(self, key: Key) -> float | None:
        """Take a pod one step on; return after how many seconds the next is due."""
        pod = self._view.get(PODS, key[0], key[1])
        if pod is None or not pod["spec"].get("nodeName"):
            return None
        if self._view.get(NODES, "", pod["spec"]["nodeName"]) is None:
            left = self._left(pod, "orphan", self._times.orphans)
            return left if left > 0 else self._remove(pod)
        if meta(pod).get("deletionTimestamp"):
            left = self._left(pod, "stopping", self._times.stopping)
            return left if left > 0 else self._stop(pod)
        phase = pod["status"].get("phase")
        if phase == "Pending":
            left = self._left(pod, "starting", self._times.startup)
            return left if left > 0 else self._start(pod)
        if phase == "Running" and (duration := self._duration(pod)) is not None:
            left = self._left(pod, "running", duration)
            return left if left > 0 else self._end(pod)
        return None

    def _on_change(self, kind: Kind, old: Json | None, new: Json | None) -> None:
        if kind == PODS:
            if new is None and old is not None:
                uid = meta(old)["uid"]
                for state in ("orphan", "stopping", "starting", "running"):
                    self._since.pop((uid, state), None)
            elif new is not None:
                self.enqueue(place_of(new))
        elif kind == NODES and (old is None or new is None):
            for place in self._view.all(PODS):
                self.enqueue(place)

    def _left(self, pod: Json, state: str, after: timedelta) -> float:
        since = self._since.setdefault((meta(pod)["uid"], state), self.clock.monotonic())
        return since + after.total_seconds() - self.clock.monotonic()

    def _duration(self, pod: Json) -> timedelta | None:
        said = (meta(pod).get("annotations") or {}).get(DURATION)
        try:
            found = durations.parse(said) if said else self._times.duration
        except ValueError:
            found = self._times.duration
        return found if said or pod["spec"].get("restartPolicy") != "Always" else None

    def _start(self, pod: Json) -> float | None:
        at = stamp(self.clock.now())
        status: Json = {"phase": "Running", "startTime": at, "conditions": []}
        for kind in ("Initialized", "Ready", "ContainersReady"):
            set_condition(status, kind, "True", at)
        status["containerStatuses"] = [
            {
                "name": container["name"],
                "image": container.get("image", ""),
                "imageID": "",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": at}},
            }
            for container in pod["spec"].get("containers") or ()
        ]
        self._write(pod, status)
        duration = self._duration(pod)
        return duration.total_seconds() if duration is not None else None

    def _end(self, pod: Json) -> float | None:
        self._over(pod, failed=(meta(pod).get("annotations") or {}).get(OUTCOME) == "fail")
        return None

    def _over(self, pod: Json, *, failed: bool) -> None:
        at = stamp(self.clock.now())
        code, reason = (1, "Error") if failed else (0, "Completed")
        status: Json = {"phase": ENDED_PHASES[failed], "conditions": []}
        for kind in ("Ready", "ContainersReady"):
            set_condition(status, kind, "False", at, "PodFailed" if failed else "PodCompleted")
        status["containerStatuses"] = [
            {
                **known,
                "ready": False,
                "started": False,
                "state": {"terminated": {"exitCode": code, "reason": reason, "finishedAt": at}},
            }
            for known in pod["status"].get("containerStatuses") or ()
        ]
        self._write(pod, status)

    def _stop(self, pod: Json) -> float | None:
        """End a pod that is being deleted, and let it go. As of Kubernetes 1.27 it says first that it has ended: what
        was told to stop has failed."""
        if pod["status"].get("phase") in ENDED_PHASES:
            return self._remove(pod)
        self._over(pod, failed=True)
        return 0.0

    def _write(self, pod: Json, status: Json) -> None:
        place, uid = place_of(pod), meta(pod)["uid"]
        body = {"metadata": {"uid": uid}, "status": status}
        self._view.store.patch(
            PODS, *place, body, content_type=STRATEGIC_PATCH, subresource="status", field_manager="kubelet"
        )

    def _remove(self, pod: Json) -> float | None:
        self._view.store.delete(PODS, *place_of(pod), uid=meta(pod)["uid"], grace=0)
        return None
