"""What plans of the tenth edition have found, by scene and seed: each holds since."""

from __future__ import annotations

import pytest

from tests.dst.test_regressions import CANDIDATES, LOCAL, WORKLOADS, plays
from tests.support.deep import deep_but

MENDED: list[tuple[str, int, str]] = [
    (
        WORKLOADS,
        945035,
        "the job of a Workload that somebody deleted was never run again: its status said that it runs",
    ),
    (WORKLOADS, 945108, "so it was where the log had gone back to before that status was written"),
    (WORKLOADS, 945198, "so it was where a cluster was away that might have run it"),
    (WORKLOADS, 945045, "a last status that was forbidden thrice was never written, although the right to was back"),
    (WORKLOADS, 945264, "none of the product's: what did not get through to one process was not sent again"),
    (
        WORKLOADS,
        951035,
        "an elastic job ran on two clusters: its Workload was deleted, and the next one has another name",
    ),
    (
        WORKLOADS,
        951116,
        "an elastic job ran on two clusters: its copy, which could not be seen, was bound to a replaced slice",
    ),
    (WORKLOADS, 951771, "a choice of a cluster that the log had refused counted where Workloads must be spread"),
    (
        WORKLOADS,
        951791,
        "a last status that was forbidden was gone with its copy, and with the log that went back to before it",
    ),
    (
        WORKLOADS,
        960016,
        "a job whose Workload was deleted waited for ever for a removed second name of a cluster in view",
    ),
    (WORKLOADS, 951898, "an elastic job was queued again whose copy was deleted the moment it had ended"),
    (
        WORKLOADS,
        951259,
        "none of the product's: somebody kept a Workload of that name on the only cluster that a job may go to",
    ),
    (
        WORKLOADS,
        962055,
        "a kind that was off was not asked for again while a try to watch it waited for a byte, and its job ran twice",
    ),
    (WORKLOADS, 951050, "an elastic job waited for ever for a slice that a backup had lost, together with its copy"),
    (
        WORKLOADS,
        963112,
        "a pod came in the place of another one of its group that had succeeded on the worker, and never ran",
    ),
    (WORKLOADS, 963185, "a job that might not be deleted was started again there while it ran elsewhere"),
    (
        WORKLOADS,
        963153,
        "a job whose Workload neither the log nor the cluster knew was never queued again after its orphan was removed",
    ),
    (WORKLOADS, 963557, "an elastic job whose copy's Workload was deleted on the worker was never queued again"),
    # Kueue tries to make that slice again, and cannot.
    (WORKLOADS, 963527, "none of the product's: the slice of a job's present size was deactivated, and ended for it"),
    (
        WORKLOADS,
        963585,
        "an elastic job waited for a name that was removed, whose cluster is in view under another one",
    ),
    (
        WORKLOADS,
        963603,
        "none of the product's: what a worker's Kueue had made the Workload of a copy went with the copy",
    ),
    (
        WORKLOADS,
        963602,
        "none of the product's: a last status was forbidden, somebody deleted its copy, and the log went back before it",
    ),
    (
        WORKLOADS,
        963903,
        "a Workload that a backup lacks was there for ever: what was seen before counted as of the time after it",
    ),
    (WORKLOADS, 963466, "none of the product's: of a group that was made anew, the pods that had ended were not"),
    (WORKLOADS, 963483, "none of the product's: a backup brought back a pod that the webhook had not seen"),
    (
        WORKLOADS,
        963374,
        "none of the product's: choices of one append fitted in another order than that in which they were appended",
    ),
    (CANDIDATES, 951302, "a target that was made anew while Secrets were forbidden was never connected to again"),
    (
        CANDIDATES,
        962417,
        "a target whose log went back refused what it had bound, of a source that is uninvited by now",
    ),
    (
        CANDIDATES,
        962836,
        "a copy that was created late, by a request that had been sent again, stayed where nobody watched any more",
    ),
    (CANDIDATES, 945005, "none of the product's: without an idle target nothing else has room where it may be"),
    (CANDIDATES, 945045, "a binding that the API server refuses was begun again at once, and again"),
    (
        CANDIDATES,
        945105,
        "candidates beyond the bound of an invitation were refused and taken in turns, without a pause",
    ),
    (CANDIDATES, 945144, "a target whose log had gone back took back that it had acknowledged a withdrawal"),
    (CANDIDATES, 945372, "a pod showed fewer restarts than it had when its log had gone back"),
    (CANDIDATES, 945473, "a pod ran twice: its log had gone back to a delegate before the one that the pod names"),
    (CANDIDATES, 945621, "a delegate ran on for a pod that had failed: the log had gone back to before it did"),
    (LOCAL, 951159, "none of the product's: a group falls back some time after the last look at it"),
    (LOCAL, 945002, "an owner was not recorded whose first showing was taken back while the log was away"),
]


@pytest.mark.parametrize(("scene", "seed", "what"), deep_but([], MENDED))
def test_what_was_mended_in_the_tenth_edition_stays_mended(scene: str, seed: int, what: str) -> None:
    plays(seed, "", 10, scene)
