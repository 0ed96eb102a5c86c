"""Texts and numbers that no field of an API server's holds, or that take minutes to reckon with: what a user wrote, or
another cluster, is cut where it is handed on, and stops nobody."""

from __future__ import annotations

import time

import pytest

from controlplane.controllers.connectivity.events import ClusterConnectFailed, cluster_stream
from controlplane.controllers.multikueue.conditions import cluster_active
from controlplane.kube.kinds import JOBS, Json
from tests.multikueue.dispatched import retry, settled
from tests.multikueue.observed import observe, remote_job
from tests.multikueue.rendered import request_of
from tests.multikueue.scene import Scene

LIMIT = 32 * 1024  # of Kubernetes' conditions, and of the message of an admission check
LONG = "ä" * LIMIT


def fits(message: str) -> bool:
    return len(message) <= LIMIT and message.endswith(" ...")


@pytest.mark.parametrize("retries", [2**31 - 1, 2**63 - 1])
def test_a_count_of_retries_that_is_far_too_large_takes_no_time(retries: int) -> None:
    scene = settled().workload(retry_count=retries).clone("a", {"Evicted": True})
    begun = time.perf_counter()
    assert retry(scene.decide()).requeue_after_seconds == 300
    assert time.perf_counter() - begun < 1


def test_a_copy_is_stopped_however_much_was_said_about_the_eviction() -> None:
    """Kueue cuts it at the limit; what is put before it would be too much."""
    scene = settled().workload({"Evicted": ("Preempted", "x" * LIMIT)})
    assert scene.names() == ["Deactivation a"]
    (target,) = [one for one in conditions(scene) if one["type"] == "DeactivationTarget"]
    assert fits(target["message"])


def test_a_workload_is_finished_however_much_its_job_said() -> None:
    """The message of a Job's condition has no limit."""
    scene = settled().clone("a", {"Finished": ("Failed", LONG)}).tick(seconds=31)
    assert scene.names() == ["Finish"]
    (finished,) = [one for one in conditions(scene) if one["type"] == "Finished"]
    assert fits(finished["message"])


def test_the_log_has_no_more_of_what_a_job_said_at_its_end() -> None:
    failed = {"type": "Failed", "status": "True", "message": LONG}
    end = observe("a", JOBS, remote_job(status={"conditions": [failed]})).event.end
    assert (end.success, fits(end.message)) == (False, True)


def test_a_workload_is_rejected_however_long_what_is_wrong_is() -> None:
    scene = Scene("a").job(execution_policy=LONG).workload({"QuotaReserved": True})
    assert scene.names() == ["CheckState"]
    (check,) = request_of(scene).body["status"]["admissionChecks"]
    assert (check["state"], fits(check["message"])) == ("Rejected", True)


def test_the_condition_of_a_cluster_is_written_once_however_much_is_wrong() -> None:
    scene = Scene("a", connected=False)
    failed = ClusterConnectFailed(reason="BadKubeConfig", message=LONG, attempt=1, next_attempt_at=scene.now)
    scene.fold(cluster_stream("a"), failed, "a")
    wanted = cluster_active(scene.fleet.index.connections["a"])
    assert wanted is not None
    assert fits(wanted.message)


def conditions(scene: Scene) -> list[Json]:
    """Those of the one open write to a status."""
    found: list[Json] = request_of(scene).body["status"]["conditions"]
    return found
