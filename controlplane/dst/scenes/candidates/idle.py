"""Targets that do not do their part, for as long as nobody mends them: their scheduler is down, or no Pod may be made
there.

In: the acts of a plan, and the environment. Out: who is idle, and what is left to do meanwhile. While all else is well
and they stay as they are, every pod that they do not hold has to run elsewhere, or say why it cannot. Then they are
mended.
"""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.state import SourceState
from controlplane.dst.engine.steps import Step
from controlplane.dst.scenes.candidates.acts import group_of
from controlplane.dst.scenes.candidates.ending import finds_no_place_apart, runs_of, scheduled, stream_of
from controlplane.dst.scenes.candidates.environment import NEAR, CandidateEnvironment
from controlplane.kube.kinds import PODS, Json
from controlplane.kube.well_known import ENDED_PHASES


def impose(environment: CandidateEnvironment) -> None:
    """Let idle targets be idle, after all else was healed."""
    for target, kind in environment.idle.items():
        if kind == "silent":
            environment.ways[f"{NEAR}{target}"].silent = True


def mend(environment: CandidateEnvironment) -> None:
    """Let everybody do their part."""
    environment.idle.clear()
    environment.heal()


def waiting(environment: CandidateEnvironment, placing: SourceController, wanted: Mapping[str, Step]) -> str:
    """Return the first pod that idle targets keep from running, or from saying why it does not; "" if there is none.

    One that they may hold is let be: what becomes of it they alone can say, or an operator. So is a gang with such a
    member."""
    held = {name for name in wanted if _may_be_there(placing.sources.get(stream_of(name)), environment)}
    gangs = {group_of(name) for name in held if group_of(name)}
    for record in environment.management.store.records(PODS):
        name, pod = record.name, record.obj
        if name not in wanted or name in held or group_of(name) in gangs or pod["status"].get("phase") in ENDED_PHASES:
            continue
        runs = [target for target, _ in runs_of(environment, name) if target not in environment.idle]
        if not _is_served(name, pod, len(runs)):
            message = scheduled(pod).get("message")
            return f"{name} runs {len(runs)} times, says {message!r}, and {dict(environment.idle)} do nothing"
    return ""


def _is_served(name: str, pod: Json, runs: int) -> bool:
    """Whether a pod runs once, or says why it does not: all fits at once, but not apart without those that are idle."""
    if runs == 1 or (not runs and finds_no_place_apart(pod)):
        return True
    return name.startswith(("huge", "gang")) and scheduled(pod).get("status") == "False"


def _may_be_there(state: SourceState | None, environment: CandidateEnvironment) -> bool:
    """Whether an idle target may run a pod of that name, or another before it."""
    if state is None:
        return False
    return any(
        known.cluster in environment.idle and known.may_run and not known.excused for known in state.candidates.values()
    )
