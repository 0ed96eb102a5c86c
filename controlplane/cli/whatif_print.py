"""The answer of `controlplane whatif` as tables for people.

In: the answer, as programs get it. Out: text: how well the past was played again, and the figures side by side."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from controlplane.audit.shown import clock, span
from controlplane.cli.output import line, table

if TYPE_CHECKING:
    from controlplane.whatif.measure import Figures

MOST = 20
"""How many Workloads are listed that were placed otherwise."""


def _time(seconds: float) -> str:
    return span(timedelta(seconds=seconds))


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


ROWS: tuple[tuple[str, Callable[[Figures], Any]], ...] = (
    ("Workloads that came", lambda one: one.arrived),
    ("… that ran", lambda one: one.started),
    ("… that wait at the end", lambda one: one.waiting),
    ("Workloads that finished", lambda one: one.finished),
    ("wait, median", lambda one: _time(one.wait_p50)),
    ("wait, 95th percentile", lambda one: _time(one.wait_p95)),
    ("wait, longest", lambda one: _time(one.wait_max)),
    ("run hours", lambda one: f"{one.run_hours:.2f}"),
    ("utilisation", lambda one: _percent(one.utilisation)),
    ("moves", lambda one: one.moves),
    ("lost hours", lambda one: f"{one.lost_hours:.2f}"),
)


def show(found: dict[str, Any]) -> None:
    """Print an answer."""
    agreed = found["placements"]
    line(f"The log {found['log']} from {clock(found['from'])} to {clock(found['to'])} UTC.")
    line(f"Played again as it was: {agreed['agree']} of {agreed['recorded']} placements agree ({agreed['share']:.1%}).")
    for one in agreed["differ"][:MOST]:
        line(f"  {one.workload}: {_chosen(one.recorded)}, played {_chosen(one.played)}")
    if len(agreed["differ"]) > MOST:
        line(f"  … and {len(agreed['differ']) - MOST} more, which -o json has")
    for why, count in found["not_simulated"].items():
        line(f"Not simulated: {count} (each {why})")
    columns = {"recorded": found["recorded"], "played again": found["played"]}
    if found["alternative"] is not None:
        line(f"What if: {', '.join(found['changes'])}.")
        columns["what if"] = found["alternative"]
    click.echo()
    table(("", *columns), [(name, *map(value, columns.values())) for name, value in ROWS])
    click.echo()
    clusters = sorted({name for one in columns.values() for name in one.clusters})
    table(
        ("cluster", *(f"{what}, {name}" for name in columns for what in ("placed", "utilisation"))),
        [(name, *(cell for one in columns.values() for cell in _cluster(one, name))) for name in clusters],
    )


def _chosen(clusters: list[str]) -> str:
    return " then ".join(clusters) or "nowhere"


def _cluster(figures: Figures, name: str) -> tuple[object, str]:
    found = figures.clusters.get(name)
    return ("", "") if found is None else (found.placed, _percent(found.utilisation))
