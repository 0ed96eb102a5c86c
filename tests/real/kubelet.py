"""Plays scheduler and kubelet of one cluster: binds each pod that nothing gates, and lets it run, end, or stop.

In: the clusters, the name of one, for how many seconds a pod runs that has an end. Out: which pods ran, by name, with
the UIDs of each."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from controlplane.kube.kinds import Json
from tests.real.fleet import Fleet

NODE = "node-1"
_PAUSE = 0.3


class Kubelet:
    """One cluster's. `ran`: the UIDs of the pods that were let run, by name."""

    def __init__(self, fleet: Fleet, cluster: str, seconds: float) -> None:
        self._fleet, self._cluster, self._seconds = fleet, cluster, seconds
        self._began: dict[str, float] = {}
        self.ran: dict[str, list[str]] = {}

    def look(self) -> None:
        """Do what is due for each pod."""
        found = json.loads(self._fleet.kubectl("get", "pods", "--output", "json", context=self._cluster))
        for pod in found["items"]:
            if not pod["spec"].get("schedulingGates"):
                self._play(pod)

    def _play(self, pod: Json) -> None:
        name, uid, going = pod["metadata"]["name"], pod["metadata"]["uid"], "deletionTimestamp" in pod["metadata"]
        over = pod["status"].get("phase") in ("Succeeded", "Failed")
        if not pod["spec"].get("nodeName"):
            if not going:
                self._start(name, uid)
        elif going:
            if not over:
                self._told(name, {"phase": "Failed"})
            self._kubectl("delete", "pod", name, "--grace-period=0", "--force", "--wait=false")
        elif not over and pod["spec"]["restartPolicy"] == "Never" and self._ran_for(uid) > self._seconds:
            self._told(name, {"phase": "Succeeded"})

    def _start(self, name: str, uid: str) -> None:
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": NODE}}
        path = f"/api/v1/namespaces/default/pods/{name}/binding"
        self._kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(binding))
        self._told(name, {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
        self._began[uid] = time.monotonic()
        self.ran.setdefault(name, []).append(uid)

    def _ran_for(self, uid: str) -> float:
        return time.monotonic() - self._began.setdefault(uid, time.monotonic())

    def _told(self, name: str, status: Json) -> None:
        words = ("patch", "pod", name, "--subresource=status", "--type=strategic", "--patch")
        self._kubectl(*words, json.dumps({"status": status}))

    def _kubectl(self, *words: str, stdin: str = "") -> None:
        self._fleet.run(*words, stdin=stdin, context=self._cluster)  # what is gone meanwhile is none of its business


@contextmanager
def kubelet(fleet: Fleet, cluster: str, seconds: float = 2.0) -> Iterator[Kubelet]:
    """Have the pods of a cluster played, in a thread of their own."""
    found, stop = Kubelet(fleet, cluster, seconds), threading.Event()

    def play() -> None:
        while not stop.wait(_PAUSE):
            with suppress(AssertionError):  # an API server that does not answer is asked again
                found.look()

    thread = threading.Thread(target=play, name=f"kubelet of {cluster}", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join(60)
