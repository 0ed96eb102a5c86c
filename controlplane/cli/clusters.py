"""`controlplane clusters`: the connections to the clusters, as the log says they are, and what an operator may say
about lost ones.

The list only reads. `forget` and `accept-outage` append one event each, and only with `--i-know`: what follows from it
may run a job twice."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from controlplane.audit.clusters_now import (
    describe,
    grace_cell,
    identity_cell,
    in_words,
    mass_outage,
    outage_line,
    unknown_line,
)
from controlplane.audit.shown import clock, place
from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.following import ChangedRows, document, follow, refuse_order, watch_option
from controlplane.cli.frame import CommandGroup
from controlplane.cli.history import is_empty, log_option, open_reader, policy_in_force, stamp
from controlplane.cli.options import Options, listing, names_of, selected
from controlplane.cli.output import aside, dump, in_order, line, table

if TYPE_CHECKING:
    from datetime import datetime

    from controlplane.audit.reads import LogReader
    from controlplane.controllers.multikueue.context import MultiKueuePolicy
    from controlplane.controllers.multikueue.index import WorkloadIndex
    from controlplane.kube.selectors import LabelSelector

T = TypeVar("T")
COLUMNS = ("name", "state", "since (UTC)", "grace", "owed", "running", "open writes", "identity", "server", "reason")
WIDE = ("message",)


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.option("-l", "--selector", metavar="SELECTOR", help="Only those with these labels: env=prod,region in (eu,us).")
@log_option
@watch_option("Then print each row that changes, until Ctrl-C.")
@listing("name", "csv")
@click.pass_context
def clusters(context: click.Context, selector: str | None, watch: bool) -> int | None:
    """Show the clusters: whether each can be reached, and what runs there.

    \b
    GRACE says when Workloads are taken from a cluster that is away: in so
    long, never (execution policy never-twice), or over. OWED are copies there
    that are not wanted any more, and are dealt with when it is back. IDENTITY
    is which cluster answers, and how often it was restored from a backup.
    --selector is about the labels of MultiKueueClusters. With --watch each row
    is printed again when it changes.
    With -o json or yaml, one object (with --watch one of `clusters` a line,
    or one YAML document each):
      mass_outage: null, or since, away (names), of, holds, accepted_by
      policy (as the service said when it began to lead): execution_policy,
      worker_lost_timeout, readmission_grace, refusal_pause,
      requeues_per_minute, mass_outage_share
      clusters, each: name, state, since, lost_since, grace (left, over, never
      or ""), grace_ends_at, stays (Workloads that are not taken from it yet),
      stays_for_ever (of them under never-twice), forgotten, owed, running
      (Workloads), copies (Workloads that have a copy there), unknown_copies
      (names of those of which nobody here knows whose they are), open_writes,
      reason, message, server_version, incarnation, restores,
      kinds_off (kind: message)
    """
    if context.invoked_subcommand is not None:
        return None
    options, labels = context.ensure_object(Options), selected(selector) if selector is not None else None
    return _watch(options, labels) if watch else show(options, labels)


@clusters.command()
@click.argument("name", shell_complete=names_of("clusters"))
@click.option("--i-know", is_flag=True, help="Do it: nothing of ours runs there any more, or may run twice.")
@click.option("--by", metavar="WHO", help="Who says so; your login name by default.")
@click.pass_obj
def forget(options: Options, name: str, i_know: bool, by: str | None) -> None:
    """Give a lost cluster up: queue its Workloads again now, and place its pods anew, under never-twice too.

    Holds until the cluster connects again. Without --i-know it says what it would do (exit code 2).
    """
    from controlplane.app import operate

    database, log, policy = _target(options)
    if not i_know:
        index, now = _read(options, policy)
        since = operate.forgettable(index, name).lost_since
        stays, pods = _stays(index, now, [name]), _pods(options, name)
        anew = f", and place {_counted(pods, 'pod')} anew that {_are(pods)} there or may be" if pods else ""
        raise CommandFailure(
            f'nothing was done: this would end the grace of cluster "{name}", which is away since {clock(since)}'
            f" UTC, and queue {_workloads(stays)} again that {_stay(stays)} with it{anew}, under never-twice too."
            " What still runs there would run a second time, so say --i-know if nothing does.",
            Exit.USAGE,
        )
    pods = _pods(options, name)  # before anybody acts on it
    copies = tell(operate.forget(database, log, policy, name, by or whoami()))
    also = f", and {_counted(pods, 'pod')} {_are(pods)} there or may be" if pods else ""
    message = f'Cluster "{name}" is given up until it connects again; it has copies of {_workloads(copies)}{also}.'
    _done(options, {"cluster": name, "copies": copies, "pods": pods}, message)


@clusters.command("accept-outage")
@click.option("--i-know", is_flag=True, help="Do it: the clusters that are away are really gone.")
@click.option("--by", metavar="WHO", help="Who says so; your login name by default.")
@click.pass_obj
def accept_outage(options: Options, i_know: bool, by: str | None) -> None:
    """Say that a mass outage is real: queue the Workloads of its clusters again.

    Each Workload's own grace still holds. Without --i-know it says what it would do (exit code 2).
    """
    from controlplane.app import operate

    database, log, policy = _target(options)
    if not i_know:
        index, now = _read(options, policy)
        operate.acceptable(index)
        away = index.away()[0]
        stays = _stays(index, now, away, ending=True)
        raise CommandFailure(
            f"nothing was done: this would let {_workloads(stays)} be queued again as the graces end on the"
            f" clusters that are away ({', '.join(away)}). If it is this network that is cut off, and not they, all"
            " of it would run twice, so say --i-know if you looked.",
            Exit.USAGE,
        )
    count = tell(operate.accept_outage(database, log, policy, by or whoami()))
    message = f"The mass outage is accepted: Workloads of {count} clusters are queued again as their graces end."
    _done(options, {"away": count}, message)


def whoami() -> str:
    """Return the name of whoever runs this program; the number of an account that has none."""
    import getpass
    import os

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def tell(word: Coroutine[Any, Any, T]) -> T:
    """Run what is said to, or asked of, a log. That it waits meanwhile is not logged: if it comes to nothing, one
    sentence says so."""
    import asyncio
    import logging

    import structlog

    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        return asyncio.run(word)
    finally:
        structlog.configure(**before)


def show(options: Options, labels: LabelSelector | None = None) -> int:
    """Print the clusters, and a mass outage above them."""
    policy = _target(options)[2]
    index, now = _read(options, policy)
    if not index.connections:
        _say_if_empty(options)
    found, outage = _listed(index, now, labels), mass_outage(index)
    if index.connections and not found:
        aside("No clusters found with these labels.")
    if options.output != "table":
        value = {"mass_outage": outage, "policy": in_words(policy), "clusters": in_order(found)}
        dump(options.output, value, kind="cluster", items="clusters")
        return Exit.OK
    if outage is not None:
        line(outage_line(outage))
    table(_columns(options), [_row(options, one, now) for one in in_order(found)])
    for one in in_order(found):
        _say_unknown(place(one["name"]), one["unknown_copies"])
    return Exit.OK


def _say_unknown(cluster: str, copies: Sequence[str]) -> None:
    """Say which copies on a cluster are left alone, since nobody here knows whose they are."""
    if copies:
        aside(f"{cluster} {unknown_line(copies)}")


def _listed(index: WorkloadIndex, now: datetime, labels: LabelSelector | None) -> list[dict[str, Any]]:
    """Return the clusters as plain values, those with some labels if they are asked for."""
    from controlplane.audit.absence import absences

    found = describe(index, absences(index, now), now)
    if labels is None:
        return found
    seen = {name: observed.labels for name, observed in index.clusters.items()}
    return [one for one in found if one["name"] in seen and labels.matches(seen[one["name"]])]


def _columns(options: Options) -> Sequence[str]:
    return (*COLUMNS, *WIDE) if options.wide else COLUMNS


def _row(options: Options, one: dict[str, Any], now: datetime) -> Sequence[object]:
    cells = (
        place(one["name"]),
        one["state"],
        stamp(one["since"]),
        grace_cell(one, now),
        one["owed"] if one["grace"] else "",
        one["running"],
        one["open_writes"],
        identity_cell(one["incarnation"], one["restores"]),
        one["server_version"],
        one["reason"] or _kinds_off(one["kinds_off"]),
    )
    return (*cells, one["message"]) if options.wide else cells


def _kinds_off(kinds: Mapping[str, str]) -> str:
    """Return what is said of a cluster that answers, and on which some kinds cannot be watched."""
    return f"kinds off: {', '.join(sorted(kind.partition('.')[0] for kind in kinds))}" if kinds else ""


def _watch(options: Options, labels: LabelSelector | None) -> int:
    """Print the clusters, and each one that changes, until Ctrl-C."""
    from controlplane.audit.fleet import load
    from controlplane.clock import SystemClock

    refuse_order(options)
    first = open_reader(options)
    policy = policy_in_force(options, first)
    shown, last, said = (
        ChangedRows(options, _columns(options), "cluster"),
        dict[str, dict[str, Any]](),
        dict[str, Any](),
    )

    def look(reader: LogReader) -> None:
        index, now = load(reader, policy), SystemClock().now()
        outage = mass_outage(index)
        if outage != said.get("outage"):
            said["outage"] = outage
            _say_outage(options, outage)
        found = {one["name"]: one for one in _listed(index, now, labels)}
        left = {name: {**one, "state": "Removed"} for name, one in last.items() if name not in found}
        shown.show([(name, one, one, _row(options, one, now)) for name, one in {**found, **left}.items()])
        for name in left:
            shown.forget(name)
        last.clear()
        last.update(found)

    return follow(options, first, look)


def _say_outage(options: Options, outage: dict[str, Any] | None) -> None:
    """Print that a mass outage began, changed, or is over."""
    if options.output == "name":
        return
    if options.output != "table":
        document(options.output, {"mass_outage": outage})
    else:
        line(outage_line(outage) if outage is not None else "The mass outage is over.")


def _say_if_empty(options: Options) -> None:
    with open_reader(options) as reader:
        if empty := is_empty(reader):
            aside(f"{empty[0].upper()}{empty[1:]}.")


def _target(options: Options) -> tuple[Any, str, MultiKueuePolicy]:
    """Return the database of the log, the log's name, and what its service decides by."""
    from controlplane.log.connect import Database

    settings = options.settings()
    with open_reader(options) as reader:
        policy = policy_in_force(options, reader)
    return Database(options.database_url(), settings.database.role), settings.database.log, policy


def _read(options: Options, policy: MultiKueuePolicy) -> tuple[WorkloadIndex, datetime]:
    from controlplane.audit.fleet import load
    from controlplane.clock import SystemClock

    with open_reader(options) as reader:
        return load(reader, policy), SystemClock().now()


def _stays(index: WorkloadIndex, now: datetime, names: list[str], *, ending: bool = False) -> int:
    """Return how many Workloads stay with some clusters; with `ending` only those whose grace ends by itself."""
    from controlplane.audit.absence import absences

    found = absences(index, now)
    return sum(found[name].stays - (found[name].never if ending else 0) for name in names if name in found)


def _pods(options: Options, cluster: str) -> int:
    """Return how many source pods a target has bound, or may bind."""
    from controlplane.audit.pods_now import placed_on

    with open_reader(options) as reader:
        return len(placed_on(reader, cluster))


def _done(options: Options, value: dict[str, Any], message: str) -> None:
    if options.output == "table":
        line(message)
    else:
        dump(options.output, value)


def _workloads(count: int) -> str:
    return _counted(count, "Workload")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _stay(count: int) -> str:
    return "stays" if count == 1 else "stay"
