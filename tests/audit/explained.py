"""For every place where a Workload may be: how it came there, the sentence, and the events that prove it."""

from __future__ import annotations

from collections.abc import Callable

from controlplane.controllers.multikueue.observations import CheckState
from controlplane.kube.kinds import WORKLOADS
from tests.audit.ordeals import (
    WORKERS,
    after,
    forgot_its_copy,
    fresh,
    give_up,
    given_up,
    kept_by_a,
    let_b_preempt,
    lose_for,
    name_taken,
    nobody_there,
    refused_by_b,
    unread,
)
from tests.audit.script import Life
from tests.audit.stories import happy, lost, queued, rejected, retried

CASES: list[tuple[str, Callable[[], Life], str, list[str]]] = [
    (
        "Pending",
        after(queued),
        "It waits for quota on the management cluster (Pending: couldn't assign flavors).",
        ["WorkloadObserved"],
    ),
    (
        "Pending",
        after(lost),
        (
            "It waits for quota again (Pending: requeued): it was taken back from c because c could not be reached "
            "until its grace (multikueue.workerLostTimeout) was over."
        ),
        ["CloneObserved", "WinnerChosen", "ClusterLost", "CheckStateDecided", "WorkloadObserved", "WorkloadObserved"],
    ),
    (
        "Pending",
        after(
            fresh,
            lambda life: life.runs("b", *WORKERS),
            lambda life: life.seen({"Evicted": ("Preempted", "to make room.")}, check="Pending", cluster_name=""),
            lambda life: life.seen({"QuotaReserved": ("Pending", "")}),
        ),
        "It waits for quota again (Pending): it was evicted on the management cluster (Preempted: to make room).",
        ["CloneObserved", "WinnerChosen", "WorkloadObserved", "WorkloadObserved"],
    ),
    (
        "Inactive",
        after(fresh, lambda life: life.job().seen(active=False)),
        "It is deactivated: its spec.active is false.",
        ["WorkloadObserved"],
    ),
    (
        "Inactive",
        after(rejected, lambda life: life.seen({"QuotaReserved": ("Pending", "")}, active=False)),
        (
            "It is deactivated: its spec.active is false, after it was rejected because its job's spec.managedBy is not "
            "ours."
        ),
        ["WorkloadObserved", "CheckStateDecided", "WorkloadObserved"],
    ),
    (
        "Reserved",
        after(fresh, lambda life: life.seen({"QuotaReserved": True}).decide()),
        "It has quota and waits for its job to be seen.",
        ["WorkloadObserved"],
    ),
    (
        "Reserved",
        after(
            fresh,
            lambda life: life.job().seen(
                {"QuotaReserved": True}, checks=[CheckState(name="mk"), CheckState(name="provisioning")]
            ),
        ),
        "It has quota and waits for the admission check provisioning.",
        ["WorkloadObserved"],
    ),
    (
        "Reserved",
        after(fresh, lambda life: life.job().seen({"QuotaReserved": True}, checks=[CheckState(name="other")])),
        "It has quota and none of its admission checks is ours: it is not dispatched.",
        ["WorkloadObserved"],
    ),
    (
        "Reserved",
        after(fresh, nobody_there),
        (
            "It has quota and waits for a cluster that can be reached (a, b, c): a: lost since TIME:"
            " connection refused; b: lost since TIME: connection refused; c: lost since TIME: connection refused."
        ),
        ["ClusterLost", "ClusterLost", "ClusterLost", "WorkloadObserved"],
    ),
    (
        "Reserved",
        after(fresh, forgot_its_copy),
        (
            "It has quota and waits for c to come back, where the job may run, until 2026-01-01T00:15:37Z: c: lost "
            "since TIME: connection refused."
        ),
        ["ClusterLost", "WorkloadObserved"],
    ),
    (
        "Reserved",
        after(
            fresh,
            lambda life: life.job(),
            lambda life: unread(life, "b"),
            lambda life: life.seen({"QuotaReserved": True}).decide(),
        ),
        (
            "It has quota and waits for what is on b to be readable, where the job may run: b: jobs.batch "
            "default/train is there and cannot be read (status: expected a map, found str)."
        ),
        ["ObservationRefused", "WorkloadObserved"],
    ),
    (
        "Admitted",
        after(
            fresh,
            lambda life: life.job(suspended=False),
            lambda life: unread(life, "b"),
            lambda life: life.seen({"QuotaReserved": True, "Admitted": True}, check="Ready", cluster_name="b").decide(),
        ),
        (
            "It is admitted on b, and waits for what is on b to be readable: jobs.batch default/train is there and "
            "cannot be read (status: expected a map, found str)."
        ),
        ["ObservationRefused", "WorkloadObserved"],
    ),
    (
        "Nominated",
        after(fresh, lambda life: life.offered(*WORKERS).clone("b", {"QuotaReserved": ("Pending", "no room")})),
        (
            "It was offered to a, b and c (attempt 1) and none of them has it yet: a says: waits for quota;"
            " b says: waits for quota (Pending: no room); c says: waits for quota."
        ),
        ["WorkloadObserved", "NominationDecided", "CloneObserved", "CloneObserved", "CloneObserved"],
    ),
    (
        "Nominated",
        after(fresh, let_b_preempt),
        (
            "It was offered to a, b and c (attempt 1) and none of them has it yet: a says: waits for quota (Pending: "
            "it's gated); b says: waits for quota (Pending: it's gated), and may preempt others since TIME; c says: "
            "waits for quota."
        ),
        [
            "WorkloadObserved",
            "NominationDecided",
            "CloneObserved",
            "CloneObserved",
            "CloneObserved",
            "GateOpeningDecided",
        ],
    ),
    (
        "Chosen",
        after(fresh, kept_by_a),
        (
            "b was chosen because b was the only one that had admitted it, and it waits for the other copies to go (a);"
            " its removal from a failed: jobs.batch is forbidden."
        ),
        ["CloneObserved", "WinnerChosen", "EffectFailed"],
    ),
    (
        "Nominated",
        after(fresh, refused_by_b),
        (
            "It was offered to a, b and c (attempt 1) and none of them has it yet: a says: waits for quota; c says: "
            "waits for quota; b is left out until TIME because the Kueue of b deactivated the copy: too many retries."
        ),
        [
            "WorkloadObserved",
            "NominationDecided",
            "CloneObserved",
            "CloneObserved",
            "CloneObserved",
            "ClusterRefused",
        ],
    ),
    (
        "Nominated",
        after(fresh, given_up),
        (
            "It was offered to a, b and c (attempt 1) and none of them has it yet, after b was chosen and given up "
            "because b evicted it before its job was there: a says: waits for quota; b says: is evicted (Preempted); "
            "c says: waits for quota."
        ),
        [
            "WorkloadObserved",
            "NominationDecided",
            "CloneObserved",
            "CloneObserved",
            "CloneObserved",
            "WinnerReleased",
        ],
    ),
    (
        "Chosen",
        after(
            fresh, lambda life: life.offered(*WORKERS).clone("b", {"QuotaReserved": True, "Admitted": True}).decide()
        ),
        "b was chosen because b was the only one that had admitted it, and it waits for its job to be created on b.",
        ["CloneObserved", "WinnerChosen", "JobCreationDecided"],
    ),
    (
        "Chosen",
        after(fresh, name_taken),
        (
            "b was chosen because b was the only one that had admitted it, and it waits for its job to be created on b;"
            " a write was refused: spec.selector is immutable."
        ),
        ["CloneObserved", "WinnerChosen", "JobCreationDecided", "EffectFailed"],
    ),
    (
        "Admitted",
        after(fresh, lambda life: life.runs("b", *WORKERS), lambda life: life.remote_job("b", suspended=True)),
        "It is admitted on b because b was the only one that had admitted it, and waits for b to start its job.",
        ["CloneObserved", "WinnerChosen", "RemoteJobObserved", "CheckStateDecided", "WorkloadObserved"],
    ),
    (
        "Admitted",
        after(fresh, lambda life: life.job().seen({"QuotaReserved": True, "Admitted": True}, checks=[])),
        "It is admitted on the management cluster: none of its admission checks is ours, so it is not dispatched.",
        ["WorkloadObserved"],
    ),
    (
        "Running",
        after(fresh, lambda life: life.runs("b", *WORKERS)),
        "It runs on b because b was the only one that had admitted it.",
        [
            "CloneObserved",
            "WinnerChosen",
            "RemoteJobObserved",
            "CheckStateDecided",
            "WorkloadObserved",
            "RemoteJobObserved",
        ],
    ),
    (
        "Running",
        after(retried),
        (
            "It runs on b because b was the only one that had admitted it; it is attempt 2: before, it was taken back "
            "from a because a evicted its copy."
        ),
        [
            "CloneObserved",
            "WinnerChosen",
            "CloneObserved",
            "CheckStateDecided",
            "WorkloadObserved",
            "CloneObserved",
            "WinnerChosen",
            "RemoteJobObserved",
            "CheckStateDecided",
            "WorkloadObserved",
            "RemoteJobObserved",
        ],
    ),
    (
        "Lost",
        after(fresh, lose_for(3)),
        (
            "It stays with c, which cannot be reached (lost since TIME: connection refused); if it does not"
            " come back, the Workload is taken back at TIME."
        ),
        ["CloneObserved", "WinnerChosen", "WorkloadObserved", "ClusterLost"],
    ),
    (
        "Lost",
        after(fresh, lose_for(30)),
        (
            "It stays with c, which cannot be reached (lost since TIME: connection refused); its time is over,"
            " and it is to be taken back now."
        ),
        ["CloneObserved", "WinnerChosen", "WorkloadObserved", "ClusterLost"],
    ),
    (
        "Lost",
        after(fresh, lose_for(30, outage=True)),
        (
            "It stays with c, which cannot be reached (lost since TIME: connection refused); it is not taken"
            " back while most clusters are away together."
        ),
        ["CloneObserved", "WinnerChosen", "WorkloadObserved", "ClusterLost", "MassOutageBegan"],
    ),
    (
        "Lost",
        after(fresh, lose_for(3, outage=True)),
        (
            "It stays with c, which cannot be reached (lost since TIME: connection refused); it is not taken"
            " back while most clusters are away together."
        ),
        ["CloneObserved", "WinnerChosen", "WorkloadObserved", "ClusterLost", "MassOutageBegan"],
    ),
    (
        "Lost",
        after(fresh, lambda life: life.job(execution_policy="never-twice"), lose_for(3), give_up),
        (
            "It stays with c, which cannot be reached (lost since TIME: connection refused); its time is over"
            " (jane gave it up), and it is to be taken back now."
        ),
        ["CloneObserved", "WinnerChosen", "WorkloadObserved", "ClusterLost", "ClusterForgotten"],
    ),
    (
        "Retry",
        after(
            fresh,
            lambda life: life.job(execution_policy="never-twice"),
            lose_for(3),
            give_up,
            lambda life: life.decide().seen(check="Retry"),
        ),
        (
            "It is being taken back from c because c could not be reached until its grace "
            "(multikueue.workerLostTimeout) was over (jane gave it up); Kueue evicts it and queues it again."
        ),
        ["CloneObserved", "WinnerChosen", "ClusterLost", "ClusterForgotten", "CheckStateDecided", "WorkloadObserved"],
    ),
    (
        "Lost",
        after(fresh, lambda life: life.job(execution_policy="never-twice"), lose_for(30)),
        (
            "It stays with c, which cannot be reached (lost since TIME: connection refused); it is not taken"
            " back without word from there, by its execution policy never-twice."
        ),
        ["CloneObserved", "WinnerChosen", "WorkloadObserved", "ClusterLost"],
    ),
    (
        "Retry",
        after(
            fresh,
            lambda life: life.runs("b", *WORKERS),
            lambda life: life.clone("b", {"Evicted": ("Preempted", "")}).decide().seen(check="Retry"),
        ),
        "It is being taken back from b because b evicted its copy; Kueue evicts it and queues it again.",
        ["CloneObserved", "WinnerChosen", "CloneObserved", "CheckStateDecided", "WorkloadObserved"],
    ),
    (
        "Rejected",
        after(rejected),
        (
            "It was rejected because its job's spec.managedBy is not ours: The owner is not managed by Kueue: Expecting"
            ' spec.managedBy to be "kueue.x-k8s.io/multikueue" not "example.com/other", Previously: "Pending".'
        ),
        ["WorkloadObserved", "CheckStateDecided", "WorkloadObserved"],
    ),
    (
        "Evicted",
        after(
            fresh,
            lambda life: life.runs("b", *WORKERS),
            lambda life: life.seen({"Evicted": ("Preempted", "to make room")}, check="Pending", cluster_name=""),
        ),
        (
            "It waits for its copies on b to stop, so that its quota is free for others: it was evicted on the "
            "management cluster (Preempted: to make room)."
        ),
        ["CloneObserved", "WinnerChosen", "WorkloadObserved"],
    ),
    (
        "Deleting",
        after(fresh, lambda life: life.runs("b", *WORKERS), lambda life: life.seen(deleting=True)),
        "It is being deleted, and its copies on b are removed.",
        ["WorkloadObserved"],
    ),
    (
        "Finished",
        after(happy),
        "It finished on b (Succeeded: Job finished successfully).",
        ["CloneObserved", "WinnerChosen", "CloneObserved", "FinishDecided", "WorkloadObserved"],
    ),
    (
        "Deleted",
        after(happy, lambda life: life.gone()),
        "It was deleted on the management cluster after it finished (Succeeded: Job finished successfully).",
        ["WorkloadObserved", "WorkloadGone"],
    ),
    (
        "Deleted",
        after(fresh, lambda life: life.clone("a")),
        "No Workload of this name was ever seen; its copies on a are still to go.",
        ["CloneObserved"],
    ),
    (
        "Deleted",
        after(fresh, lambda life: unread(life, "@management", WORKLOADS.name, life.name), lambda life: life.clone("a")),
        "It is there and cannot be read (status: expected a map, found str): nothing is done about it.",
        ["ObservationRefused"],
    ),
]
