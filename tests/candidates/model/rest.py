"""Liveness: how a source has to be when nothing is left to do, and how long it may wait for one that cannot be reached
(L1 to L5).

In: the source's state, its pod, what is left of it on the targets, and who cannot be reached. Out: nothing, or a
`Violation`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from controlplane.controllers.candidates.source.delegate_status import rank
from controlplane.controllers.candidates.source.observations import CandidateReserved, CandidateUnschedulable
from controlplane.controllers.candidates.source.policy import NEVER_TWICE
from controlplane.controllers.candidates.source.state import SourceState
from controlplane.kube.kinds import Json, meta
from tests.candidates.model.api import Store
from tests.candidates.model.world import Config, Violation, at


class Beyond(NamedTuple):
    """The targets that have gone for ever, those of them that an operator has given up, and those whose schedulers are
    down.
    """

    away: frozenset[str] = frozenset()
    forgotten: frozenset[str] = frozenset()
    silent: frozenset[str] = frozenset()

    @property
    def idle(self) -> frozenset[str]:
        """Who does nothing that the source would hear of."""
        return self.away | self.silent


def beyond(config: Config, links: int) -> Beyond:
    """Return who cannot be reached and is not awaited."""
    targets = range(config.targets)
    return Beyond(
        frozenset(config.target(t) for t in targets if config.away(links, t)),
        frozenset(config.target(t) for t in targets if config.forgotten(links, t)),
        frozenset(config.target(t) for t in targets if config.silent(links, t)),
    )


def able(config: Config, links: int) -> list[int]:
    """Return the targets that could take a pod, if they had room."""
    idle = beyond(config, links).idle
    targets = (t for t in range(config.targets) if t not in config.uninvited and not config.forbids(links, t))
    return [t for t in targets if config.target(t) not in idle]


class Left(NamedTuple):
    """What is left of a source somewhere: where, whether its pod runs, whether it is being deleted."""

    cluster: str
    runs: bool
    deleting: bool


def left_in(config: Config, t: int, store: Store) -> dict[str, Left]:
    """Return the candidates and pods that a target holds, by name."""
    names = {*store["candidates"], *store["pods"]}
    pods, candidates = store["pods"], store["candidates"]
    return {
        name: Left(
            config.target(t),
            bool(pods.get(name, {}).get("spec", {}).get("nodeName")),
            any("deletionTimestamp" in meta(kind[name]) for kind in (pods, candidates) if name in kind),
        )
        for name in names
    }


def at_rest(
    config: Config,
    state: SourceState,
    pod: Json | None,
    there: Mapping[str, Left],
    s: int,
    *,
    hopeless: bool,
    gone: Beyond,
) -> None:
    """L1 to L5 of one source when nothing is left to do.

    `there` are its candidates and pods anywhere; `hopeless`: no target that can be reached has room for it; `gone`: who
    cannot be reached."""
    stuck = sorted(name for name, left in there.items() if left.deleting and left.cluster not in gone.silent)
    if stuck:
        raise Violation("L4", f"nobody lets go of {stuck}")
    near = {name: left for name, left in there.items() if left.cluster not in gone.idle}
    if pod is None:
        _deleted(state, near, s, gone)
        return
    over = rank(pod["status"]["phase"]) == 2
    wanted = {state.delegate} if state.delegate else set()
    if over and set(near) - wanted:
        raise Violation("L2", f"pod {s} has ended, left behind: {sorted(set(near) - wanted)}")
    if over:
        return
    delegate = state.chosen
    if delegate is not None and delegate.cluster in gone.idle:
        if delegate.cluster in gone.forgotten:
            raise Violation("L4", f"pod {s} is with {state.delegate}, on a target that was given up")
        wanted = set()
    if state.delegate and set(near) == wanted and all(left.runs for left in near.values()):
        if not config.placing:
            _shown(state, pod, s)
    elif state.delegate:
        raise Violation("L2", f"pod {s} is with {state.delegate}; there are {near}")
    elif not hopeless and not _held_by_absent(config, state, gone):
        rule = "L4" if gone.forgotten else "L3" if gone.idle else "L1"
        raise Violation(rule, f"pod {s} is nowhere although there is room; there are {near}")


def _deleted(state: SourceState, near: Mapping[str, Left], s: int, gone: Beyond) -> None:
    if near:
        raise Violation("L5", f"pod {s} is deleted, left behind: {sorted(near)}")
    if not state.settled and not any(known.cluster in gone.idle for known in state.candidates.values()):
        raise Violation("L5", f"pod {s} is deleted, and its stream does not say that all is done")


def _held_by_absent(config: Config, state: SourceState, gone: Beyond) -> bool:
    """Whether a target that cannot be reached may have bound the pod, and never-twice was asked for: then it is waited
    for.
    """
    permit = state.permit
    return (
        config.execution == NEVER_TWICE
        and permit is not None
        and permit.cluster in gone.idle
        and permit.cluster not in gone.forgotten
    )


def waits_for_absent(config: Config, state: SourceState, wake: int | None, now: int, links: int) -> None:
    """L3: raise `Violation` if one that cannot be reached, or is silent, keeps a pod from the others for longer than
    its own time.

    That is the rest of its permit, and by how much clocks may differ, and what a silent one gets on top; without a
    permit, no longer than the placement waits for anybody, or for an answer."""
    away = {config.target(t) for t in range(config.targets) if not links >> t & 1}
    unreachable = away | beyond(config, links).silent
    if not unreachable or not state.electing or state.delegate or state.pod is None:
        return
    permit = state.permit
    if permit is not None:
        if permit.cluster not in unreachable or config.execution == NEVER_TWICE:
            return
        most = int((permit.until - at(now)).total_seconds()) + config.clock.skew
        most += 0 if permit.cluster in away else config.clock.patience
    else:
        current = [
            known for known in state.candidates.values() if known.epoch == state.epoch and known.uid == state.uid
        ]
        if not any(_could_have_it(known.seen) and known.cluster not in unreachable for known in current):
            return
        most = int(max(config.placement.max_wait, config.placement.retry_wait).total_seconds())
        most = max(most, config.answer)
    if wake is None or wake - now > most:
        raise Violation(
            "L3", f"{sorted(unreachable)} cannot be reached, or are silent, and the others wait until {wake} at {now}"
        )


def _could_have_it(seen: object) -> bool:
    """Whether a target could be permitted: to bind, or to make room."""
    return isinstance(seen, CandidateReserved) or (isinstance(seen, CandidateUnschedulable) and seen.preemptable)


def _shown(state: SourceState, pod: Json, s: int) -> None:
    said = [c["message"] for c in pod["status"].get("conditions", []) if c["type"].endswith("/Delegated")]
    if not said or state.delegate not in said[0]:
        raise Violation("L2", f"pod {s} does not say where it is: {said}")
    if "annotations" not in meta(pod):
        raise Violation("L2", f"pod {s} has no hint to its delegate")
