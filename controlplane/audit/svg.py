"""Lanes as one picture: SVG that a browser shows by itself, light or dark as the reader has it.

In: a title, lanes, the time up to which the log goes. Out: well-formed XML without scripts, styles from elsewhere or
links. All text comes from clusters and is escaped; what XML 1.0 cannot hold is shown as U+FFFD. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from xml.sax.saxutils import escape, quoteattr

from controlplane.audit.lanes import WORDS, Bar, Lane
from controlplane.kube.durations import show

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARGIN, _WIDTH, _RIGHT, _TOP, _STEP, _HEIGHT = 12, 900, 60, 64, 30, 20
_LETTER, _HEAD_LETTER = 7.2, 10.0  # pixels: what a letter of a label and of the title takes in a wide font
_NAME = (22, 44)  # letters: the narrowest column of names, and the longest name that is shown whole
_LEAST = 2.0  # pixels: shorter bars could not be pointed at
_TICKS = 6  # at most, so that what they say does not touch
_TICK_SECONDS = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30), *(60 * n for n in (1, 2, 5, 10, 15, 30)),
    *(3600 * n for n in (1, 2, 3, 6, 12)), *(86400 * n for n in (1, 2, 7, 14, 30, 90, 180, 365)),
)  # fmt: skip
_AFTERWARDS = 0.05  # of the time before, for what has ended
MOST = 200
"""How many lanes are drawn."""
_SECOND = timedelta(seconds=1)
# Light and dark, by word: both can be told apart without colours too, since every bar has a title.
_COLOURS = {
    "pending": ("#d0d7de", "#484f58"),
    "offered": ("#b6d4fe", "#1f4b7a"),
    "copied": ("#7fb2f0", "#2f6bb0"),
    "reserved": ("#f2cc60", "#9e6a03"),
    "admitted": ("#a5d6a7", "#2e7d32"),
    "chosen": ("#56b870", "#3fa35a"),
    "running": ("#1a7f37", "#56d364"),
    "lost": ("#cf222e", "#f85149"),
    "back": ("#fb8f44", "#db6d28"),
    "finished": ("#6e7781", "#6e7681"),
    "connected": ("#b4e0be", "#2a5a36"),
    "other": ("#c297ff", "#8957e5"),
}
_STYLE = (
    "svg.lanes{{font:12px system-ui,sans-serif}}.lanes .paper{{fill:{paper}}}.lanes text{{fill:{ink}}}"
    ".lanes .head{{font-size:15px;font-weight:600}}"
    ".lanes .soft{{fill:{soft}}}.lanes .line{{stroke:{line};stroke-width:1}}"
)


def picture(
    title: str, lanes: Sequence[Lane], end: datetime, *, link: Callable[[int], str] | None = None, inline: bool = False
) -> str:
    """Return the SVG of some lanes; what lasts is drawn up to `end`. `link` makes of a position where its bar leads to;
    `inline` is for a page that has `stylesheet` itself.
    """
    drawn = lanes[:MOST]
    first, last = _span([bar for lane in drawn for bar in lane.bars], end)
    left_out = f"and {len(lanes) - MOST} more, which began later" if len(lanes) > MOST else ""
    height = _TOP + _STEP * (len(drawn) + (1 if left_out else 0)) + 34
    left = _names_end(drawn)
    width = left + _WIDTH + _RIGHT
    shown = _shortened(title, int((width - 2 * _MARGIN) / _HEAD_LETTER))
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    role = "img" if link is None else "group"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="{role}" class="lanes" aria-label={_attribute(title)}>',
        f"<title>{_text(title)}</title>",
        *([] if inline else [f"<style>{stylesheet()}</style>"]),
        # Not as a style of the whole, which not every reader honours: then dark would be light letters on white.
        f'<rect width="{width}" height="{height}" class="paper"/>',
        _label(_MARGIN, 22, shown, "head"),
        *_legend({bar.word for lane in drawn for bar in lane.bars}),
        *_axis(first, last, left, height),
        *(
            part
            for row, lane in enumerate(drawn)
            for part in _lane(lane, _TOP + row * _STEP, left, (first, last), link)
        ),
        *([_label(_MARGIN, _TOP + len(drawn) * _STEP + 15, left_out, "soft")] if left_out else []),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _span(bars: Sequence[Bar], end: datetime) -> tuple[datetime, datetime]:
    """Return when the picture begins and ends. What has finished stays so for ever: it alone does not stretch it."""
    if not bars:
        return end - _SECOND, end
    first = min(bar.since for bar in bars)
    if any(bar.until is None and bar.word != "finished" for bar in bars):
        return first, max(end, first + _SECOND)
    last = max(bar.until or bar.since for bar in bars)
    return first, last + max((last - first) * _AFTERWARDS, _SECOND)


def stylesheet() -> str:
    """Return the colours of what is drawn, light and dark."""
    light = _STYLE.format(paper="#ffffff", ink="#1f2328", soft="#59636e", line="#d1d9e0")
    dark = _STYLE.format(paper="#0d1117", ink="#e6edf3", soft="#9198a1", line="#3d444d")
    shades = [" ".join(f".lanes .{word}{{fill:{_COLOURS[word][index]}}}" for word in WORDS) for index in (0, 1)]
    return f"{light}{shades[0]}@media (prefers-color-scheme:dark){{{dark}{shades[1]}}}"


def _text(text: str) -> str:
    return escape(_ILLEGAL.sub("\ufffd", text))


def _attribute(text: str) -> str:
    return quoteattr(_ILLEGAL.sub("\ufffd", text))


def _label(x: float, y: float, text: str, kind: str = "") -> str:
    of_kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{of_kind}>{_text(text)}</text>'


def _legend(words: set[str]) -> Iterator[str]:
    """Yield a sample of each word that is drawn, in the order of a Workload's way."""
    for number, word in enumerate(word for word in WORDS if word in words):
        x = _MARGIN + number * 92
        yield f'<rect x="{x}" y="32" width="12" height="12" rx="2" class="{word}"/>'
        yield _label(x + 17, 42, word)


