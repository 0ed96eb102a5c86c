"""A job that was made larger, step by step: slices of it beside each other on two clusters."""

from __future__ import annotations

from typing import Any

from controlplane.controllers.multikueue.events import CheckStateDecided
from controlplane.controllers.multikueue.observations import JobGone
from tests.multikueue.scene import JOB, JOB_STREAM, NS, WL, Scene

REPLACED = {"Finished": ("WorkloadSliceReplaced", "Replaced to accommodate a workload")}
RUNS = {"QuotaReserved": True, "Admitted": True}
NEXT = "job-train-next"
SMALL, LARGE = {"main": 1}, {"main": 3}
NEW: dict[str, Any] = {"elastic": True, "replaces": f"{NS}/{WL}", "spec_key": "spec-2", "size": LARGE}


def check(scene: Scene) -> tuple[str, str]:
    (decision,) = scene.decide()
    assert isinstance(decision, CheckStateDecided)
    return decision.state, decision.message


def job_gone(scene: Scene) -> Scene:
    scene.fold(JOB_STREAM, JobGone(namespace=NS, name=JOB, uid="job-uid", kind="jobs.batch"))
    return scene


def small(*clusters: str) -> Scene:
    """A slice that runs on `a`."""
    scene = Scene(*(clusters or ("a", "b"))).job(suspended=False, status="11" * 32, size=SMALL, inactive=False)
    scene.workload(RUNS, check="Ready", cluster_name="a", elastic=True, size=SMALL)
    scene.clone("a", RUNS, size=SMALL)
    return scene.remote_job("a", suspended=False, inactive=False, status="11" * 32, size=SMALL)


def waiting() -> Scene:
    """The job was made larger: another slice waits for quota."""
    scene = small().job(size=LARGE, template="cc" * 32)
    assert scene.names() == []
    return scene.on(NEXT).workload({"QuotaReserved": False}, **NEW)


def reserved() -> Scene:
    """The next slice has quota, and the cluster of the one before, which is finished."""
    scene = waiting().on(WL).workload(REPLACED)
    return scene.on(NEXT).workload({"QuotaReserved": True}, cluster_name="a")


def cloned() -> Scene:
    scene = reserved()
    assert scene.names() == ["AttemptBegun"]
    assert scene.names() == ["Clone a"]
    return scene.clone("a", spec_key="spec-2", size=LARGE)


def bound() -> Scene:
    """The job is seen as that of the next slice."""
    scene = cloned().clone("a", RUNS)
    assert scene.names() == ["SpecUpdate a"]
    return scene.remote_job("a", suspended=False, inactive=False, status="11" * 32, size=LARGE)
