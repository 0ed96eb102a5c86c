"""`controlplane estimate-error`: how far the estimates of when quota is reserved were off, over the history."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from controlplane.cli import times
from controlplane.cli.frame import Verb
from controlplane.cli.history import engine_settings_in_force, is_empty, log_option, nearest_places, open_reader
from controlplane.cli.options import Options, Whole, in_queue, listing
from controlplane.cli.output import aside, emit

if TYPE_CHECKING:
    from controlplane.audit.estimate_error import Figures

COLUMNS = ("queue", "waits", "estimated", "left", "error", "bias", "bounds", "held")


@click.command(cls=Verb)
@click.option("--since", metavar="TIME", help="Only waits that ended since a time: 2026-01-31T13:00:00Z, or 7d ago.")
@click.option(
    "--sample", type=Whole(1, 10_000), default=200, show_default=True, metavar="N", help="At most so many waits."
)
@in_queue
@listing("csv")
@log_option
@click.pass_obj
def estimate_error(options: Options, since: str | None, sample: int, queue: str | None) -> None:
    """Show how far the estimates of why were off: when a Workload gets quota.

    With quota.mode builtin. For Workloads that waited and got quota, the
    estimate of a moment in their wait is made again, of what was recorded
    until then, and held against what came. The same log gives the same
    figures. The log is folded from its beginning, some 10,000 events a second.

    LEFT is how long was still to be waited, ERROR by how much the estimate was
    off, early or late, and BIAS by how much quota came later than estimated
    (-: earlier), all medians. HELD is the share that got quota by the bound
    of 9 of 10.

    \b
    With -o json, yaml or csv, a list of objects, the last one of all queues:
      queue ("" of all), waits, estimated, left, error, bias (seconds, or
      null), bounds (how many had one), held (share of these, or null)
    """
    from controlplane.audit.estimate_error import measured

    begin, _ = times.interval(since, None)
    with open_reader(options) as reader:
        found = measured(reader, engine_settings_in_force(options, reader), begin, queue, sample)
        near = nearest_places(reader, None, queue) if not found and queue is not None else ""
        empty = is_empty(reader) if not found else ""
    emit(options.output, [_plain(one) for one in found], COLUMNS, [_row(one) for one in found])
    if not found:
        aside(f"Nothing waited: {empty}." if empty else f"No wait of that has ended.{near}")


def _plain(one: Figures) -> dict[str, Any]:
    """Return figures as JSON has them."""
    import msgspec

    return msgspec.structs.asdict(one)


def _row(one: Figures) -> tuple[object, ...]:
    held = "" if one.held is None else f"{one.held:.0%}"
    figures = (_span(one.left), _span(one.error), _span(one.bias))
    return one.queue or "all", one.waits, one.estimated, *figures, one.bounds, held


def _span(seconds: float | None) -> str:
    from controlplane.audit.shown import span

    if seconds is None:
        return ""
    sign = "-" if seconds < 0 else ""
    return f"{sign}{span(timedelta(seconds=abs(seconds)))}"
