"""What a Workload waits for that has no quota: the queue that it names, or what is wrong with that."""

from __future__ import annotations

from controlplane.audit.standing import quota_of, standing
from controlplane.controllers.multikueue.observations import CheckState
from tests.audit.script import Script
from tests.support.rows import each

MESSAGES = [
    ("LocalQueue lq doesn't exist", "LocalQueue lq, which does not exist"),
    ("ClusterQueue  doesn't exist", "LocalQueue lq to name a ClusterQueue"),
    ("ClusterQueue cq doesn't exist", "ClusterQueue cq, which does not exist"),
    ("LocalQueue lq is inactive", "LocalQueue lq to be active"),
    ("ClusterQueue cq is inactive", "ClusterQueue cq to be active"),
    (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, 1 more needed",
        "quota in lq",
    ),
    ("workload namespace doesn't match ClusterQueue selector", "the ClusterQueue of lq to take its namespace"),
    ("", "quota in lq"),
]


@each(("message", "waits_for"), MESSAGES)
def test_a_queue_that_is_not_there_gives_no_quota(message: str, waits_for: str) -> None:
    script = Script("a")
    life = script.workload("w-0a1b2").job().seen({"QuotaReserved": ("Pending", message)})
    state = script.fleet.index.workloads[life.stream]
    assert standing(state, script.fleet.index.context(state), script.now).waits_for == waits_for


def test_without_a_queue() -> None:
    assert quota_of("", "") == "quota"


@each(
    ("states", "waits_for"),
    [
        (("Rejected",), "its admission check c0, which is Rejected, to be reset"),
        (("Rejected", "Ready", "Rejected"), "its admission checks c0, c2, which are Rejected, to be reset"),
        (("Retry", "Pending"), "quota in lq"),
    ],
)
def test_one_that_a_check_rejected_gets_no_quota(states: tuple[str, ...], waits_for: str) -> None:
    """Kueue does not try it for quota, and deactivates it only if it has some; the word is that of the view
    `audit.workload_phases`.
    """
    script = Script("a")
    checks = [CheckState(name=f"c{n}", state=state, last_transition_time="") for n, state in enumerate(states)]
    life = script.workload("w-0a1b2").job().seen({"QuotaReserved": ("Pending", "")}, checks=checks)
    state = script.fleet.index.workloads[life.stream]
    found = standing(state, script.fleet.index.context(state), script.now)
    assert (found.word, found.waits_for) == ("Pending", waits_for)
