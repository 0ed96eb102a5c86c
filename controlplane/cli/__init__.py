"""The command line: one group, whose verbs are imported only when they are called.

`VERBS` is the registry. A verb is in a module of its own and is a `Verb` or a `CommandGroup`; it gets an `Options`
with everything that was said before and after it (`@click.pass_obj`), returns nothing or an exit code, and raises
`Failure` for what it expects to go wrong. The help of the group comes from the registry, so that `controlplane --help`
imports neither a database driver nor a Kubernetes client."""

from __future__ import annotations

import click

from controlplane.cli.frame import CommandEntry, CommandGroup
from controlplane.cli.options import Options

VERBS: dict[str, CommandEntry] = {
    "demo": CommandEntry(
        "controlplane.cli.demo:demo", "Watch twenty Jobs go by on simulated clusters; ends by itself."
    ),
    "up": CommandEntry(
        "controlplane.cli.up:up", "Run everything on this machine: a database, simulated clusters, the service."
    ),
    "run": CommandEntry(
        "controlplane.cli.run:run", "Run the service: follow the log, and dispatch workloads while leading it."
    ),
    "submit": CommandEntry(
        "controlplane.cli.submit:submit",
        "Create the jobs of a file on the management cluster; `-` reads standard input.",
    ),
    "doctor": CommandEntry(
        "controlplane.cli.doctor:doctor",
        "Check the database, the management cluster, the queues and each worker, and say what to do.",
    ),
    "clusters": CommandEntry(
        "controlplane.cli.clusters:clusters", "Show the clusters: whether each can be reached, and what runs there."
    ),
    "workloads": CommandEntry(
        "controlplane.cli.workloads:workloads", "Show the Workloads: state, cluster, attempt, and what each waits for."
    ),
    "queues": CommandEntry(
        "controlplane.cli.queues:queues",
        "Show the LocalQueues, or the ClusterQueues: how many Workloads of each are how far.",
    ),
    "describe": CommandEntry(
        "controlplane.cli.describe:describe",
        "Show one thing with all that is known of it: state, place, why, and what happened.",
    ),
    "timeline": CommandEntry(
        "controlplane.cli.timeline:timeline", "Tell the story of a Workload: what happened when, where and why."
    ),
    "why": CommandEntry("controlplane.cli.why:why", "Say why a Workload is where it is, waits, or was taken back."),
    "estimate-error": CommandEntry(
        "controlplane.cli.estimate_error:estimate_error",
        "Show how far the estimates of why were off: when a Workload gets quota.",
    ),
    "as-of": CommandEntry(
        "controlplane.cli.as_of:as_of", "Show the clusters, Workloads or LocalQueues as they were at a time."
    ),
    "usage": CommandEntry(
        "controlplane.cli.usage:usage", "Show how many hours jobs ran, and the resources they asked for in them."
    ),
    "events": CommandEntry(
        "controlplane.cli.events:events", "Show events of the log: the newest ones, or those after a position."
    ),
    "inspect": CommandEntry(
        "controlplane.cli.inspect:inspect",
        "Show an event, the state of its stream before and after it, and what followed.",
    ),
    "diff-decisions": CommandEntry(
        "controlplane.cli.diff_decisions:diff_decisions",
        "Decide again what was decided, and show where the answers differ.",
    ),
    "whatif": CommandEntry("controlplane.cli.whatif:whatif", "Play a time of the log again, with something changed."),
    "export": CommandEntry(
        "controlplane.cli.export:export",
        "Write all that the log has of a Workload into one file that can be checked without it.",
    ),
    "verify-export": CommandEntry(
        "controlplane.cli.export:verify_export",
        "Check a file of `controlplane export`, without a database: that every line is as it was written.",
    ),
    "web": CommandEntry(
        "controlplane.cli.web:web", "Serve the pages and the read API of a log, until it is told to stop."
    ),
    "candidates": CommandEntry(
        "controlplane.cli.candidates:candidates",
        "Show the pods that are placed on other clusters, or invite a cluster's pods into another.",
    ),
    "coscheduling": CommandEntry(
        "controlplane.cli.coscheduling:coscheduling", "Plan how a PipelineRun's pods are brought to one node."
    ),
    "scheduler": CommandEntry(
        "controlplane.cli.scheduler:scheduler", "Schedule pods by kube-scheduler's rules, or explain what they say."
    ),
    "simulate": CommandEntry(
        "controlplane.cli.simulate:simulate",
        "Play seeds of the deterministic simulation and check what must always hold.",
    ),
    "podgroups": CommandEntry("controlplane.cli.podgroups:podgroups", "Say whose PodGroup a pod would be in, and why."),
    "config": CommandEntry("controlplane.cli.config:config", "Show or check the settings."),
    "db": CommandEntry("controlplane.cli.db:db", "Bring the database's schema up to date, or check it."),
    "log": CommandEntry(
        "controlplane.cli.log:log",
        "Verify the log; move it to another management cluster; remove what it keeps of jobs.",
    ),
    "completion": CommandEntry(
        "controlplane.cli.completion:completion", "Print what makes a shell complete commands, options and names."
    ),
    "version": CommandEntry("controlplane.cli.version:version", "Show the version of this program."),
}

