"""What a Workload waits for that has no quota: the queue that it names, or what is wrong with that."""

from __future__ import annotations

from controlplane.audit.standing import quota_of, standing
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
