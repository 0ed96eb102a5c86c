"""The source side, told event by event what was seen: which event is then said to have caused a decision."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from controlplane.controllers.candidates.objects import CANDIDATE_TARGETS, CANDIDATES, PODS, Origin
from controlplane.controllers.candidates.source import observations
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.events import CandidateRequested
from controlplane.controllers.candidates.source.gang_events import SourceGroupGone, SourceGroupObserved
from controlplane.controllers.candidates.source.policy import SourcePolicy
from controlplane.controllers.candidates.source.targets import CandidateTargetGone, CandidateTargetObserved
from controlplane.controllers.connectivity.events import (
    MANAGEMENT,
    ClusterConnected,
    ClusterForgotten,
    ClusterLost,
    cluster_stream,
)
from controlplane.kube.kinds import POD_GROUPS
from controlplane.log.event import Event, NewEvent
from tests.candidates.model.world import START
from tests.candidates.stage import NS
from tests.candidates.test_capabilities import Process

Step = Callable[["Told"], Any]


class Told:
    """A source with the namespace `team` and some targets. Nothing is decided before `settle`."""

    def __init__(self, *targets: str, tiers: dict[str, int] | None = None, **policy: Any) -> None:
        policy = {"namespaces": frozenset({NS}), **policy}
        self.placing = SourceController(SourcePolicy(cluster="home", **policy), "test")
        self.process = Process(self.placing, SourceController.types)
        self.targets, self.expected, self._versions = targets, 0, 0
        self._pods: dict[str, observations.SourcePodObserved] = {}
        self._seen: dict[tuple[str, str], observations.CandidateSeen] = {}
        self.connect(MANAGEMENT, PODS.name, CANDIDATE_TARGETS.name, POD_GROUPS.name)
        for name in targets:
            self.target(name, tier=(tiers or {}).get(name, 0))
            self.connect(name)

    # --- the log -----------------------------------------------------------------------------------------------------

    @property
    def rows(self) -> list[NewEvent]:
        return self.process.rows

    def put(self, stream: str, event: Event, cluster: str = MANAGEMENT) -> Told:
        self.process.append(NewEvent(stream=stream, event=event, cluster=cluster))
        return self

    def settle(self) -> Told:
        self.process.settle()
        return self

    def tick(self, seconds: float) -> Told:
        self.process.now += timedelta(seconds=seconds)
        self.placing.touch_all()
        return self

    def cause(self, of: type[Event] = Event, stream: str = "") -> Told:
        """The event that was put last is the cause of what is asked for, or the last one of a type; what comes now is
        none.
        """
        rows = enumerate(self.rows, 1)
        found = [number for number, row in rows if isinstance(row.event, of) and row.stream.endswith(stream)]
        self.expected = found[-1]
        return self

    def cause_before(self, of: type[Event]) -> Told:
        """The cause is the last observation of a candidate before the last event of a type."""
        last = max(number for number, row in enumerate(self.rows) if isinstance(row.event, of))
        self.expected = max(
            n for n, row in enumerate(self.rows[:last], 1) if isinstance(row.event, observations.CandidateSeen)
        )
        return self

    def noise(self) -> Told:
        """Have much seen that changes nothing for whoever is asked about."""
        for name, seen in list(self._pods.items()):
            self._see(name, seen)
        for (cluster, name), candidate in list(self._seen.items()):
            again = msgspec.structs.replace(candidate, resource_version=self._version())
            self.put(f"sourcepod/{NS}/{name}", again, cluster)
        self.connect("z").put(cluster_stream("z"), ClusterLost(reason="Unreachable", message="no route"), "z")
        return self

    def _version(self) -> str:
        self._versions += 1
        return str(self._versions)

    # --- around ------------------------------------------------------------------------------------------------------

    def connect(self, name: str, *kinds: str) -> Told:
        return self.put(cluster_stream(name), ClusterConnected(kinds=list(kinds) or [f"{CANDIDATES.name}/{NS}"]), name)

    def lose(self, name: str) -> Told:
        return self.put(cluster_stream(name), ClusterLost(reason="Unreachable", message="no route"), name)

    def give_up(self, name: str) -> Told:
        return self.put(cluster_stream(name), ClusterForgotten(by="jane"), name)

    def target(self, name: str, tier: int = 0) -> Told:
        head = {"namespace": NS, "name": name, "uid": f"t-{name}", "resource_version": self._version()}
        return self.put(f"candidatetarget/{NS}/{name}", CandidateTargetObserved(**head, cluster=name, tier=tier))

    def no_target(self, name: str) -> Told:
        gone = CandidateTargetGone(namespace=NS, name=name, uid=f"t-{name}")
        return self.put(f"candidatetarget/{NS}/{name}", gone)

    def group(self, least: int, name: str = "gang") -> Told:
        head = {"namespace": NS, "name": name, "uid": f"g-{name}", "resource_version": self._version()}
        return self.put(f"sourcegroup/{NS}/{name}", SourceGroupObserved(**head, min_member=least, created=START))

    def no_group(self, name: str = "gang") -> Told:
        return self.put(f"sourcegroup/{NS}/{name}", SourceGroupGone(namespace=NS, name=name, uid=f"g-{name}"))

    # --- a pod -------------------------------------------------------------------------------------------------------

    def pod(self, name: str = "web", **more: Any) -> Told:
        """See a pod, or what has changed of it."""
        before = self._pods.get(name)
        head = {"namespace": NS, "name": name, "uid": f"{name}#1", "resource_version": "", "template": "t"}
        seen = msgspec.structs.replace(before, **more) if before else observations.SourcePodObserved(**{**head, **more})
        return self._see(name, seen)

    def _see(self, name: str, seen: observations.SourcePodObserved) -> Told:
        self._pods[name] = msgspec.structs.replace(seen, resource_version=self._version())
        return self.put(f"sourcepod/{NS}/{name}", self._pods[name])

    def pod_gone(self, name: str = "web") -> Told:
        seen = self._pods.pop(name)
        return self.put(f"sourcepod/{NS}/{name}", observations.SourceDeleted(namespace=NS, name=name, uid=seen.uid))

    def says(self, kind: type[observations.CandidateSeen], cluster: str, of: str = "web", /, **more: Any) -> Told:
        """Have a target say something of the candidate that it was asked for last."""
        asked = [
            row.event
            for row in self.rows
            if isinstance(row.event, CandidateRequested) and row.event.cluster == cluster and row.stream.endswith(of)
        ][-1]
        origin = Origin(cluster="home", namespace=NS, name=of, uid=asked.uid, epoch=asked.epoch)
        head = {"namespace": NS, "name": asked.candidate, "uid": f"c-{asked.candidate}", "origin": origin}
        before = self._seen.get((cluster, of))
        kept: dict[str, Any] = {"template": asked.template}
        kept |= {"permit": before.permit, "reservation": before.reservation} if before else {}
        seen = kind(**{**head, **kept, "resource_version": self._version(), **more})
        self._seen[cluster, of] = seen
        return self.put(f"sourcepod/{NS}/{of}", seen, cluster)

    def candidate_gone(self, cluster: str, pod: str = "web") -> Told:
        seen = self._seen.pop((cluster, pod))
        gone = observations.CandidateGone(namespace=NS, name=seen.name, uid=seen.uid)
        return self.put(f"sourcepod/{NS}/{pod}", gone, cluster)

    def latest(self, cluster: str, pod: str = "web") -> observations.CandidateSeen:
        return self._seen.pop((cluster, pod))

    def put_gone(self, cluster: str, seen: observations.CandidateSeen, pod: str = "web") -> Told:
        gone = observations.CandidateGone(namespace=NS, name=seen.name, uid=seen.uid)
        return self.put(f"sourcepod/{NS}/{pod}", gone, cluster)

    # --- short ways --------------------------------------------------------------------------------------------------

    def asked(self, *pods: str, **more: Any) -> Told:
        """Elect pods, and have every target take their candidates."""
        for name in pods or ("web",):
            self.pod(name, **more)
        self.settle()
        for name in pods or ("web",):
            for cluster in self.targets:
                self.says(observations.CandidateWaiting, cluster, name)
        return self.settle()

    def reserves(self, cluster: str, *pods: str, number: int = 1, score: int = 1) -> Told:
        for name in pods or ("web",):
            self.says(observations.CandidateReserved, cluster, name, reservation=number, node="n", score=score)
        return self

    def permitted(self, cluster: str, **more: Any) -> Told:
        return self.asked(**more).reserves(cluster).settle()

    def binds(self, cluster: str, *pods: str) -> Told:
        for name in pods or ("web",):
            self.says(
                observations.CandidateBound, cluster, name, reservation=1, permit=1, node="n", pod="p", bound_by=1
            )
        return self

    def bound(self, cluster: str, **more: Any) -> Told:
        return self.permitted(cluster, **more).binds(cluster).settle()

    def status(self, cluster: str, sequence: int = 1, phase: str = "Running") -> Told:
        more = {"reservation": 1, "permit": 1, "node": "n", "pod": "p", "bound_by": 1}
        return self.says(
            observations.DelegateStatus, cluster, sequence=sequence, pod_status="s", pod_phase=phase, **more
        )

    def rejected(self, cluster: str) -> Told:
        more = {"reservation": 1, "permit": 1, "node": "n", "pod": "p", "bound_by": 1, "rejected": "OutOfcpu: no"}
        return self.says(observations.DelegateStatus, cluster, sequence=1, pod_status="s", pod_phase="Failed", **more)

    def gang(self, *pods: str, least: int = 0) -> Told:
        """Have a group of pods elected."""
        return self.group(least or len(pods)).asked(*pods, group="gang")


def options(*targets: str, **more: Any) -> observations.PlacementOptions:
    return observations.PlacementOptions(targets=list(targets), **more)
