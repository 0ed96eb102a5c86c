"""Deliberate bugs in the rooms of one's own cluster: each a patch, and the rule that has to find it.

A mutant is found if, within its seeds, a run of the local scene breaks a rule that the same seed keeps without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controlplane.controllers.coscheduling import controller, render
from controlplane.controllers.coscheduling import decide as runs
from controlplane.controllers.coscheduling import ownership as whose
from controlplane.controllers.coscheduling import state as run_states
from controlplane.controllers.coscheduling.events import ModePinned, RunCompleted
from controlplane.controllers.coscheduling.placement import placeholders
from controlplane.controllers.podgroups import decide as groups
from controlplane.controllers.podgroups import index as group_index
from controlplane.controllers.podgroups import ownership as walk
from controlplane.controllers.podgroups import render as group_render
from controlplane.controllers.podgroups import state as group_states
from controlplane.controllers.podgroups.controller import PodGroupController
from controlplane.controllers.scheduling.framework.plugin import Prefiltered
from controlplane.controllers.scheduling.framework.status import SKIP
from controlplane.controllers.scheduling.gangs import coordinator
from controlplane.controllers.scheduling.gangs.state import ClusterGangs
from controlplane.controllers.scheduling.plugins.gang import Gang
from controlplane.controllers.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from controlplane.dst.engine.run import Outcome
from controlplane.dst.scenes.local.plan import plan_of
from controlplane.kube.kinds import Request
from controlplane.log.event import Recorded
from tests.dst.local.known import KNOWN
from tests.dst.mutants.hunt import Mutant, first_of, the_epoch_is_not_checked


def find(mutant: Mutant, seeds: Iterable[int]) -> tuple[int, Outcome] | None:
    """Return the first seed that the mutant breaks and that holds without it."""
    return first_of(mutant.patch, (seed for seed in seeds if seed not in KNOWN), plan_of)


# --- whose group -----------------------------------------------------------------------------------------------------


def the_root_owns_the_group(patch: pytest.MonkeyPatch) -> None:
    original = walk._Walk._select

    def select(self: Any, matched: int | None, rule: Any) -> Any:
        place, reason = original(self, matched, rule)
        return (len(self.chain) - 1, reason) if reason == walk.PodGroupReason.FIRST_OWNER else (place, reason)

    patch.setattr(walk._Walk, "_select", select)


def the_pin_goes_with_every_sighting(patch: pytest.MonkeyPatch) -> None:
    original = group_states.fold_member

    def fold(state: Any, recorded: Recorded) -> Any:
        after = original(state, recorded)
        seen = after.seen is not state.seen
        return msgspec.structs.replace(after, resolved=None) if seen and after.resolved is not None else after

    def skip(pod: Any, schedulers: Any) -> Any:
        return None if pod.scheduler_name in schedulers else walk.Skip(reason=walk.PodGroupReason.OTHER_SCHEDULER)

    patch.setattr(group_index, "fold_member", fold)
    patch.setattr(walk, "skip", skip)
    patch.setattr(groups, "skip", skip)


def a_quorum_is_never_asked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(groups, "member_count", lambda text: 1)


def the_oldest_template_counts(patch: pytest.MonkeyPatch) -> None:
    original = groups.newest_template

    def newest(templates: Any, namespace: str, found: Any) -> Any:
        turned = [msgspec.structs.replace(one, revision=1000 - one.revision) for one in templates]
        return original(turned, namespace, found)

    patch.setattr(groups, "newest_template", newest)


def the_version_goes_with_the_group(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(group_index, "_REMEMBERED", 0)


def a_group_of_others_is_filled_in(patch: pytest.MonkeyPatch) -> None:
    original = groups.decide_group

    def decide(index: Any, stream: str, state: Any, now: Any) -> Any:
        first = groups._first(index.members_of(stream), stream)
        if state.seen is not None and first is not None and not state.seen.deleting and state.slot.free(now):
            wanted = groups._derive(index, first, first.resolved.resolution)
            if wanted[0] != state.seen.min_member:
                update = groups.GroupUpdateDecided(
                    cluster=index.policy.cluster,
                    uid=state.seen.uid,
                    resource_version=state.seen.resource_version,
                    min_member=wanted[0],
                    min_resources=wanted[1],
                    reason=groups.PodGroupReason.MIN_MEMBER_CHANGED,
                )
                return groups.GroupPassResult((update,))
        return original(index, stream, state, now)

    patch.setattr("controlplane.controllers.podgroups.controller.decide_group", decide)


def the_version_is_not_asked_for(patch: pytest.MonkeyPatch) -> None:
    original = group_render._patch

    def blind(ref: Any, decision: Any, body: Any) -> Request:
        return replace(original(ref, decision, body), resource_version="")

    patch.setattr(group_render, "_patch", blind)


def deciding_remembers(patch: pytest.MonkeyPatch) -> None:
    original = PodGroupController.decide

    def decide(self: PodGroupController, stream: str, now: Any) -> Any:
        state = self.index.groups.get(stream)
        if state is not None:
            self.index.groups[stream] = msgspec.structs.replace(state, written_at=now)
        return original(self, stream, now)

    patch.setattr(PodGroupController, "decide", decide)


# --- runs ------------------------------------------------------------------------------------------------------------


def a_cordoned_node_is_looked_at_once(patch: pytest.MonkeyPatch) -> None:
    """Today's Tekton: only until the first task."""
    original = runs.move

    def move(turn: Any, attempt: Any, name: str, uid: str) -> None:
        if not attempt.tasks:
            original(turn, attempt, name, uid)

    patch.setattr(runs, "move", move)


