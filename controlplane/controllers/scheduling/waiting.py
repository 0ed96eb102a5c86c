"""Pods that wait for permits: who holds each back, until when, and what becomes of it.

In: what `Framework.permit` answered, and later a plugin's word, or the time. Out: a `Status` once it is settled. Every
waiting plugin has to allow; the first refusal, or the first deadline that passes, refuses the pod (specs/scheduler.md
section 8). Time is an argument."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controlplane.controllers.scheduling.framework.status import SUCCESS, Code, Status, failed, unschedulable
from controlplane.controllers.scheduling.snapshot.objects import Pod


class WaitingPod:
    """One reserved pod and the permits that it waits for. `settled` is None while it waits; once settled it stays
    so.
    """

    __slots__ = ("deadlines", "node", "pod", "settled")

    def __init__(self, pod: Pod, node: str, waits: Mapping[str, float], now: float) -> None:
        self.pod = pod
        self.node = node
        self.deadlines = {plugin: now + seconds for plugin, seconds in waits.items()}
        self.settled: Status | None = None if waits else SUCCESS

    def allow(self, plugin: str) -> None:
        """Note that a plugin lets the pod go; it goes when all have."""
        self.deadlines.pop(plugin, None)
        if self.settled is None and not self.deadlines:
            self.settled = SUCCESS

    def reject(self, plugin: str, reason: str) -> None:
        """Note that a plugin refuses the pod."""
        self._settle(unschedulable(reason).by(plugin))

    def preempt(self, plugin: str, reason: str) -> None:
        """Note that the pod's place was taken: it is tried again, which is no refusal."""
        self._settle(failed(reason).by(plugin))

    def expire(self, now: float) -> None:
        """Refuse the pod if a deadline has passed; the earliest is told."""
        late = [(deadline, plugin) for plugin, deadline in self.deadlines.items() if deadline <= now]
        if late:
            _, plugin = min(late)
            self.reject(plugin, f"rejected due to timeout after waiting at plugin {plugin}")

    def _settle(self, status: Status) -> None:
        if self.settled is None:
            self.settled = status


class WaitingPods:
    """All pods that wait, by identity."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)

    def add(self, pod: Pod, node: str, waits: Mapping[str, float], now: float) -> WaitingPod:
        """Let a pod wait, or be allowed at once if nothing holds it back."""
        found = self._pods[pod.identity] = WaitingPod(pod, node, waits, now)
        return found

    def get(self, identity: str) -> WaitingPod | None:
        """Return a waiting pod."""
        return self._pods.get(identity)

    def next_deadline(self) -> float | None:
        """Return when `settle` has to be asked at the latest."""
        return min((at for one in self for at in one.deadlines.values() if one.settled is None), default=None)

    def settle(self, now: float) -> list[WaitingPod]:
        """Take out and return the pods that are settled, those included whose time has run out."""
        for one in self:
            one.expire(now)
        done = [one for one in self if one.settled is not None]
        for one in done:
            del self._pods[one.pod.identity]
        return done


def refused(status: Status) -> bool:
    """Return whether a settled pod was refused, and not pre-empted or allowed: its condition then says
    Unschedulable.
    """
    return status.code is Code.UNSCHEDULABLE