_LISTS = (
    "lists are `controlplane workloads`, `controlplane clusters`, `controlplane queues` and `controlplane "
    "candidates list`"
)
_QUEUES = (
    "`controlplane queues` lists LocalQueues, with --cluster-queues ClusterQueues, and `controlplane describe queue "
    "NAME` tells of one"
)
_HISTORY = "`controlplane timeline NAMESPACE/NAME` tells what happened, and `controlplane why NAMESPACE/NAME` why"
_CHANGES = "jobs and queues are changed with kubectl, on the management cluster"
MEANT: dict[str, str] = {
    **dict.fromkeys(("get", "list", "ls", "ps", "top"), _LISTS),
    **dict.fromkeys(
        ("pods", "pod", "po", "candidate"),
        "`controlplane candidates list` shows the pods that are placed on other clusters, and `controlplane why"
        " pod/NAMESPACE/NAME` tells of any pod that the log has",
    ),
    **dict.fromkeys(("queue", "clusterqueue", "clusterqueues", "localqueue", "localqueues", "cq", "lq"), _QUEUES),
    **dict.fromkeys(
        ("status", "health"), "`controlplane clusters` shows the fleet, and `controlplane doctor` what is wrong"
    ),
    **dict.fromkeys(("history", "story", "explain", "show"), _HISTORY),
    **dict.fromkeys(("delete", "cancel", "stop", "resume", "edit", "patch", "scale"), _CHANGES),
    **dict.fromkeys(
        ("apply", "create"), "`controlplane submit FILE` creates jobs, and so does kubectl on the management cluster"
    ),
    "logs": "a job's output is on the cluster that `controlplane workloads` names (kubectl logs there); what happened "
    "is in `controlplane events`",
    **dict.fromkeys(
        ("start", "serve"),
        "`controlplane run` is the service, `controlplane web` the pages, `controlplane up` all of it on this machine",
    ),
    **dict.fromkeys(("migrate", "upgrade"), "`controlplane db upgrade` brings the database's schema up to date"),
    "help": "`controlplane --help` lists the commands",
}
"""What is said of words that kubectl and kueuectl have, or that one may try, and that are no commands here."""

_EPILOG = """\
\b
Exit codes:
  0  done                         4  database out of reach, or its schema wrong
  1  failed                       5  not found
  2  wrong usage                  6  cluster out of reach
  3  settings cannot be used      7  address cannot be listened on
                                130  interrupted

\b
Every setting has an environment variable (CONTROLPLANE_…): `controlplane config show`.
CONTROLPLANE_DEBUG=1 shows the traceback of a failure.
"""


def _version(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        from importlib import metadata

        click.echo(f"controlplane {metadata.version('controlplane')}")
        context.exit()


@click.group(
    cls=CommandGroup, verbs=VERBS, meant=MEANT, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version and leave."
)
@click.pass_context
def cli(context: click.Context) -> None:
    """Batch work on many Kubernetes clusters, with a history you can query."""
    context.ensure_object(Options)


__all__ = ["VERBS", "cli"]
