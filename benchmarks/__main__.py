"""The command line: which benchmarks, how much of each, and where the database lies."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import (
    archive,
    audit,
    coscheduling,
    decide,
    dispatch,
    failover,
    log,
    logs,
    podgroups,
    quota,
    real,
    real_scheduler,
    replay,
    scheduler,
    takeover,
    web,
    whatif,
    why,
)
from benchmarks.machine import describe
from controlplane import event_loop, telemetry

BENCHMARKS = {
    "log": log.run,
    "logs": logs.run,
    "replay": replay.run,
    "decide": decide.run,
    "dispatch": dispatch.run,
    "takeover": takeover.run,
    "failover": failover.run,
    "audit": audit.run,
    "archive": archive.run,
    "web": web.run,
    "whatif": whatif.run,
    "podgroups": podgroups.run,
    "coscheduling": coscheduling.run,
    "scheduler": scheduler.run,
    "quota": quota.run,
    "why": why.run,
    "real": real.run,
    "real-scheduler": real_scheduler.run,
}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure the service on this machine.")
    found.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(BENCHMARKS)}; default: all")
    found.add_argument("--folder", type=Path, help="where the database lies; default: the temporary folder")
    found.add_argument(
        "--repeat", type=int, default=3, help="runs of log, replay, decide, takeover and podgroups; the median is shown"
    )
    log_ = found.add_argument_group("log")
    log_.add_argument("--events", type=int, default=40_000, help="events to append, for each size of batch")
    log_.add_argument("--batches", type=int, nargs="+", default=[100, 1000], help="most events of one commit")
    log_.add_argument("--submitters", type=int, default=2000, help="requests that wait for the log at the same time")
    logs_ = found.add_argument_group("logs", "with --events, --batches (the last) and --submitters as above")
    logs_.add_argument("--logs", type=int, nargs="+", default=[1, 2, 4], help="how many logs are appended to at once")
    logs_.add_argument(
        "--distributed", default="", metavar="URL", help="a coordinator's database in which the log is distributed"
    )
    recorded = found.add_argument_group("replay, decide, takeover, and what log and archive append")
    recorded.add_argument(
        "--recorded", type=int, default=200, help="workloads in the history that is recorded for them"
    )
    dispatch_ = found.add_argument_group("dispatch")
    dispatch_.add_argument("--workloads", type=int, default=500, help="Jobs to dispatch")
    dispatch_.add_argument("--clusters", type=int, default=3, help="worker clusters")
    dispatch_.add_argument("--qps", type=int, default=100_000, help="the budget for each API server; 0: the defaults")
    takeover_ = found.add_argument_group("takeover")
    takeover_.add_argument("--live", type=int, default=10_000, help="live workloads in the log")
    takeover_.add_argument("--history", type=int, default=0, help="events before them, of workloads that are over")
    failover_ = found.add_argument_group("failover")
    failover_.add_argument("--running", type=int, default=2_000, help="Jobs that run when the leader is killed")
    audit_ = found.add_argument_group("audit and whatif")
    audit_.add_argument("--month", type=int, default=1_000_000, help="events of a month")
    audit_.add_argument("--losses", type=int, default=1500, help="how often each cluster is lost in the month")
    archive_ = found.add_argument_group("archive")
    archive_.add_argument("--archived", type=int, default=200_000, help="events to archive, drop and restore")
    web_ = found.add_argument_group("web")
    web_.add_argument("--web-workloads", type=int, default=100_000, help="Workloads that the log has seen")
    web_.add_argument("--web-live", type=int, default=5_000, help="how many of them are live")
    web_.add_argument("--web-clusters", type=int, default=100, help="worker clusters")
    web_.add_argument(
        "--web-database", default="", metavar="URL", help="a database with such a log, instead of a new one"
    )
    podgroups_ = found.add_argument_group("podgroups")
    podgroups_.add_argument("--pods", type=int, default=10_000, help="pods to group")
    podgroups_.add_argument("--deployments", type=int, default=500, help="Deployments that own them")
    coscheduling_ = found.add_argument_group("coscheduling")
    coscheduling_.add_argument("--runs", type=int, default=1000, help="PipelineRuns of the wave")
    scheduler_ = found.add_argument_group("scheduler")
    scheduler_.add_argument("--nodes", type=int, nargs="+", default=[100, 1000, 5000], help="sizes of the cluster")
    scheduler_.add_argument("--cycles", type=int, default=200, help="pods to schedule, one after the other")
    quota_ = found.add_argument_group("quota")
    quota_.add_argument("--pending", type=int, nargs="+", default=[1000, 10_000, 50_000], help="workloads that wait")
    quota_.add_argument("--queues", type=int, default=1000, help="ClusterQueues")
    quota_.add_argument("--quota-cycles", type=int, default=6, help="scheduling cycles at most")
    why_ = found.add_argument_group("why")
    why_.add_argument("--why-waiting", type=int, default=10_000, help="workloads that wait in one Cohort tree")
    why_.add_argument("--why-ended", type=int, default=100_000, help="workloads that have ended")
    real_ = found.add_argument_group(
        "real", "real API servers; KUBEBUILDER_ASSETS and CONTROLPLANE_TEST_CRDS name them"
    )
    real_.add_argument("--workers", type=int, default=3, help="worker clusters")
    real_.add_argument("--paced", type=int, default=60, help="Jobs that are submitted one after the other")
    real_.add_argument("--rate", type=float, default=1.0, help="how many of those a second")
    real_.add_argument("--burst", type=int, default=200, help="Jobs that are submitted at once, after them")
    real_.add_argument("--warm", type=int, default=5, help="Jobs before them, which are not measured")
    real_.add_argument("--runs-for", type=float, default=3.0, help="seconds that a Job runs")
    real_.add_argument(
        "--latency", type=float, default=0, help="milliseconds to each API server and back, for the dispatcher"
    )
    real_.add_argument("--quiet", type=float, default=0, help="seconds in which nothing happens, measured too")
    real_scheduler_ = found.add_argument_group(
        "real-scheduler", "beside kube-scheduler, if KUBEBUILDER_ASSETS has it; --qps is the limit of both"
    )
    real_scheduler_.add_argument("--real-nodes", type=int, default=5000, help="nodes of the cluster")
    real_scheduler_.add_argument("--real-pods", type=int, default=300, help="pods of each series")
    real_scheduler_.add_argument("--real-rate", type=float, default=10.0, help="pods a second, where they are paced")
    return found


def main() -> int:
    """Run what was asked for; returns the exit code."""
    options = parser()
    args = options.parse_args()
    unknown = set(args.names) - set(BENCHMARKS)
    if unknown:
        options.error(f"there is no benchmark {', '.join(sorted(unknown))}: there are {', '.join(BENCHMARKS)}")
    telemetry.configure("error", "console")
    print(describe(), flush=True)
    for name in args.names or BENCHMARKS:
        print(flush=True)
        event_loop.run(BENCHMARKS[name](args))  # as the service runs
    return 0


if __name__ == "__main__":
    sys.exit(main())
