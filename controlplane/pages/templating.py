"""Pages of answers: templates with what they need to write times, places and addresses.

In: the name of a template and what it shows. Out: HTML. All that comes from a cluster is escaped; nothing is inline
that a strict Content-Security-Policy refuses."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from controlplane.audit import shown
from controlplane.audit.clusters_now import unknown_line
from controlplane.audit.lanes import Lane
from controlplane.audit.past import GROUPS
from controlplane.audit.quota_past import NOT_TRIED
from controlplane.audit.shown import clock, place, span
from controlplane.audit.svg import picture
from controlplane.pages.trends import Stretch
from controlplane.pages.views.workloads import STATES

_SPARK = (120, 24)  # pixels of a small chart
_BAR = 140  # pixels of the longest bar


def environment() -> Environment:
    """Return the templates."""
    made = Environment(
        loader=PackageLoader("controlplane.pages"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    made.filters.update(
        clock=clock,
        place=place,
        ago_of=ago,
        json=_json,
        spark=spark,
        told=told,
        seconds=_seconds,
        hours=_hours,
        count=count,
        figure=figure,
        bar=bar,
        unknown_line=unknown_line,
    )
    made.globals.update(drawn=drawn, states=STATES, groups=tuple(GROUPS), not_tried=NOT_TRIED)
    return made


def ago(at: datetime | None, now: datetime) -> str:
    """Return how long ago something was."""
    return "" if at is None else span(now - at)


def count(number: int) -> str:
    """Return a number as people read it."""
    return f"{number:,}".replace(",", " ")


def figure(value: float | None, unit: str) -> str:
    """Return a figure of a report."""
    return count(int(value)) if unit == "count" and value is not None else shown.figure(value, unit)


def bar(value: float | None, values: Sequence[float | None]) -> Markup:
    """Return a bar as long as a value is beside the largest of some; "" if there is nothing to compare."""
    top = max((one or 0.0 for one in values), default=0.0)
    if value is None or top <= 0:
        return Markup("")
    width = f"{value / top * _BAR:.1f}"
    return Markup(  # noqa: S704 - numbers
        f'<svg class="spark" width="{_BAR}" height="8" viewBox="0 0 {_BAR} 8" aria-hidden="true"><path d="M0 '
        f'0h{width}v8H0z"/></svg>'
    )


def address(path: str, at: str, **parameters: Any) -> str:
    """Return the address of a page with those of its parameters that say anything."""
    given = {name: value for name, value in {**parameters, "at": at}.items() if value not in ("", None)}
    whole = quote(path, safe="/@")
    return f"{whole}?{urlencode(given)}" if given else whole


def drawn(title: str, lanes: Sequence[Lane], end: datetime, at: str) -> Markup:
    """Return the picture of a Workload's way, each bar a link to the event with which it began."""
    text = picture(title, lanes, end, link=lambda position: address(f"/events/{position}", at), inline=True)
    return Markup(text)  # noqa: S704 - `picture` escapes all text


def spark(stretches: Sequence[Stretch], field: str) -> Markup:
    """Return a small chart of a field of stretches of time; "" if there is nothing to show."""
    values = [getattr(one, field) for one in stretches]
    if not any(values):
        return Markup("")
    width, height = _SPARK
    top = max(value or 0 for value in values)
    step = width / len(values)
    wide = f"{max(step - 0.4, 0.8):.1f}"
    bars = "".join(
        f"M{number * step:.1f} {height}v{-value / top * height:.1f}h{wide}V{height}z"
        for number, value in enumerate(values)
        if value
    )
    said = told(stretches, field)
    return Markup(  # noqa: S704 - numbers
        f'<svg class="spark" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img"'
        f' aria-label="{said}"><title>{said}</title><path d="{bars}"/></svg>'
    )


def told(stretches: Sequence[Stretch], field: str) -> str:
    """Return what a small chart of a field shows, in words."""
    values = [getattr(one, field) or 0 for one in stretches]
    if not any(values):
        return "none in 6 h"
    if field != "waited":
        return f"{sum(values)} in 6 h"
    placed = sum(one.placed for one in stretches)
    mean = sum(value * one.placed for value, one in zip(values, stretches, strict=True)) / placed
    return f"{mean:.1f} s on average in 6 h"


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _seconds(value: float) -> str:
    return span(timedelta(seconds=value)) if value else "0 s"


def _hours(value: float, resource: str) -> str:
    in_bytes = resource in ("memory", "ephemeral-storage", "storage") or resource.startswith("hugepages-")
    return f"{value / 2**30:.2f}" if in_bytes else f"{value:.2f}"
