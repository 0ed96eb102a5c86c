"""Logs for the views whose rows are computed: what may be recorded of configuration, clusters, jobs and quota, by
chance, with names that occur in several logs and places, times that are equal, and objects that are made again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import msgspec

from controlplane.controllers.candidates.source import events
from controlplane.controllers.candidates.source import observations as seen
from controlplane.controllers.connectivity import events as connectivity
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.controllers.connectivity.local_connection import lead_requested, service_started, service_stopped
from controlplane.controllers.multikueue import events as decisions
from controlplane.controllers.multikueue import observations
from controlplane.controllers.multikueue.reasons import WorkloadReason
from controlplane.controllers.quota import events as quota
from controlplane.controllers.quota.admission import events as admission
from controlplane.controllers.quota.admission.reasons import AdmissionReason
from controlplane.kube.conditions import Condition
from controlplane.kube.kinds import JOBS
from controlplane.log.event import Event, NewEvent, Recorded
from tests.audit.samples import sample
from tests.audit.script import START

CLUSTERS = ("a", "b", "a.b_%c")
NAMES = ("main", "ma_n", "a.b-c")
SPACES = ("team", "team-b")
WHY = (WorkloadReason.JOB_REFUSED, WorkloadReason.FIRST_ADMITTED)


def body(template: str) -> dict[str, Any]:
    """Return what is stored of a template: labels, and a spec that asks for something."""
    containers = [
        {"resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "2", "memory": "1Gi"}}},
        {"resources": {"requests": {"memory": "512Mi"}}},
        {},
    ]
    pod_sets = [{"name": "main", "count": 1 + int(template[0], 16), "template": {"spec": {"containers": containers}}}]
    return {"labels": {"team": template[:4], "odd\0": "x\0y"}, "spec": {"podSets": pod_sets}}


def template(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


class Chance:
    """A log that is written by chance."""

    def __init__(self, seed: int, steps: int) -> None:
        self.random, self.now = Random(seed), START
        self.log: list[Recorded] = []
        self._versions: dict[str, int] = {}
        self.uids: dict[str, list[str]] = {}
        self.attempts: dict[str, int] = {}
        self.there: dict[str, bool] = {}
        self.ledger: dict[str, dict[tuple[str, str, str], int]] = {}
        for _ in range(steps):
            self.random.choice(STEPS)(self)

    def put(self, stream: str, event: Event, cluster: str = MANAGEMENT) -> None:
        """Append an event; now and then at the time of the one before, as those of one commit are."""
        self.now += timedelta(seconds=self.random.choice((0, 0, 1, 7)))
        self._versions[stream] = self._versions.get(stream, 0) + 1
        position = len(self.log) + 1
        cause = self.random.randrange(position) if self.random.random() < 0.7 else 0
        self.log.append(
            Recorded(
                position=position,
                stream=stream,
                version=self._versions[stream],
                event=event,
                cluster=cluster,
                caused_by=cause,
                recorded_at=self.now,
            )
        )

    def add(self, new: NewEvent) -> None:
        self.put(new.stream, new.event, new.cluster)

    def one(self, *values: Any) -> Any:
        return self.random.choice(values)

    def seen(
        self,
        stream: str,
        observed: type[Event],
        gone: type[Event],
        key: dict[str, Any],
        of: str = "",
        cluster: str = MANAGEMENT,
        **fields: Any,
    ) -> None:
        """Show an object, or that it is gone: now and then another one of its name, which may be shown before the one
        before is said to be gone, as a list does; or the end of one that was gone already. `of`: which one of several
        objects of the stream."""
        uids = self.uids.setdefault(f"{stream} {of}", [])
        kind = self.one("same", "same", "same", "another", "gone", "late")
        if kind in ("gone", "late") and uids:
            uid = uids[-1] if kind == "gone" else uids[0]
            self.put(stream, gone(**key, uid=uid), cluster)
            return
        if not uids or kind == "another":
            uids.append(f"uid-{len(self.log)}")
        self.put(stream, observed(**key, uid=uids[-1], resource_version=str(len(self.log)), **fields), cluster)


def _config(log: Chance) -> None:
    name = log.one(*NAMES)
    log.seen(
        f"multikueueconfig/{name}", observations.MultiKueueConfigObserved, observations.MultiKueueConfigGone,
        {"name": name}, clusters=log.random.sample(CLUSTERS, log.random.randrange(4)),
        quota_management=log.one("", "Manual"), manager=log.one("", "kubectl-edit", "argo\0"),
    )  # fmt: skip


def _cluster(log: Chance) -> None:
    name = log.one(*CLUSTERS)
    said = Condition(type="Active", status="True", reason="R", message=log.one("", "x\0y"), last_transition_time="")
    log.seen(
        f"cluster/{name}", observations.MultiKueueClusterObserved, observations.MultiKueueClusterGone, {"name": name},
        location=log.one("", "here", "there"), labels=log.one({}, {"zone": "z"}, {"zone": "\0"}), conditions=[said],
        manager=log.one("", "helm"),
    )  # fmt: skip


def _check(log: Chance) -> None:
    name = log.one(*NAMES)
    log.seen(
        f"admissioncheck/{name}", observations.AdmissionCheckObserved, observations.AdmissionCheckGone, {"name": name},
        controller_name=log.one("", "ours", "theirs"), parameters=log.one({}, {"name": "main"}),
    )  # fmt: skip


def _queues(log: Chance) -> None:
    name, namespace = log.one(*NAMES), log.one(*SPACES)
    kind = log.one("local", "cluster", "quota", "admission")
    if kind == "admission":
        word, observed, gone, key = log.one(
            (f"clusterqueue/{name}", admission.AdmissionClusterQueueObserved, admission.AdmissionClusterQueueGone, {}),
            (f"cohort/{name}", admission.AdmissionCohortObserved, admission.AdmissionCohortGone, {}),
            (f"flavor/{name}", admission.AdmissionFlavorObserved, admission.AdmissionFlavorGone, {}),
            (
                f"localqueue/{namespace}/{name}", admission.AdmissionLocalQueueObserved,
                admission.AdmissionLocalQueueGone, {"namespace": namespace},
            ),
        )  # fmt: skip
        more = {} if word.startswith("flavor") else {"status": {"pendingWorkloads": len(log.log)}}
        log.seen(
            f"admission/{word}", observed, gone, {**key, "name": name}, deleting=log.one(False, True),
            spec=log.one({}, {"cohort": "a"}, {"cohort": "b\0", "stopPolicy": "Hold"}), **more,
        )  # fmt: skip
    elif kind == "local":
        log.seen(
            f"localqueue/{namespace}/{name}", observations.LocalQueueObserved, observations.LocalQueueGone,
            {"namespace": namespace, "name": name}, cluster_queue=log.one("", *NAMES),
        )  # fmt: skip
    elif kind == "cluster":
        log.seen(
            f"clusterqueue/{name}", observations.ClusterQueueObserved, observations.ClusterQueueGone, {"name": name},
            checks=["mk"] if name == "main" else None, execution_policy=log.one("", "never-twice"),
            deleting=log.one(False, True),
        )  # fmt: skip
    else:
        log.seen(
            f"quota/queue/{name}", quota.QuotaQueueObserved, quota.QuotaQueueGone, {"name": name},
            checks=log.one([], ["mk"]), deleting=log.one(False, True),
            groups=log.one([], [quota.ResourceGroup(covered=["cpu"])]),
        )  # fmt: skip


def _connection(log: Chance) -> None:
    name = log.one(*CLUSTERS, MANAGEMENT)
    event = log.one(
        connectivity.ClusterConnected(incarnation=log.one("", "i-1", "i-2"), server_version="v1"),
        connectivity.ClusterConnected(incarnation="i-1", server_version="v1"),
        connectivity.ClusterConnectFailed(reason="Refused", message="no\0", attempt=1),
        connectivity.ClusterLost(
            reason="ProbeFailed", message="", seen_by=log.one("", "r-1"), others=log.one(0, 2),
            others_connected=log.one(0, 1),
        ),
        connectivity.ClusterSuspected(message="late", seen_by="r-2"),
        connectivity.ClusterRecovered(),
        connectivity.ClusterDisconnected(reason=log.one("Removed", "Reconfigured")),
        connectivity.ClusterStandby(behind="c", incarnation="i-9", message="another name"),
        connectivity.ClusterForgotten(by=log.one("jane", "jo\0e")),
        connectivity.ClusterRestored(message="went back", restores=1),
    )  # fmt: skip
    log.put(f"cluster/{name}", event, name)


def _service(log: Chance) -> None:
    epoch = len(log.log)
    new = log.one(service_started(epoch, "r-1", "1"), service_stopped(epoch, "r-1"), lead_requested(epoch, "r-2"))
    log.add(new)
    if log.random.random() < 0.3:
        log.put("fleet", connectivity.MassOutageAccepted(by="joe"), "")
        log.put("cluster/@management", connectivity.LogRebound(by="ann"))


def policy(**fields: Any) -> connectivity.PolicyInForce:
    """Return what is said of the settings, those that have no default among them."""
    seconds = {
        f"{name}_seconds": 90.5
        for name in (
            "worker_lost_timeout", "gc_interval", "status_interval", "readmission_grace", "refusal_pause",
            "loser_patience",
        )
    }  # fmt: skip
    rest = {"requeues_per_minute": 60, "mass_outage_share": 0.5, "origin": "o", "controller_name": "ours"}
    return connectivity.PolicyInForce(**{**seconds, **rest, "execution_policy": "at-most-once", **fields})


def _settings(log: Chance) -> None:
    fields = {
        "controllers": log.one([], ["quota", "multikueue"]), "kinds": log.one([], ["b", "a"]),
        "step_size": log.one(3, 5), "scoring": log.one({}, {"spread": 1}), "own_only": log.one(False, True),
        "quota_automation": log.one(False, True), "cluster_profiles": log.one(False, True),
        "access_providers": log.one([], ["x"]), "quota": log.one({}, {}, {"mode": "builtin"}),
    }  # fmt: skip
    log.put("service", policy(**fields), "")


def _job(log: Chance) -> None:
    namespace, name, kind = log.one(*SPACES), log.one(*NAMES), log.one(JOBS.name, "pods")
    number = template(log.random.randrange(5))
    log.seen(
        f"job/{kind}/{namespace}/{name}", observations.JobObserved, observations.JobGone,
        {"namespace": namespace, "name": name, "kind": kind}, managed_by=log.one("", "ours", "theirs", "th\0"),
        template=number, status="00", kept=log.one({}, {"template": template(1)}, {"template": "aa" * 32}),
    )  # fmt: skip


def _workload(log: Chance) -> None:
    namespace, name = log.one(*SPACES), log.one(*NAMES)
    kinds = ["QuotaReserved", *log.one([], ["Finished"], ["Evicted"])]
    status = {"QuotaReserved": log.one("True", "True", "False")}
    conditions = [
        Condition(type=kind, status=status.get(kind, "True"), reason="R", message="", last_transition_time="")
        for kind in kinds
    ]
    assigned = [
        {"name": "main", "flavors": {"cpu": "spot", "gpu": "a100"}, "resourceUsage": {"cpu": "500m", "gpu": "2"}},
        {"name": "driver", "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "1"}},
    ]
    log.seen(
        f"workload/{namespace}/{name}", observations.WorkloadObserved, observations.WorkloadGone,
        {"namespace": namespace, "name": name}, template=template(log.random.randrange(3)), spec_key="s",
        conditions=conditions, queue_name=log.one("lq", "other"), cluster_queue=log.one("", "cq"),
        owner=log.one(None, observations.Owner(api_version="batch/v1", kind="Job", name=name, uid="u")),
        assignments=log.one([], [], assigned), requests=log.one({}, {}, {"main": {"cpu": "2"}, "more": {"cpu": "1"}}),
        kept=log.one({}, {"template": template(4)}),
    )  # fmt: skip


def _theirs(log: Chance) -> None:
    """A copy, or its job, that has the name of a Workload and was made for another management cluster."""
    namespace, name, cluster = log.one(*SPACES), log.one(*NAMES), log.one(*CLUSTERS)
    stream, key = f"workload/{namespace}/{name}", {"namespace": namespace, "name": name}
    whose: dict[str, Any] = {"unmarked": True, "made_for": log.one("another", "c\0d")}
    if log.one(True, False):
        admitted = [Condition(type="Admitted", status="True", reason="R", message="", last_transition_time="")]
        log.seen(
            stream, observations.CloneObserved, observations.CloneGone, key, of=f"copy {cluster}", cluster=cluster,
            spec_key="s", conditions=log.one([], admitted), **whose,
        )  # fmt: skip
        return
    log.seen(
        stream, observations.RemoteJobObserved, observations.RemoteJobGone, {**key, "kind": JOBS.name},
        of=f"job {cluster}", cluster=cluster, status="00", suspended=log.one(True, False), inactive=log.one(True, False), **whose,
    )  # fmt: skip


def _decision(log: Chance) -> None:
    """What is decided about a Workload: an attempt that begins, or goes on in another way."""
    namespace, name, cluster = log.one(*SPACES), log.one(*NAMES), log.one(*CLUSTERS)
    stream = f"workload/{namespace}/{name}"
    attempt = log.attempts[stream] = log.attempts.get(stream, 0) + log.one(0, 1)
    kind = log.one(
        decisions.NominationDecided, decisions.NominationDecided, decisions.AttemptBegun, decisions.WinnerChosen,
        decisions.WinnerReleased, decisions.ClusterRefused, decisions.CheckStateDecided,
    )  # fmt: skip
    made = sample(kind)
    given = {
        "attempt": max(attempt, 1), "cluster": cluster, "clusters": log.random.sample(CLUSTERS, 2),
        "state": log.one("Ready", "Retry", "Rejected"), "reason": log.one(*WHY),
    }  # fmt: skip
    known = {field: value for field, value in given.items() if field in made.__struct_fields__}
    log.put(stream, msgspec.structs.replace(made, **known), cluster)


def _admission(log: Chance) -> None:
    """A Workload as admission sees it, or an entry of the ledger: more of something, all of it back, or another
    amount."""
    namespace, name = log.one(*SPACES), log.one(*NAMES)
    stream = f"admission/workload/{namespace}/{name}"
    if log.random.random() < 0.4:
        identity = {"namespace": namespace, "name": name, "uid": "u", "resource_version": str(len(log.log))}
        log.put(stream, admission.AdmissionWorkloadObserved(**identity, queue=log.one("lq", "other")))
        return
    has = log.ledger.setdefault(stream, {})
    queue = next((place[0] for place in has), log.one("cq", "c/q"))
    amounts: dict[str, dict[str, int]] = {}
    if has and log.random.random() < 0.5:
        for (_, flavor, resource), amount in has.items():
            amounts.setdefault(flavor, {})[resource] = -amount
        has.clear()
    else:
        flavor, resource, amount = log.one("spot", "de.fault"), log.one("cpu", "memory"), log.one(500, 2**33, 2**62)
        place = (queue, flavor, resource)
        if amount != has.get(place, 0):
            amounts = {flavor: {resource: amount - has.get(place, 0)}}
        has[place] = amount
    borrowed = {flavor: dict.fromkeys(of, 1) for flavor, of in amounts.items()} if log.one(True, False) else {}
    log.put(
        stream,
        admission.QuotaPosted(
            reason=AdmissionReason.OBSERVED_RESERVATION, cluster_queue=queue, amounts=amounts, borrowed=borrowed
        ),
    )


def _candidate(log: Chance) -> None:
    """A candidate of a pod: decided about, seen, gone; and another one of its name."""
    pod, target = log.one("web", "main"), log.one("a", "b")
    stream, name = f"sourcepod/team/{pod}", f"web-{target}"
    key = {"namespace": "team", "name": name}
    kind = log.one(
        events.CandidateRequested, events.PermitGranted, events.CandidateDropped, seen.CandidateWaiting,
        seen.CandidateReserved, seen.CandidateRefused, seen.CandidateUnschedulable, seen.CandidateUnreserved,
        seen.CandidateBound, seen.DelegateStatus, seen.DelegateMissing,
    )  # fmt: skip
    there = log.there.get(f"{stream} {name}", False)
    if not there or issubclass(kind, events.OnCandidate):
        kind = kind if there and kind is not events.CandidateRequested else events.CandidateRequested
        if there == (kind is events.CandidateRequested):
            return
        log.there[f"{stream} {name}"] = True
        log.put(stream, sample(kind, candidate=name, cluster=target), target)
        return
    fields = {field: log.one("", "x\0y") for field in ("why", "message")}
    fields |= {"node": log.one("n", "m")} if "node" in kind.__struct_fields__ else {}
    made = sample(kind, **key, uid="", resource_version="", **fields)
    rest = {
        field: getattr(made, field)
        for field in made.__struct_fields__
        if field not in (*key, "uid", "resource_version")
    }
    log.seen(stream, kind, seen.CandidateGone, key, **rest, of=name, cluster=target)
    last = log.log[-1].event
    if isinstance(last, seen.CandidateGone):
        uids = log.uids[f"{stream} {name}"]
        log.there[f"{stream} {name}"] &= last.uid != uids[-1]
        if last.uid == uids[-1]:
            uids.append(f"uid-{len(log.log)}")


STEPS: tuple[Callable[[Chance], None], ...] = (
    _config, _cluster, _check, _queues, _queues, _connection, _connection, _connection, _service, _settings, _job,
    _job, _workload, _workload, _workload, _theirs, _decision, _decision, _decision,
    _admission, _admission, _admission, _candidate, _candidate, _candidate,
)  # fmt: skip
