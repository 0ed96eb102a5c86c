"""What may befall a Workload on its way, each as a story: for the sentences of `why`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import msgspec

from controlplane.audit.explain import explain
from controlplane.controllers.connectivity.events import ClusterForgotten, MassOutageBegan
from controlplane.controllers.multikueue import state as workload
from controlplane.controllers.multikueue.context import NEVER_TWICE
from controlplane.controllers.multikueue.events import EffectFailed
from controlplane.controllers.multikueue.observations import ObservationRefused, PreemptionGate
from controlplane.kube.kinds import JOBS
from controlplane.kube.kueue_names import PREEMPTION_GATE
from controlplane.log.event import NewEvent
from controlplane.runtime.explanation import Explanation
from tests.audit.script import Life, Script, at

WORKERS = ("a", "b", "c")
GATED = {"QuotaReserved": ("Pending", "it's gated")}


def ask(life: Life) -> Explanation:
    index = life.script.fleet.index
    state = index.workloads.get(life.stream)
    if state is None:
        state = workload.WorkloadState.initial(life.stream)
        for recorded in life.script.recorded:
            if recorded.stream == life.stream:
                state = workload.fold(state, recorded)
    return explain(state, index.context(state), life.script.recorded, life.script.now)


def fresh(script: Script) -> Life:
    return script.workload("train-0a1b2")


def after(story: Callable[[Script], Life], *more: Callable[[Life], object]) -> Callable[[], Life]:
    def tell() -> Life:
        life = story(Script(*WORKERS))
        for step in more:
            step(life)
        return life

    return tell


def refused_by_b(life: Life) -> None:
    life.offered(*WORKERS)
    life.clone("b", {"Evicted": ("Deactivated", "too many retries")}, active=False).decide()


def let_b_preempt(life: Life) -> None:
    """The copy on b has asked to preempt before all others, and may."""
    index = life.script.fleet.index
    index.policy = msgspec.structs.replace(index.policy, orchestrated_preemption=True)
    life.offered(*WORKERS)
    for cluster in ("b", "a"):
        life.clone(cluster, {**GATED, "BlockedOnPreemptionGates": True}, gated=True)
    life.decide()
    gate = PreemptionGate(name=PREEMPTION_GATE, position="Open", last_transition_time="2026-01-01T00:01:00Z")
    life.clone("b", {**GATED, "BlockedOnPreemptionGates": True}, gated=True, gates=[gate])


def given_up(life: Life) -> None:
    life.offered(*WORKERS).clone("b", {"QuotaReserved": True, "Admitted": True}).decide()
    life.clone("b", {"Evicted": ("Preempted", "")}).remote_job("b", suspended=True).decide()


def kept_by_a(life: Life) -> None:
    """What was evicted on a before its job started is not removed there, and must never run twice."""
    index = life.script.fleet.index
    index.policy = msgspec.structs.replace(index.policy, execution_policy=NEVER_TWICE)
    life.offered("a", "b").clone("a", {"QuotaReserved": True, "Admitted": True}).decide()
    life.clone_gone("b").decide().remote_job("a", suspended=True).decide()
    life.clone("a", {"Evicted": ("Preempted", "to make room")}).decide().decide()
    life.clone("b", {"QuotaReserved": True, "Admitted": True}).decide()
    life.refused("a/Job", "RemovalDecided", 403, "jobs.batch is forbidden").decide()


def nobody_there(life: Life) -> None:
    for name in WORKERS:
        life.script.lose(name)
    life.job().seen({"QuotaReserved": True}).decide()


def unread(life: Life, cluster: str, kind: str = JOBS.name, name: str = "") -> None:
    """Its job is there, or another object of it, as nobody can read it: the log knows no more of it than its name."""
    name = name or life.job_name
    event = ObservationRefused(
        kind=kind,
        namespace=life.namespace,
        name=name,
        uid="u",
        resource_version="7",
        field="status",
        error="status: expected a map, found str",
        object="",
    )
    life.put(event, cluster, f"refused/{cluster}/{kind}/{life.namespace}/{name}")


def forgot_its_copy(life: Life) -> None:
    life.runs("c", *WORKERS)
    life.script.lose("c")
    life.job(suspended=True, status="00", inactive=True)
    life.seen({"QuotaReserved": False, "Admitted": False}, check="Pending", cluster_name="", nominated=[]).decide()
    life.seen({"QuotaReserved": True}).decide()


def give_up(life: Life) -> None:
    life.script.put(at("c", ClusterForgotten(by="jane")))


def lose_for(minutes: int, outage: bool = False) -> Callable[[Life], object]:
    def lose(life: Life) -> None:
        life.runs("c", *WORKERS)
        life.script.lose("c").now += timedelta(minutes=minutes)
        if outage:
            life.script.put(NewEvent(stream="fleet", event=MassOutageBegan(away=["b", "c"], of=3)))

    return lose


def name_taken(life: Life) -> None:
    life.offered(*WORKERS).clone("b", {"QuotaReserved": True, "Admitted": True}).decide()
    life.clone_gone("a").clone_gone("c").decide()
    life.put(
        EffectFailed(
            target="b/Job",
            action="JobCreationDecided",
            code=422,
            error="Invalid",
            message="spec.selector is immutable",
            failures=1,
            retry_at=life.script.now + timedelta(minutes=1),
        ),
        "b",
    )
