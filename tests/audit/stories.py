"""Five Workloads in one log: one each for what usually happens to them."""

from __future__ import annotations

from datetime import timedelta

from tests.audit.script import Life, Script

TRAIN, ETL, SIM, ODD, QUEUED = (f"{job}-0a1b2" for job in ("train", "etl", "sim", "odd", "queued"))


def happy(script: Script) -> Life:
    """Offered to three, admitted by two, runs on b, which was first, and finishes."""
    life = script.workload(TRAIN).offered("a", "b", "c")
    life.clone("b", {"QuotaReserved": True, "Admitted": True}).clone("a", {"QuotaReserved": True, "Admitted": True})
    life.decide().clone_gone("a").clone_gone("c").decide().remote_job("b", suspended=True).decide()
    life.seen({"Admitted": True}, check="Ready", cluster_name="b", nominated=[]).decide()
    life.job(suspended=False).remote_job("b", status="11", inactive=False).decide().job(status="11", inactive=False)
    for number in range(12, 15):  # progress, which is no news
        life.remote_job("b", status=str(number), inactive=False)
        life.script.now += timedelta(seconds=2)
        life.decide().job(status=str(number), inactive=False)
    return life.finishes("b")


def retried(script: Script) -> Life:
    """Runs on a, is evicted there, and runs on b in a second attempt."""
    life = script.workload(ETL).offered("a", "b", "c").installed("a", "a", "b", "c")
    life.clone("a", {"Evicted": ("Preempted", "for a Workload of higher priority")}).decide()
    life.seen(check="Retry").drained().remote_job_gone("a").decide().clone_gone("a").job(
        suspended=True, status="33", inactive=True
    )
    life.again().seen(nominated=["a", "b", "c"]).decide().clone("a").clone("b").clone("c")
    return life.installed("b", "a", "b", "c")


def lost(script: Script) -> Life:
    """Runs on c, which is lost for longer than the grace."""
    life = script.workload(SIM).offered("a", "b", "c").installed("c", "a", "b", "c")
    script.lose("c").now += timedelta(minutes=20)
    return life.decide().seen(check="Retry").drained()


def short_lost(script: Script, *, still_runs: bool = False) -> Life:
    """Runs on c, which is lost for longer than the grace; runs on b; c comes back, where the job runs on, or not;
    finishes on b.
    """
    life = lost(script).job(suspended=True, status="33", inactive=True)
    life.again().seen(nominated=["a", "b"]).decide().clone("a").clone("b")
    life.clone("b", {"QuotaReserved": True, "Admitted": True}).decide().clone_gone("a").decide()
    life.remote_job("b", suspended=True).decide()
    life.seen({"Admitted": True}, check="Ready", cluster_name="b", nominated=[]).decide()
    life.job(suspended=False).remote_job("b", status="44", inactive=False).decide()
    script.now += timedelta(minutes=5)
    if still_runs:
        script.connect("c")
        life.remote_job("c", status="55", inactive=False).decide()
        return life.remote_job_gone("c").decide().clone_gone("c").decide().finishes("b")
    life.remote_job_gone("c").clone_gone("c")  # a list is recorded before it counts as complete
    script.connect("c")
    return life.decide().finishes("b")


def rejected(script: Script) -> Life:
    """Its job is managed by somebody else."""
    life = script.workload(ODD).job(managed_by="example.com/other").seen({"QuotaReserved": True}).decide()
    return life.seen(check="Rejected")


def queued(script: Script) -> Life:
    """Waits for quota."""
    return (
        script.workload(QUEUED, namespace="team-b")
        .job()
        .seen({"QuotaReserved": ("Pending", "couldn't assign flavors")})
    )


def everything() -> Script:
    script = Script("a", "b", "c")
    for story in (happy, retried, lost, rejected, queued):
        story(script)
    return script