def _axis(first: datetime, last: datetime, left: float, height: int) -> Iterator[str]:
    """Yield lines at round times, what each says, and below the names what all have in common: the day or year, and
    that it is UTC.
    """
    step = _tick(last - first)
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    at = midnight + -((midnight - first) // step) * step
    form, common = _stamps(first, last, step)
    yield _label(_MARGIN, height - 10, f"{first:{common}}", "soft")
    while at <= last:
        x = _x(at, left, (first, last))
        yield f'<line x1="{x:.1f}" y1="{_TOP - 8}" x2="{x:.1f}" y2="{height - 26}" class="line"/>'
        stamp = f"{at:{form}}"[:-5] if form.endswith("%f") else f"{at:{form}}"
        yield f'<text x="{x:.1f}" y="{height - 10}" text-anchor="middle" class="soft">{stamp}</text>'
        at += step


def _tick(span: timedelta) -> timedelta:
    """Return the smallest round time of which a span holds no more than can be told apart."""
    wanted = span.total_seconds() / _TICKS
    years = -(-wanted // _TICK_SECONDS[-1]) * _TICK_SECONDS[-1]
    return timedelta(seconds=next((each for each in _TICK_SECONDS if each >= wanted), years))


def _stamps(first: datetime, last: datetime, step: timedelta) -> tuple[str, str]:
    """Return how the time of a line is written, and what is said once of all."""
    clock = "%H:%M" if step >= 60 * _SECOND else "%H:%M:%S" if step >= _SECOND else "%H:%M:%S.%f"
    if first.date() == last.date():
        return clock, "%Y-%m-%d, UTC"
    if first.year != last.year:
        return ("%Y-%m-%d" if step >= timedelta(days=1) else f"%Y-%m-%d {clock}"), "UTC"
    return ("%m-%d" if step >= timedelta(days=1) else f"%m-%d {clock}"), "%Y, UTC"


def _x(at: datetime, left: float, span: tuple[datetime, datetime]) -> float:
    first, last = span
    return left + _WIDTH * ((at - first) / (last - first))


def _name(lane: Lane) -> str:
    return lane.name.removeprefix("@")


def _names_end(lanes: Sequence[Lane]) -> float:
    """Return where the column of names ends, by the longest of those that are shown."""
    least, most = _NAME
    longest = max((min(len(_name(lane)), most) for lane in lanes), default=least)
    return round(2 * _MARGIN + max(longest, least) * _LETTER)


def _shortened(text: str, most: int) -> str:
    """Return a text of so many letters at most: beginnings are often alike, so the end is kept too."""
    if len(text) <= most:
        return text
    end = most // 3
    return f"{text[: most - end - 1]}…{text[-end:]}"


def _lane(
    lane: Lane, y: float, left: float, span: tuple[datetime, datetime], link: Callable[[int], str] | None
) -> Iterator[str]:
    name, last = _name(lane), span[1]
    yield f"<g><title>{_text(name)}</title>{_label(_MARGIN, y + 15, _shortened(name, _NAME[1]))}</g>"
    for bar in lane.bars:
        begin = _x(bar.since, left, span)
        wide = max(_x(bar.until or last, left, span) - begin, _LEAST)
        said = _said(name, bar, last)
        drawn = (
            f'<rect x="{begin:.1f}" y="{y}" width="{wide:.1f}" height="{_HEIGHT}" rx="2" class="{bar.word}">'
            f"<title>{_text(said)}</title></rect>"
        )
        to = "" if link is None else f"<a href={_attribute(link(bar.position))} aria-label={_attribute(said)}>"
        yield f"{to}{drawn}</a>" if to else drawn


def _said(name: str, bar: Bar, last: datetime) -> str:
    """Return what a bar says when it is pointed at."""
    until = f"until {bar.until:%Y-%m-%d %H:%M:%S}" if bar.until is not None else "still"
    lasted = show(((bar.until or last) - bar.since) // _SECOND * _SECOND)
    since = f"{bar.since:%Y-%m-%d %H:%M:%S}"
    return f"{name}: {bar.word} from {since} UTC, {until} ({lasted})\n{bar.text}\nposition {bar.position}"
