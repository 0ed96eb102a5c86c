"""`controlplane candidates describe [NAMESPACE/]NAME…`: everything about a pod that is placed on other clusters.

In: names of source pods. Out: its place, permit and targets, and what happened, in the form of
`controlplane describe`."""

from __future__ import annotations

import click

from controlplane.cli import history
from controlplane.cli.describe import print_all, show_events_option
from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import Verb
from controlplane.cli.options import Options, named, names_of
from controlplane.cli.options import table as table_options


@click.command("describe", cls=Verb)
@click.argument("names", nargs=-1, required=True, metavar="[NAMESPACE/]NAME...", shell_complete=names_of("sourcepods"))
@show_events_option
@named
@table_options
@history.log_option
@click.pass_obj
def described(options: Options, names: tuple[str, ...], show_events: bool) -> None:
    """Show a pod that is placed on other clusters: where it is, what each target said, what it waits for, and what
    happened.

    \b
    With -o json or yaml, one object (a list if several are named):
      the fields of `candidates list`, and
      sentence, proved_by (positions), uid, delegate_phase, epoch_since,
      permit (null, or cluster, candidate, number, kind, reservation, until,
        revoking),
      scale_up (null, or cluster and until: whose autoscaler may add nodes),
      candidates: cluster, reachable, failures, state, candidate, epoch, node,
        score, reservation, permit, expires, since, reason, message
      events: position, at, cluster, what, why, reason, type
    """
    from controlplane.audit.candidacy import candidacy

    with history.open_reader(options) as reader:
        found = [candidacy(history.find_pod(reader, *_place(options, name))) for name in names]
    print_all(options, found, show_events, alone=len(names) == 1)


def _place(options: Options, name: str) -> tuple[str, str]:
    """Return namespace and name of a source pod as it was typed: pod/ or candidate/ may stand before it."""
    namespace, _, plain = history.full_name(options, name).rpartition("/")
    kind, slash, rest = namespace.partition("/")
    if slash and kind in ("pod", "pods", "po", "candidate", "candidates"):
        namespace = rest
    if not namespace or not plain or "/" in namespace:
        raise CommandFailure(
            f'"{name}" does not name a pod: write NAMESPACE/NAME, or NAME with -n NAMESPACE;'
            " `controlplane candidates list` shows which there are",
            Exit.USAGE,
        )
    return namespace, plain
