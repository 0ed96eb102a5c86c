"""A gang starts as a whole, in one target, or not at all (docs: candidates, "Gangs").

In: the source's log, the Candidates and Pods of the targets as they are committed, which steps of the plan are trouble.
Out: a violation. Where a gang may be is read off the log; where it is, off the clusters. That all of it is there is
asked when nothing went wrong meanwhile: a member that dies, or a node, leaves the others running until it is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from controlplane.controllers.candidates.objects import CANDIDATE_LABEL, CANDIDATES
from controlplane.controllers.candidates.reasons import CandidateReason
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.events import PermitGranted
from controlplane.controllers.candidates.source.gang_events import GangPermitted
from controlplane.controllers.candidates.source.gang_state import group_stream
from controlplane.dst.engine.loop import VirtualLoop
from controlplane.dst.engine.steps import Step
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.candidates.acts import group_of
from controlplane.dst.scenes.candidates.environment import CAMPUS, NAMESPACE, CandidateEnvironment, on_node
from controlplane.kube.kinds import PODS, meta
from controlplane.log.event import Recorded
from controlplane.simulation.apiserver.history import Commit

TARGET: Final = "a gang is in one target"
PERMITTED: Final = "a gang's member is permitted where its gang is"
QUORUM: Final = "no permission is for fewer than a quorum"
WHOLE: Final = "a gang starts as a whole"
TOGETHER = 20.0  # seconds after one member is bound, by which a quorum is
_AFTERMATH = 90.0  # seconds after its end for which trouble excuses what is not there
_QUIET = ("submit-pod", "submit-gang")


class CandidateGangRules:
    """Where gangs are. `placing` is the fold of the source's log; `excused` the candidates that nobody answers for any
    more.
    """

    def __init__(
        self,
        trace: Trace,
        loop: VirtualLoop,
        environment: CandidateEnvironment,
        placing: SourceController,
        excused: Callable[[], set[str]],
        steps: Sequence[Step],
    ) -> None:
        self._trace, self._loop, self._environment, self._placing, self._excused = (
            trace,
            loop,
            environment,
            placing,
            excused,
        )
        self._trouble = [
            (step.at - 1.0, step.at + step.seconds + _AFTERMATH) for step in steps if step.kind not in _QUIET
        ]
        self._members: dict[str, tuple[str, str]] = {}  # of campus' candidates: the name and UID of the source pod

    def follow(self, placing: SourceController) -> None:
        """Look at another fold of the source's log: that went back."""
        self._placing = placing

    # --- what is decided ---------------------------------------------------------------------------------------------

    def before_fold(self, recorded: Recorded) -> None:
        """Look at a permit of a gang's member: its gang is permitted there, by an event before it."""
        event, state = recorded.event, self._placing.sources.get(recorded.stream)
        if not isinstance(event, PermitGranted) or event.kind != "Bind" or state is None or state.pod is None:
            return
        if not state.pod.group:
            return
        placed = self._placing.gangs.state(group_stream(state.namespace, state.pod.group)).placed
        if placed is None or placed.cluster != event.cluster:
            where = placed.cluster if placed is not None else "nowhere"
            self._trace.violate(PERMITTED, f"{state.name} in {event.cluster}, and its gang {where}")

    def appended(self, batch: Sequence[Recorded]) -> None:
        """Look at all that was appended at once: a gang's permission comes with a quorum of permits."""
        for recorded in batch:
            event = recorded.event
            if (
                not isinstance(event, GangPermitted)
                or event.kind != "Bind"
                or event.reason == CandidateReason.GANG_FOUND
            ):
                continue
            namespace = recorded.stream.split("/")[1]
            streams = {f"sourcepod/{namespace}/{name}" for name in event.members}
            granted = {
                other.stream
                for other in batch
                if isinstance(other.event, PermitGranted)
                and (other.event.kind, other.event.cluster) == ("Bind", event.cluster)
            }
            seen = self._placing.gangs.state(recorded.stream).seen
            least = seen.min_member if seen is not None else event.least
            if not streams <= granted or len(streams) < least:
                what = f"{recorded.stream} in {event.cluster}: {len(streams & granted)} of {least}"
                self._trace.violate(QUORUM, what)

    # --- what is committed -------------------------------------------------------------------------------------------

    def on_commit(self, target: str, commit: Commit) -> None:
        """Look at a Candidate or a Pod of a target."""
        record, before = commit.record, commit.previous
        if record.kind == CANDIDATES:
            source = record.obj["spec"]["source"]
            if source["cluster"] == CAMPUS and group_of(source["name"]):
                self._members[record.name] = (source["name"], source["uid"])
        elif record.kind == PODS and record.labels.get(CANDIDATE_LABEL) in self._members and commit.type != "DELETED":
            was = on_node(before.obj) if before is not None else ""
            if on_node(record.obj) and not was:
                self._bound(target, record.name)

    def _bound(self, target: str, candidate: str) -> None:
        group = group_of(self._members[candidate][0])
        if candidate not in self._excused():
            for where, names in self._running(group).items():
                if where != target:
                    what = f"{self._members[candidate][0]} is bound on {target}, and {names[0]} runs on {where}"
                    self._trace.violate(TARGET, what)
        now = self._loop.time()
        if not any(begin <= now + TOGETHER and now <= end for begin, end in self._trouble):
            self._loop.world_later(TOGETHER, self._whole, group, target)

    def _whole(self, group: str, target: str) -> None:
        there = self._running(group).get(target, [])
        seen = self._placing.gangs.state(group_stream(NAMESPACE, group)).seen
        if seen is not None and 0 < len(there) < seen.min_member:
            self._trace.violate(WHOLE, f"{len(there)} of {seen.min_member} of {group} run on {target}: {there}")

    def _running(self, group: str) -> Mapping[str, list[str]]:
        """Return the source pods of a group that somebody wants and that run, by target; whoever is excused or stops
        does not count.
        """
        wanted = {
            record.uid
            for record in self._environment.management.store.records(PODS)
            if "deletionTimestamp" not in meta(record.obj)
        }
        found: dict[str, list[str]] = {}
        excused = self._excused()
        for target, place in sorted(self._environment.workers.items()):
            for record in sorted(place.store.records(PODS), key=lambda record: record.name):
                name, uid = self._members.get(record.name, ("", ""))
                if group_of(name) != group or not group or uid not in wanted or record.name in excused:
                    continue
                if on_node(record.obj) and "deletionTimestamp" not in meta(record.obj):
                    found.setdefault(target, []).append(name)
        return found