def claims_are_nobodys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(runs, "claims_go", lambda run, mode: None)


def the_placeholder_stays(patch: pytest.MonkeyPatch) -> None:
    original = run_states.fold

    def fold(state: Any, recorded: Recorded) -> Any:
        return state if isinstance(recorded.event, RunCompleted) else original(state, recorded)

    patch.setattr(controller, "fold", fold)


def vanished_placeholders_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(whose.Whose, "end_of", lambda self, uid: None)


def the_flag_is_read_afresh(patch: pytest.MonkeyPatch) -> None:
    """As Tekton does: what holds now holds for runs that have begun."""
    original = runs.decide

    def decide(state: Any, around: Any, now: Any) -> Any:
        attempts = {
            uid: msgspec.structs.replace(one, pinned=msgspec.structs.replace(one.pinned, mode=around.flags.mode.value))
            if isinstance(one.pinned, ModePinned)
            else one
            for uid, one in state.attempts.items()
        }
        return original(msgspec.structs.replace(state, attempts=attempts), around, now)

    patch.setattr(controller, "decide", decide)


def deletes_by_name(patch: pytest.MonkeyPatch) -> None:
    original = render.render

    def rendered(*arguments: Any) -> Request:
        request = original(*arguments)
        return replace(request, uid="") if request.verb == "delete" else request

    patch.setattr(render, "render", rendered)


def nobody_owns_the_placeholder(patch: pytest.MonkeyPatch) -> None:
    original = placeholders.stateful_sets

    def stateful_sets(*arguments: Any) -> Any:
        made = original(*arguments)
        for one in made:
            one["metadata"].pop("ownerReferences", None)
        return made

    patch.setattr(render, "stateful_sets", stateful_sets)


# --- gangs -----------------------------------------------------------------------------------------------------------


def members_go_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClusterGangs, "wait", lambda self, place: None)


def nobody_waits_for_a_group(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Gang, "_waits_for_group", lambda self, pod: False)


def places_are_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coordinator.GangCoordinator, "_turn_back", lambda self, place, waiting, *, late=False: None)


def a_gang_is_let_go_too_soon(patch: pytest.MonkeyPatch) -> None:
    original = ClusterGangs.quorum

    def quorum(self: ClusterGangs, place: Any) -> Any:
        gang = self._gangs.get(place)
        return original(self, place) or (gang.waiting[:1] if gang is not None else ())

    patch.setattr(ClusterGangs, "quorum", quorum)


