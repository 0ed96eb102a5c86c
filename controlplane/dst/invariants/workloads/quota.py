"""Quota is neither overdrawn nor charged twice, on any cluster.

In: the commits of Workloads, one after the other, and the simulated Kueue's accounts. Out: a violation as soon as they
differ: a usage below zero or above the quota, or another sum than that of the Workloads that hold quota, each counted
once. The sums are kept along the commits, so looking at every one of them costs what has changed; at the end they are
made anew from the objects.

A Workload that is set inactive gives its quota back at once, although its job has still to stop (Kueue's cache forgets
it), and takes it back without asking when it is made active again before that. That a queue is above its quota by so
much is the user's doing."""

from __future__ import annotations

from typing import Any, Protocol

from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.workloads.environment import ClusterEnvironment
from controlplane.kube.conditions import condition, is_true
from controlplane.kube.kinds import WORKLOADS, Json, meta
from controlplane.kube.slices import replacement_for
from controlplane.simulation.apiserver.history import Commit
from controlplane.simulation.kueue.common import Usage, holds_quota, is_active, usage_of

OVERDRAWN, BALANCE = "quota is not overdrawn", "quota is charged once"


class Accounts(Protocol):
    """Who holds quota in one incarnation of a cluster."""

    def on_commit(self, commit: Commit) -> None:
        """Look at a change of a Workload."""

    def recount(self) -> None:
        """Look at the whole cluster, from its objects alone."""


class QuotaAccounts:
    """What the Workloads of one cluster hold, in one incarnation of it. `shrinks`: its quota may become less than is
    used."""

    def __init__(self, trace: Trace, place: ClusterEnvironment, *, shrinks: bool = False) -> None:
        self._trace, self._place, self._shrinks = trace, place, shrinks
        self._held: dict[str, tuple[tuple[Any, ...], str, Usage]] = {}
        self._sums: dict[str, Usage] = {}
        self._slices: dict[str, tuple[str, str, str]] = {}
        self._taken_back: set[str] = set()
        for record in place.store.records(WORKLOADS):
            self._enter(record.uid, record.obj)
        if self._overdrawn():  # it was when the backup was made
            self._taken_back = set(self._held)

    def on_commit(self, commit: Commit) -> None:
        """Look at a change of a Workload."""
        uid, obj = commit.record.uid, commit.record.obj
        self._enter(uid, None if commit.type == "DELETED" else obj)
        if uid not in self._held:
            self._taken_back.discard(uid)
        elif commit.previous is not None:
            before = commit.previous.obj
            if is_true(before, "QuotaReserved") and not is_active(before):
                self._taken_back.add(uid)
        self._compare()

    def recount(self) -> None:
        """Look at the whole cluster, from its objects alone."""
        kept = self._sums
        self._held, self._sums, self._slices = {}, {}, {}
        for record in self._place.store.records(WORKLOADS):
            self._enter(record.uid, record.obj)
        if kept != self._sums:
            self._trace.violate(BALANCE, f"{self._place.name}: kept {kept}, counted {self._sums}")
        self._compare()

    def _enter(self, uid: str, obj: Json | None) -> None:
        status = (obj.get("status") or {}) if obj is not None and holds_quota(obj) else {}
        admission = status.get("admission")
        pod_sets = obj["spec"]["podSets"] if obj is not None else ()
        rests_on = (admission, pod_sets, status.get("reclaimablePods"))
        before = self._held.get(uid)
        if before is not None:
            if admission is not None and before[0] == rests_on:
                return
            del self._held[uid]
            self._slices.pop(uid, None)
            self._add(before[1], before[2], -1)
        if obj is not None and admission is not None:
            reserved = condition(obj, "QuotaReserved") or {}
            name = f"{meta(obj)['namespace']}/{meta(obj)['name']}"
            self._slices[uid] = name, replacement_for(obj), str(reserved.get("lastTransitionTime"))
            entry = self._held[uid] = (rests_on, admission["clusterQueue"], usage_of(obj))
            self._add(entry[1], entry[2], 1)

    def _add(self, queue: str, usage: Usage, sign: int) -> None:
        sums = self._sums.setdefault(queue, {})
        for where, amount in usage.items():
            sums[where] = sums.get(where, 0) + sign * amount
            if not sums[where]:
                del sums[where]
        if not sums:
            del self._sums[queue]

    def _compare(self) -> None:
        overdrawn = self._overdrawn()
        if overdrawn:
            self._trace.violate(OVERDRAWN, overdrawn)
        for name, booked in self._place.cluster.kueue.queues.quota.used().items():
            held = self._sums.get(name, {})
            if booked != held and booked != (held := self._counted(name)):
                detail = f"{name} on {self._place.name}: booked {booked}, held {held}"
                self._trace.violate(BALANCE, detail)

    def _counted(self, queue: str) -> Usage:
        """Return what counts of a ClusterQueue: of a slice whose place others have taken what goes beyond those, until
        it ends."""
        found = dict(self._sums.get(queue, {}))
        taken = {replaces for _, replaces, _ in self._slices.values() if replaces}
        for uid, (name, _, since) in self._slices.items():
            if name not in taken or self._held[uid][1] != queue:
                continue
            others = self._slices.items()
            heirs = [self._held[one] for one, (_, replaces, at) in others if replaces == name and at >= since]
            for where, amount in self._held[uid][2].items():
                covered = sum(usage.get(where, 0) for _, held_in, usage in heirs if held_in == queue)
                found[where] = found.get(where, 0) - min(amount, covered)
        return {where: amount for where, amount in found.items() if amount}

    def _overdrawn(self) -> str:
        place = self._place
        quota = place.cluster.kueue.queues.quota
        for name, usage in quota.used().items():
            nominal = quota.nominal(name)
            for where, used in usage.items():
                most = used if self._shrinks else nominal.get(where, 0) + self._taken(name, where)
                if not 0 <= used <= most:
                    return f"{name} on {place.name}: {used} of {nominal.get(where, 0)} {where[1]} (thousandths)"
        return ""

    def _taken(self, queue: str, where: tuple[str, str]) -> int:
        entries = (self._held[uid] for uid in self._taken_back)
        return sum(usage.get(where, 0) for _, name, usage in entries if name == queue)
