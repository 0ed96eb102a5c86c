"""`controlplane usage`: the hours that jobs ran, and what they asked for times those hours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import click

from controlplane.audit.shown import place
from controlplane.cli import times
from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.frame import Verb
from controlplane.cli.history import is_empty, log_option, nearest_namespaces, nearest_places, open_reader
from controlplane.cli.options import Options, in_queue, listing, namespaced, on_cluster, words_of
from controlplane.cli.output import aside, emit

BY = ("namespace", "queue", "cluster", "day")  # those of controlplane.audit.past, here so that the help loads nothing
_GIB = Decimal(2**30)


@click.command(cls=Verb)
@click.option("--since", metavar="DAY", help="From this day on (UTC): 2026-01-31, or 7d ago.")
@click.option("--until", metavar="DAY", help="Up to this day, and without it.")
@click.option(
    "--by",
    multiple=True,
    metavar="WHAT",
    shell_complete=words_of(*BY),
    help=f"Add up by {', '.join(BY)}; several with commas.",
)
@namespaced
@on_cluster
@in_queue
@listing("csv")
@log_option
@click.pass_obj
def usage(
    options: Options,
    since: str | None,
    until: str | None,
    by: tuple[str, ...],
    namespace: str | None,
    cluster: str | None,
    queue: str | None,
) -> None:
    """Show how many hours jobs ran, and the resources they asked for in them.

    Days are those of UTC. Without --by, by namespace; what runs still counts up
    to the newest event. RESOURCE-HOURS are what a job asks for times how long
    it ran: core hours of cpu, GiB hours of memory in the table.

    \b
    With -o json, yaml or csv, a list of objects:
      the values of --by, runs (by day only: how many had a part in it),
      run_hours, unknown_hours (those of which the log does not say what was
      asked for), resource_hours (by resource, in base units: cores, bytes)
    """
    from controlplane.audit import past

    begin, end = times.interval(since, until)
    keys = _keys(by)
    with open_reader(options) as reader:
        days = _day(begin, since, "--since"), _day(end, until, "--until")
        found = past.usage(reader, keys, *days, namespace, cluster=cluster, queue=queue)
        near = nearest_namespaces(reader, namespace) or nearest_places(reader, cluster, queue) if not found else ""
        nothing = _nothing(is_empty(reader), near) if not found else ""
    resources = sorted({name for one in found for name in one["resource_hours"]})
    columns = (*keys, *(["runs"] if "day" in keys else []), "run hours", *map(_heading, resources))
    if options.output == "csv":
        flat = [{k: v for k, v in one.items() if k != "resource_hours"} | _flat(one, resources) for one in found]
        emit(options.output, flat, (), ())
    else:
        emit(options.output, [_plain(one) for one in found], columns, _rows(found, keys, resources))
    if nothing:
        aside(nothing)


def _keys(by: tuple[str, ...]) -> tuple[str, ...]:
    """Return what to add up by, in the order in which it was asked for."""
    asked = [word.strip() for one in by for word in one.split(",")] or ["namespace"]
    for word in asked:
        if word not in BY:
            import difflib

            near = difflib.get_close_matches(word, BY, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(BY)}"
            raise CommandFailure(f'--by: hours are not added up by "{word}": {hint}', Exit.USAGE)
    return tuple(dict.fromkeys(asked))


def _day(at: datetime | None, text: str | None, option: str) -> date | None:
    """Return the day of an end of the time that is asked for; what names a time of day is refused."""
    if at is None or text is None:
        return None
    within_a_day = at.time() != datetime.min.time() if "-" in text else text.endswith(("h", "m", "s"))
    if within_a_day:
        said = f'{option}: hours are kept by day, in UTC: write a date, or how many days ago, such as 7d, not "{text}"'
        raise CommandFailure(said, Exit.USAGE)
    return at.date()


def _nothing(empty: str, near: str) -> str:
    return f"Nothing ran: {empty}." if empty else f"Nothing of that ran in that time.{near}"


def _heading(resource: str) -> str:
    return f"{resource} (GiB h)" if _in_bytes(resource) else f"{resource} (h)"


def _in_bytes(resource: str) -> bool:
    return resource in ("memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-")


def _rows(found: list[dict[str, Any]], keys: Sequence[str], resources: Sequence[str]) -> Iterable[list[str]]:
    """Yield the cells of each row, and of a last one with the sum, if there are several."""
    for one in found:
        runs = [str(one["runs"])] if "day" in keys else []
        yield [
            *(place(str(one[key] or "")) for key in keys),
            *runs,
            *_amounts(one["run_hours"], one["resource_hours"], resources),
        ]
    if len(found) > 1:
        every = {
            name: sum((one["resource_hours"].get(name, Decimal(0)) for one in found), Decimal(0)) for name in resources
        }
        total = sum((one["run_hours"] for one in found), Decimal(0))
        blank = [""] * (len(keys) - 1 + ("day" in keys))
        yield ["total", *blank, *_amounts(total, every, resources)]


def _amounts(run_hours: Decimal, hours: dict[str, Decimal], resources: Sequence[str]) -> list[str]:
    shown = [hours[name] / (_GIB if _in_bytes(name) else 1) if name in hours else None for name in resources]
    return [f"{run_hours:.2f}", *("" if one is None else f"{one:.2f}" for one in shown)]


def _plain(one: dict[str, Any]) -> dict[str, Any]:
    """Return a row as JSON has it: hours as numbers."""
    hours = {name: float(amount) for name, amount in one["resource_hours"].items()}
    return {**{k: float(v) if isinstance(v, Decimal) else v for k, v in one.items()}, "resource_hours": hours}


def _flat(one: dict[str, Any], resources: Sequence[str]) -> dict[str, Any]:
    return {f"{name}_hours": one["resource_hours"].get(name) for name in resources}
