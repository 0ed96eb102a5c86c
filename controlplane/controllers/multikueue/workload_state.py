"""Holds what is known of one Workload on the management cluster and of its copies, and which writes are open.

A write is open from its decision until its target is seen to change (whatever the change was: then it is decided anew
from what is there) or until an API server refused it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from controlplane.controllers.multikueue import events, observations
from controlplane.controllers.multikueue.failures import RepeatedWriteFailure
from controlplane.controllers.multikueue.remotes import (
    Remote,
)
from controlplane.controllers.multikueue.told import Told
from controlplane.runtime.streams import StreamFold
from controlplane.runtime.writes import OpenWrites


class Relayed(msgspec.Struct, frozen=True):
    """The status last written to a pod of a group, as it was on the worker ("" while that is not seen), and when."""

    status: str
    at: datetime


class WorkloadState(OpenWrites[events.WorkloadWrite, RepeatedWriteFailure], StreamFold):
    """A Workload, its copies and its open writes.

    `attempt` counts dispatch attempts; one is `dispatching` from its first nomination until the Workload loses quota or
    is evicted. `round` is that of a dispatcher that asks a few clusters at a time. `winner` is the cluster chosen in
    it, `refused` the clusters that cannot have it in this attempt, `job_seen` where its job was seen. `relayed` is the
    status that was last written to the user's job, as it was on the worker, `relayed_at` when one was written in this
    attempt. `returned`: the clusters that came back with a copy of it, and when; `judged`: the verdict on each.
    `unsure`: where the job may have been created although the attempt ended before that was seen, and its kind, and
    `unsure_at` since when the last of them is; `ended`: where a copy of the job was seen that had ended, and its
    status, `ends`: and how, as far as that is known; `runs_for`: the UID of the job whose copies these are.
    `slice_of`: the elastic job of which this was a slice, until another one took its place; `left`: the job of one
    that is gone, while its status says that it runs, or a cluster has something of it. `relayed_members`: what was
    last written to the pods of a group beside the first, by name. `told`: what was written to the user's job last,
    and how often. `unneeded`: by target, the last write that changed nothing by the API server's own word, while
    its object is seen as it was. `opening`: where a preemption gate is being opened, or was without anybody seeing
    it yet, and since when. `absent`: where its copy was asked for by its name, and is not. `positions`: where in the
    log it came to be as it is (`controlplane.controllers.multikueue.facets`)."""

    namespace: str
    name: str
    version: int = 0
    position: int = 0
    local: observations.WorkloadObserved | None = None
    gone: bool = False
    remotes: dict[str, Remote] = {}
    attempt: int = 0
    dispatching: bool = False
    round: int = 0
    round_began: datetime | None = None
    winner: str = ""
    refused: dict[str, events.ClusterRefused] = {}
    job_seen: frozenset[str] = frozenset()
    orphan_since: datetime | None = None
    returned: dict[str, datetime] = {}
    judged: dict[str, str] = {}
    unsure: dict[str, str] = {}
    unsure_at: datetime | None = None
    ended: dict[str, str] = {}
    ends: Mapping[str, observations.JobEnd] = {}
    runs_for: str = ""
    slice_of: observations.Owner | None = None
    left: observations.Owner | None = None
    relayed: str = ""
    relayed_at: datetime | None = None
    relayed_members: Mapping[str, Relayed] = {}
    told: Told | None = None
    cloned: Mapping[str, Told] = {}
    repeats: Mapping[str, Told] = {}
    unneeded: Mapping[str, events.WorkloadWrite] = {}
    opening: Mapping[str, datetime] = {}
    absent: frozenset[str] = frozenset()
    positions: Mapping[str, int] = {}

    @property
    def owner(self) -> observations.Owner | None:
        """The user's job; of a slice that was replaced, and of one that was left, also when its Workload is gone."""
        return self.local.owner if self.local is not None else self.slice_of or self.left

    @property
    def settled(self) -> bool:
        """Whether nothing more can come of it: no object anywhere, no open write."""
        return not (self.local or self.left or self.on_clusters)

    @property
    def on_clusters(self) -> bool:
        """Whether something of it is on a cluster, or may be."""
        return bool(self.remotes or self.effects or self.unsure)

    @property
    def unknown_on(self) -> list[str]:
        """The clusters that have a copy of which it is unknown whose it is: it says that it was made for another
        management cluster; or the log has nothing else of it, and it does not say that it was made for this one."""
        if self.local or self.left or self.gone or self.effects or self.unsure:
            return sorted(cluster for cluster, remote in self.remotes.items() if remote.made_for)
        return sorted(cluster for cluster, remote in self.remotes.items() if remote.unmarked)

    @property
    def known_on_clusters(self) -> bool:
        """Whether something of which it is known whose it is is on a cluster, or may be."""
        return bool(self.effects or self.unsure or self.remotes.keys() - set(self.unknown_on))

    def remote(self, cluster: str) -> Remote:
        """Return what is on a cluster; empty if nothing is."""
        return self.remotes.get(cluster, _NOTHING)

    def concerns(self, cluster: str) -> bool:
        """Whether what becomes of a cluster can matter: not if another one has the Workload, and nothing of it was left
        there. Of one that is being deleted, and of one of which the log knows no attempt, something may be anywhere.
        """
        local = self.local
        placed = local.cluster_name if local is not None and self.attempt and not local.deleting else ""
        return not placed or placed == cluster or cluster in self.remotes or cluster in self.unsure

    def has_to_do_with(self, cluster: str) -> bool:
        """Whether something of it is on a cluster, may be, or is about to be."""
        local = self.local
        if local is not None and not local.is_true("Finished") and cluster in (self.winner, local.cluster_name):
            return True
        written = {effect.decision.cluster for effect in self.effects.values()}
        return cluster in self.remotes or cluster in self.unsure or cluster in written


_NOTHING = Remote()
