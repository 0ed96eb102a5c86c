"""Gang: the pods of a PodGroup start together or not at all (docs/explanation/scheduler.md, "Gangs"; KEP-4671,
Volcano's gang plugin).

In: a pod, and the gangs of its cluster. Out: statuses. What has to happen between cycles (who is let go, who is turned
back, what is said of a group) is `gangs.coordinator`'s work. Without a cluster, as in a
dry run, the plugin has no say."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from controlplane.controllers.scheduling.framework.args import Args
from controlplane.controllers.scheduling.framework.hints import ClusterEvent, Table
from controlplane.controllers.scheduling.framework.plugin import (
    CycleState,
    PermitAnswer,
    PermitPlugin,
    PreEnqueuePlugin,
    Prefiltered,
    PreFilterPlugin,
    QueuedPod,
    QueueSortPlugin,
)
from controlplane.controllers.scheduling.framework.runtime import LONGEST_WAIT
from controlplane.controllers.scheduling.framework.status import SKIP, SUCCESS, Code, Status, unresolvable
from controlplane.controllers.scheduling.gangs.place import GANG, Place
from controlplane.controllers.scheduling.gangs.state import ClusterGangs
from controlplane.controllers.scheduling.snapshot.cluster import ClusterTables
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.controllers.scheduling.snapshot.snapshot import Snapshot
from controlplane.kube.pod_groups import GangDefaults, shortage

NO_PART = Prefiltered(SKIP)
UNNAMED = "the pod names no PodGroup yet"


class GangArgs(Args, frozen=True):
    """Args of Gang.

    `schedule_timeout_seconds`: how long members with a place wait for the others. The pause of a gang that did not come
    together begins with `initial_backoff_seconds` and doubles up to `max_backoff_seconds`. `tolerated_gap_percent`: how
    many of `minMember` may find no node before those who wait give their places back. `wait_for_group` are the profiles
    whose pods others put into groups (the controller `podgroups` does): they wait until they name one, since a pod that
    is placed before belongs to no gang."""

    schedule_timeout_seconds: float = 300
    initial_backoff_seconds: float = 1
    max_backoff_seconds: float = 60
    tolerated_gap_percent: int = 0
    wait_for_group: tuple[str, ...] = ()

    def check(self) -> list[str]:
        """Return what is wrong, each as `field: problem`."""
        found = []
        if not 0 < self.schedule_timeout_seconds <= LONGEST_WAIT:
            found.append(f"scheduleTimeoutSeconds: {self.schedule_timeout_seconds:g} is not within 1…{LONGEST_WAIT:g}")
        if self.initial_backoff_seconds <= 0:
            found.append(f"initialBackoffSeconds: {self.initial_backoff_seconds:g} is not above 0")
        if self.max_backoff_seconds < self.initial_backoff_seconds:
            found.append("maxBackoffSeconds: must not be below initialBackoffSeconds")
        if not 0 <= self.tolerated_gap_percent < 100:
            found.append(f"toleratedGapPercent: {self.tolerated_gap_percent} is not within 0…99")
        for at, name in enumerate(self.wait_for_group):
            if not name:
                found.append(f"waitForGroup[{at}]: is empty; name a profile, or leave it out")
        return found

    @property
    def limits(self) -> GangDefaults:
        """The args as the rules have them."""
        return GangDefaults(
            timeout=timedelta(seconds=self.schedule_timeout_seconds),
            first_backoff=timedelta(seconds=self.initial_backoff_seconds),
            last_backoff=timedelta(seconds=self.max_backoff_seconds),
            gap_percent=self.tolerated_gap_percent,
        )


class Gang(QueueSortPlugin, PreEnqueuePlugin, PreFilterPlugin, PermitPlugin):
    """Holds pods until their group is complete, tries groups one after the other, and lets a group go once enough of it
    has a place.
    """

    name = GANG
    args_type = GangArgs

    def __init__(self, args: GangArgs | None = None) -> None:
        super().__init__(args or GangArgs())
        self._gangs = ClusterGangs()

    def begin(self, cluster: ClusterTables) -> None:
        """Take up the gangs of a cluster."""
        self._gangs = cluster.gangs
        self._gangs.enabled, self._gangs.limits = True, self.args.limits

    def queueing_hints(self) -> Table:
        """Return what helps a group that `minResources` kept back. What helps a group that was turned back is what
        helps the member that found no node; its siblings are tried along with it."""

        def short(pod: Pod, event: ClusterEvent) -> bool:
            return self._gangs.of(pod) in self._gangs.short

        return {("Node", "Add"): short, ("Node", "Update"): short, ("Pod", "AssignedDelete"): short}

    def sort_key(self, queued: QueuedPod) -> Any:
        """Return what pods are sorted by: groups by priority, age and name, members side by side; others by priority,
        then time.
        """
        return self._gangs.sort_key(queued.pod, queued.enqueued)

    def pre_enqueue(self, pod: Pod) -> Status:
        """Return why the pod has to stay outside: its group is not there, not complete, or rests."""
        place = self._gangs.of(pod)
        if place is None:
            return unresolvable(UNNAMED) if self._waits_for_group(pod) else SUCCESS
        held = self._gangs.hold(place) if self._gangs.enabled else None
        return unresolvable(held.message) if held is not None else SUCCESS

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: Snapshot) -> Prefiltered:
        """Refuse a member whose group may not be tried now, or asks for more than all nodes together have left."""
        place = self._gangs.of(pod)
        if place is None or not self._gangs.enabled:
            return Prefiltered(unresolvable(UNNAMED)) if self._waits_for_group(pod) else NO_PART
        held = self._gangs.hold(place)
        if held is not None:
            return Prefiltered(unresolvable(held.message))
        lacking = self._shortage(place, snapshot)
        if lacking:
            what = ", ".join(sorted(lacking))
            return Prefiltered(
                unresolvable(f"the cluster has too little {what} for minResources of PodGroup {place[1]}")
            )
        return NO_PART

    def _shortage(self, place: Place, snapshot: Snapshot) -> dict[str, int]:
        """Return what all nodes together lack for `minResources`, the group's own pods left out; empty if nothing."""
        gangs = self._gangs
        group = gangs.groups.get(place)
        gangs.short.discard(place)
        if group is None or not group.min_resources or gangs.singly(place):
            return {}
        own: Counter[str] = Counter()
        for identity in gangs.members(place):
            if identity in snapshot.placed:
                own.update(snapshot.placed[identity][0].requests)
        free = {
            name: int((snapshot.allocatable(name) - snapshot.requested(name)).clip(0).sum())
            for name in group.min_resources
        }
        lacking = shortage(group, free, own)
        if lacking:
            gangs.short.add(place)
        return lacking

    def _waits_for_group(self, pod: Pod) -> bool:
        return self._gangs.enabled and not pod.group and pod.scheduler_name in self.args.wait_for_group

    def permit(self, state: CycleState, pod: Pod, node: str) -> PermitAnswer:
        """Wait for the others, or go, if the gang has come together before."""
        place = self._gangs.of(pod)
        seconds = self._gangs.wait(place) if place is not None and self._gangs.enabled else None
        return PermitAnswer() if seconds is None else PermitAnswer(Status(Code.WAIT), seconds)