def affinity_is_a_wish(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InterPodAffinity, "pre_filter", lambda self, state, pod, snapshot: Prefiltered(SKIP))


# --- the log ---------------------------------------------------------------------------------------------------------


MUTANTS: dict[str, Mutant] = {
    "root-owner": Mutant(
        "without a rule the topmost owner counts", the_root_owns_the_group, 1, "a pod is in its owner's group"
    ),
    "unpinned-pod": Mutant(
        "a pod's group is looked for at every change of it",
        the_pin_goes_with_every_sighting,
        2,
        "quiet when nothing changes",
    ),
    "no-quorum": Mutant(
        "minMember is always 1", a_quorum_is_never_asked_for, 1, "a group asks for what its owners say"
    ),
    "oldest-template": Mutant(
        "minResources follows the oldest ReplicaSet",
        the_oldest_template_counts,
        1,
        "a group asks for what its owners say",
    ),
    "stream-forgotten": Mutant(
        "a group's stream loses its version with the group", the_version_goes_with_the_group, 163, "everything settles"
    ),
    "others-group": Mutant(
        "a group of others gets our fields", a_group_of_others_is_filled_in, 5, "only what is ours is written"
    ),
    "blind-patch": Mutant("patches name no version", the_version_is_not_asked_for, 1, "only what is ours is written"),
    "deciding-remembers": Mutant(
        "deciding changes the state beside the log", deciding_remembers, 1, "the log gives the state"
    ),
    "cordon-before-tasks": Mutant(
        "nodes are looked at until a run's first task",
        a_cordoned_node_is_looked_at_once,
        9,
        "a placeholder leaves a cordoned node",
    ),
    "claims-left": Mutant("claims of templates are left", claims_are_nobodys, 4, "everything settles"),
    "placeholder-left": Mutant("the end of a run is not noted", the_placeholder_stays, 1, "everything settles"),
    "vanished-unsaid": Mutant(
        "what vanished while nobody watched is not told", vanished_placeholders_stay, 15, "everything settles"
    ),
    "flag-afresh": Mutant(
        "the flag counts for runs that have begun", the_flag_is_read_afresh, 50, "everything settles"
    ),
    "delete-by-name": Mutant("deletes carry no UID", deletes_by_name, 1, "only what is ours is written"),
    "ownerless": Mutant(
        "a placeholder has no owner", nobody_owns_the_placeholder, 1, "one placeholder for a run or a workspace"
    ),
    "alone": Mutant("members of a gang do not wait", members_go_alone, 1, "a gang starts as a whole"),
    "ungrouped": Mutant(
        "pods are placed before they name a group", nobody_waits_for_a_group, 1, "a gang starts as a whole"
    ),
    "too-soon": Mutant(
        "one member is let go before the others", a_gang_is_let_go_too_soon, 1, "a gang starts as a whole"
    ),
    "places-kept": Mutant(
        "nobody of a gang that cannot start is turned back", places_are_kept, 20, "everything settles"
    ),
    "affinity-a-wish": Mutant(
        "required affinity is not asked for", affinity_is_a_wish, 1, "a run's pods are on one node"
    ),
    "no-fence": Mutant("the log does not check the epoch", the_epoch_is_not_checked, 30, "one process writes"),
}


def table(names: Sequence[str], seeds: Sequence[int]) -> Iterator[str]:
    """Yield the rows of the table in docs/explanation/simulation.md."""
    for name in names or list(MUTANTS):
        mutant = MUTANTS[name]
        found = find(mutant, seeds)
        if found is None:
            yield f"| `{name}` | {mutant.what} | not found | |"
        else:
            seed, outcome = found
            assert outcome.violation is not None
            yield f"| `{name}` | {mutant.what} | {outcome.violation.rule} | seed {seed} |"


if __name__ == "__main__":
    import sys

    for row in table(sys.argv[1:], range(1, 61)):
        print(row, flush=True)
