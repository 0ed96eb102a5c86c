"""The answer of `controlplane whatif` as tables for people.

In: the answer, as programs get it. Out: text: how well the past was played again, and the figures side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from controlplane.audit.shown import clock, figure
from controlplane.cli.output import line, table

if TYPE_CHECKING:
    from controlplane.whatif.measure import ClusterFigures, Figures, QueueFigures

MOST = 20
"""How many Workloads are listed that were placed otherwise."""


def _show_agreement(agreed: dict[str, Any], what: str) -> None:
    line(f"{what}: {agreed['agree']} of {agreed['recorded']} {_NOUN[what]} agree ({agreed['share']:.1%}).")
    for one in agreed["differ"][:MOST]:
        why = f" ({one.why})" if one.why else ""
        line(f"  {one.workload}: {_chosen(one.recorded)}, played {_chosen(one.played)}{why}")
    if len(agreed["differ"]) > MOST:
        line(f"  … and {len(agreed['differ']) - MOST} more, which -o json has")


_AGAIN, _QUOTA = "Played again as it was", "Quota"
_NOUN = {_AGAIN: "placements", _QUOTA: "decisions of the engine"}


def _show_queues(found: dict[str, Any]) -> None:
    """Say how the quota of which ClusterQueues was decided."""
    for how, text in (
        ("engine", "by the engine"),
        ("capacity", "one capacity and one queue each"),
        ("both", "by both"),
    ):
        names = [name for name, one in found["queues"].items() if one == how]
        if names and set(found["queues"].values()) != {"capacity"}:
            line(f"Quota of {', '.join(names)}: {text}.")


def show(found: dict[str, Any]) -> None:
    """Print an answer."""
    from controlplane.whatif.report import FIGURES

    line(f"The log {found['log']} from {clock(found['from'])} to {clock(found['to'])} UTC.")
    for one in found["bounded"]:
        line(f"{one[0].upper()}{one[1:]}: what is beyond that is not known.")
    _show_agreement(found["placements"], _AGAIN)
    if found["quota"]["recorded"]:
        _show_agreement(found["quota"], _QUOTA)
    _show_queues(found)
    for at in found["settings_changed"]:
        line(
            f"The settings changed at {clock(at)} UTC: what came then is played by those before, unless --from is later."
        )
    for why, count in found["not_simulated"].items():
        line(f"Not simulated: {count} (each {why})")
    columns = {"recorded": found["recorded"], "played again": found["played"]}
    if found["alternative"] is not None:
        line(f"What if: {', '.join(found['changes'])}.")
        columns["what if"] = found["alternative"]
    click.echo()
    rows = [(name, *(figure(getattr(one, field), unit) for one in columns.values())) for name, unit, field in FIGURES]
    table(("", *columns), rows)
    _show_parts(columns, "cluster", ("placed", "utilisation"), "clusters", _cluster)
    _show_parts(columns, "clusterqueue", ("wait (95th)", "preempted"), "queues", _queue)


def _show_parts(
    columns: Mapping[str, Figures],
    head: str,
    whats: Sequence[str],
    field: str,
    cells: Callable[[Any], Sequence[object]],
) -> None:
    """Print what each column says of each cluster, or of each ClusterQueue, if there are any."""
    parts = [getattr(one, field) for one in columns.values()]
    names = sorted({name for one in parts for name in one})
    if not names:
        return
    click.echo()
    rows = [
        (name, *(cell for one in parts for cell in (cells(one[name]) if name in one else ("", "")))) for name in names
    ]
    table((head, *(f"{what}, {name}" for name in columns for what in whats)), rows)


def _chosen(clusters: list[str]) -> str:
    return " then ".join(clusters) or "nowhere"


def _queue(found: QueueFigures) -> tuple[object, object]:
    return figure(found.wait_p95, "seconds"), found.preemptions


def _cluster(found: ClusterFigures) -> tuple[object, object]:
    return found.placed, figure(found.utilisation, "share")
