"""The log that the auditor's cookbook asks: two days of three clusters and two teams, in which one of everything
happens.

What is seen is scripted; what is decided comes from the real service's controller."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from controlplane.controllers.candidates.source.observations import CandidateRefused, CandidateUnschedulable
from controlplane.controllers.connectivity.events import (
    MANAGEMENT,
    ClusterConnected,
    ClusterLost,
    LogRebound,
    PolicyInForce,
)
from controlplane.controllers.connectivity.local_connection import service_started
from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.events import EffectFailed
from controlplane.log.event import Event, NewEvent, body_of
from tests.audit.samples import sample
from tests.audit.script import Life, Script, at
from tests.candidates.told import Told
from tests.multikueue.scene import HOME_KINDS
from tests.quota.admission.scene import Scene

EAST, NORTH, WEST = CLUSTERS = ("east", "north", "west")
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)

TEMPLATES = {
    "team-a": body_of({"labels": {"project": "vision"}, "spec": {}}),
    "team-b": body_of({"labels": {"project": "speech"}, "spec": {}}),
}
"""Those of the jobs of each namespace; of `team` the log has none."""


class Fleet(Script):
    """The fleet of the story: a Workload is in the queue of its namespace."""

    def put(self, new: NewEvent) -> Script:
        event = new.event
        if isinstance(event, observations.WorkloadObserved):
            event = msgspec.structs.replace(event, queue_name=f"{event.namespace}-queue")
            new = msgspec.structs.replace(new, event=event)
        elif isinstance(event, observations.JobObserved) and event.namespace in TEMPLATES:
            new = msgspec.structs.replace(
                new, event=msgspec.structs.replace(event, template=TEMPLATES[event.namespace].ref)
            )
        return super().put(new)

    def job_of(self, namespace: str, job: str, **asks: str) -> Life:
        life = self.workload(f"job-{job}-0a1b2", job=job, namespace=namespace)
        if asks:
            life.local["requests"] = {
                "main": {key.replace("gpu", "nvidia.com/gpu"): value for key, value in asks.items()}
            }
        return life

    def policy(self, **fields: Any) -> None:
        given = {"controllers": ["multikueue"], "origin": "multikueue", "controller_name": "kueue.x-k8s.io/multikueue"}
        values = {
            "execution_policy": "at-least-once",
            "kinds": ["batch/v1, Kind=Job"],
            "worker_lost_timeout_seconds": 900.0,
        }
        self.put(NewEvent(stream="service", event=sample(PolicyInForce, **given, **{**values, **fields})))

    def configure(self, *clusters: str) -> None:
        event = observations.MultiKueueConfigObserved(
            name="config", uid="cf", resource_version=self.rv(), clusters=[*clusters], manager="argocd-controller"
        )
        self.put(NewEvent(stream="multikueueconfig/config", event=event, cluster=MANAGEMENT))

    def locate(self, cluster: str, location: str) -> None:
        event = observations.MultiKueueClusterObserved(
            name=cluster, uid=f"c-{cluster}", resource_version=self.rv(), location=location, manager="kubectl-edit"
        )
        self.put(NewEvent(stream=f"cluster/{cluster}", event=event, cluster=MANAGEMENT))


def ends(life: Life, winner: str, reason: str, message: str) -> Life:
    """As `Life.finishes`, for any end."""
    life.remote_job(winner, status="22", finished=True).decide().job(status="22", finished=True, inactive=True)
    life.clone(winner, {"Finished": (reason, message)})
    life.script.now += timedelta(seconds=1)
    life.decide().seen({"Finished": (reason, message)}).decide()
    return life.remote_job_gone(winner).decide().clone_gone(winner).decide()


def starts_again(life: Life, winner: str, *others: str) -> Life:
    """It has quota again, is offered to clusters, and runs on one."""
    life.job(suspended=True, status="33", inactive=True).again().seen(nominated=[winner, *others]).decide()
    for cluster in (winner, *others):
        life.clone(cluster)
    life.clone(winner, {"QuotaReserved": True, "Admitted": True}).decide()
    for cluster in others:
        life.clone_gone(cluster)
    life.decide().remote_job(winner, suspended=True).decide()
    life.seen({"Admitted": True}, check="Ready", cluster_name=winner, nominated=[]).decide()
    return life.job(suspended=False).remote_job(winner, status="44", inactive=False).decide()


def story() -> Fleet:
    """Tell it: from midnight of 2026-01-01 to the morning of the 2nd."""
    fleet = Fleet(*CLUSTERS)
    fleet.policy()
    fleet.now += 8 * HOUR
    train = waits_on_north(fleet)
    etl = preempted(fleet)
    fleet.now += 2 * HOUR
    ends(train, WEST, "Succeeded", "Job finished successfully")
    refused(fleet)
    fleet.configure(EAST, NORTH)
    fleet.now += 10 * MINUTE
    fleet.configure(EAST, NORTH, WEST)
    sim, safe = outage(fleet)
    ends(etl, WEST, "Succeeded", "Job finished successfully")
    fleet.job_of("team-a", "big", cpu="512", gpu="64").job().seen(
        {"QuotaReserved": ("Pending", "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu")}
    )
    odd = fleet.job_of("team-b", "odd").job(managed_by="example.com/other").seen({"QuotaReserved": True}).decide()
    odd.seen(check="Rejected")
    fleet.put(service_started(2, "replica-2", "1.0"))
    fleet.policy(worker_lost_timeout_seconds=1800.0)
    fleet.put(at(MANAGEMENT, ClusterConnected(kinds=[kind.name for kind in HOME_KINDS], incarnation="i-home")))
    for name in CLUSTERS:
        fleet.connect(name)
    fleet.now += 12 * HOUR
    ends(sim, WEST, "Succeeded", "Job finished successfully")
    ends(safe, NORTH, "Failed", "Job has reached the specified backoff limit")
    fleet.job_of("team-a", "live", cpu="4").runs(EAST, *CLUSTERS)
    fleet.now += HOUR
    fleet.job_of("team-a", "late", cpu="4").offered(*CLUSTERS)
    fleet.job_of("team-b", "next", cpu="2").job().seen({"QuotaReserved": True}).decide()
    pod_of_three(fleet)
    quota_of_a_team(fleet)
    fleet.put(at(MANAGEMENT, LogRebound(by="jane")))
    return fleet


def quota_of_a_team(fleet: Fleet) -> None:
    """Quota is reserved by the service for a moment (`quota.mode: builtin`): a Workload gets some, borrows, and
    ends."""
    scene = Scene()
    scene.queue("team-c", "2", cohortName="all")
    scene.queue("spare", "8", cohortName="all")
    scene.settle()
    scene.workload("job-index-0a1b2", "team-c", "5")
    scene.settle()
    scene.finish("job-index-0a1b2")
    scene.settle()
    for one in scene.log:
        if one.stream == "admission/workload/team/job-index-0a1b2" and isinstance(one.event, Event):
            fleet.put(NewEvent(stream=one.stream, event=one.event, cluster=MANAGEMENT))


def pod_of_three(fleet: Fleet) -> None:
    """A pod is offered to the three clusters: east holds a node and gets it, north refuses it, west has no node."""
    placed = Told(*CLUSTERS).asked()
    placed.says(CandidateRefused, NORTH, why="NotInvited", message="no target of this namespace")
    placed.says(CandidateUnschedulable, WEST, why="Unschedulable", message="0/3 nodes are available")
    placed.reserves(EAST).settle().binds(EAST).settle()
    moved = {0: 0}
    for number, row in enumerate(placed.rows, 1):
        if row.stream.startswith("sourcepod/"):
            fleet.put(msgspec.structs.replace(row, caused_by=moved.get(row.caused_by, 0)))
            moved[number] = len(fleet.recorded)


def waits_on_north(fleet: Fleet) -> Life:
    """The copy on north waits for quota there; that on west is admitted after ten minutes, and runs."""
    train = fleet.job_of("team-a", "train", cpu="8", gpu="4", memory="64Gi").offered(*CLUSTERS)
    for cluster in (EAST, NORTH):
        train.clone(
            cluster, {"QuotaReserved": ("Pending", "insufficient unused quota for nvidia.com/gpu in flavor a100")}
        )
    fleet.now += 10 * MINUTE
    return train.installed(WEST, *CLUSTERS)


def preempted(fleet: Fleet) -> Life:
    """Runs on east for an hour, is preempted there, and runs on west."""
    etl = fleet.job_of("team-b", "etl", cpu="16").runs(EAST, *CLUSTERS)
    fleet.now += HOUR
    etl.clone(EAST, {"Evicted": ("Preempted", "Preempted to accommodate a workload of higher priority")}).decide()
    etl.seen(check="Retry").drained().remote_job_gone(EAST).decide().clone_gone(EAST)
    fleet.now += 5 * MINUTE
    return starts_again(etl, WEST, EAST, NORTH)


def refused(fleet: Fleet) -> None:
    """West may not be written to: its API server says no, until somebody mends its rights."""
    life = fleet.job_of("team-b", "fit", cpu="1").offered(*CLUSTERS)
    life.clone(WEST, {"QuotaReserved": True, "Admitted": True}).decide()
    failed = sample(
        EffectFailed,
        target="west/Job",
        action="JobCreationDecided",
        code=403,
        error="Forbidden",
        message="jobs.batch is forbidden",
        failures=1,
        retry_at=fleet.now + timedelta(seconds=1),
    )
    life.put(failed, WEST)
    fleet.now += MINUTE
    life.decide().clone_gone(EAST).clone_gone(NORTH)
    life.remote_job(WEST, suspended=True).decide()
    life.seen({"Admitted": True}, check="Ready", cluster_name=WEST, nominated=[]).decide()
    life.job(suspended=False).remote_job(WEST, status="11", inactive=False).decide().job(status="11", inactive=False)
    fleet.now += 20 * MINUTE
    life.finishes(WEST)


def outage(fleet: Fleet) -> tuple[Life, Life]:
    """Two jobs run on north when it is lost: one is run again on west, and runs twice when north is back; the other,
    which must not run twice, waits for it."""
    sim = fleet.job_of("team-b", "sim", cpu="32").runs(NORTH, *CLUSTERS)
    safe = fleet.job_of("team-a", "safe", cpu="2")
    safe.job(execution_policy="never-twice")
    safe.runs(NORTH, *CLUSTERS)
    fleet.now += HOUR
    fleet.locate(NORTH, "north-new")
    fleet.put(
        at(
            NORTH,
            ClusterLost(
                reason="Unreachable", message="no route to host", seen_by="replica-1", others=2, others_connected=2
            ),
        )
    )
    fleet.now += 20 * MINUTE
    sim.decide().seen(check="Retry").drained()
    safe.decide()
    starts_again(sim, WEST, EAST)
    fleet.now += 10 * MINUTE
    fleet.connect(NORTH)
    sim.remote_job(NORTH, status="55", inactive=False).decide().remote_job_gone(NORTH).decide().clone_gone(
        NORTH
    ).decide()
    safe.decide()
    return sim, safe
