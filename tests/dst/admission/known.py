"""What the scene of admission has found, by seed: what is mended, and what is not yet.

`MENDED`: the smallest forms that were found, as (seed, `--steps`, what it was). `KNOWN`: seeds of the ordinary run that
fail, with the reason; whoever mends one moves it."""

from __future__ import annotations

MENDED: list[tuple[int, str, str]] = [
    (1, "", "quota that an overtaken reservation had was in the ledger still when the next one was decided"),
    (20, "", "a job whose Workload was deleted said for ever that it runs, and got no other Workload"),
    (39, "", "a Workload that its check had rejected was the first of a StrictFIFO queue for ever"),
    (147, "", "the condition of a Workload that waits was written again at once after the write was refused"),
    (309, "", "ClusterQueues that reclaim from each other took the same quota in turn (quota.prioritizePreemptors)"),
    (347, "", "the same, while another victim of the preemptor waits for a cluster that is away"),
    (
        900059,
        "1,4,6-7,9,12",
        (
            "a copy and its job that could not be read were taken for gone by a log that had gone back, and the job ran "
            "twice"
        ),
    ),
    (900078, "1-11,13-15", "a reservation that was refused after it was overtaken was tried again at once"),
    (
        900139,
        "12,16,19,21",
        "a Workload that was being deleted was not looked at again when a cluster came back that nothing of it was on",
    ),
    (
        900159,
        "9,12,16-17",
        (
            "the end of a job was not recorded while its beginning waited for the database: its Workload was made without "
            "end"
        ),
    ),
    (900334, "2,4-5,10-12", "quota that was reserved before a restored backup was written after it, beyond the quota"),
    (
        930030,
        "27-28",
        "a copy that could not be read and went before its refusal was folded was taken to be there for ever",
    ),
    (
        935133,
        "",
        "quota of a reservation that was written, and answered with an error, was given to another Workload at once",
    ),
]

MENDED_IN_8: list[tuple[int, str, str]] = [
    (12, "", "a Workload that was evicted for its pods was queued no more where MultiKueue had dispatched it"),
    (40, "", "a check that asked for another try while quota was taken away kept its Workload from getting any again"),
    (17, "", "who had waited for the pods of others came first also after it was preempted"),
]
"""The same of the eighth edition."""

MENDED_IN_9: list[tuple[int, str, str]] = [
    (
        209,
        "",
        "the copy of a pod that became the job of its group was made again once the group had finished, and again",
    ),
]
"""The same of the ninth edition."""

MENDED_IN_10: list[tuple[int, str, str]] = [
    (941003, "", "a Workload that had run for too long was queued no more when its user activated it again"),
    (941032, "", "the two ClusterQueues that a Workload leaves and goes to had another order in each process"),
    (
        941033,
        "",
        (
            "a simulated Kueue looked after sets where there is none, and gave back quota by an apply, which left the "
            "admission"
        ),
    ),
    (951153, "", "none of the product's: nobody replaced a pod that had ended, was back by a backup, and was evicted"),
    (
        951214,
        "",
        "none of the product's: nobody replaced a pod that was being deleted when it was all that was left of its group",
    ),
    (951316, "", "a pod of a group that had failed ran again for its user, whose cluster was put back to before"),
    (
        951278,
        "",
        # Kueue keeps the reason of the first eviction too.
        "none of the product's: nobody looked at a job that ran for too long and was preempted just then",
    ),
    (
        951329,
        "",
        # Kueue's own scheduler leaves them waiting too.
        "none of the product's: the first of a StrictFIFO queue keeps what others have borrowed from those after it",
    ),
    (951425, "", "none of the product's: of two Workloads of one second either may be the first of a cycle"),
    (951430, "", "none of the product's: a pod that took another's place was made again under that one's name"),
    (951584, "", "a pod by which its group had been known before could not be recorded as gone"),
    (951465, "", "a running copy was taken for one beside the winner's, which was its own cluster's other name"),
    (
        951407,
        "",
        "the end of an old pod of a group that was evicted counted beside those of the new ones, one of which still ran",
    ),
    (951340, "", "none of the product's: a pod that comes after its group has finished stays gated, as with Kueue"),
]
"""The same of the tenth edition."""

KNOWN: dict[int, str] = {
    910187: "three ClusterQueues of a Cohort preempt one another in turn, each by a rule of Kueue's own: the quota "
    "goes around and is of use to nobody until one of them has ended",
    712345725: "a cluster is rebuilt after a job's end, of which its Workload told and, while the kind was off there, "
    "nothing else: the Workload is finished, and the job keeps the status that was seen last, since nobody knows "
    "another",
}

KNOWN_IN_10: dict[int, str] = {
    941001: "a Workload that may borrow and preempt for it, and one that reclaims, take the same quota from each "
    "other in turn, as fast as the API server answers, until another one has ended: by Kueue's own rules",
}
"""The same of the tenth edition."""
