"""Lanes as one picture: SVG that a browser shows by itself, light or dark as the reader has it.

In: a title, lanes, the time up to which the log goes. Out: well-formed XML without scripts, styles from elsewhere or
links. All text comes from clusters and is escaped; what XML 1.0 cannot hold is shown as U+FFFD. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from xml.sax.saxutils import escape, quoteattr

from controlplane.audit.lanes import WORDS, Bar, Lane
from controlplane.kube.durations import show

_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LEFT, _WIDTH, _RIGHT, _TOP, _STEP, _HEIGHT = 190, 900, 20, 64, 30, 20
_LEAST = 2.0  # pixels: shorter bars could not be pointed at
_TICKS = 5
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
    "finished": ("#6e7781", "#b1bac4"),
    "connected": ("#b4e0be", "#2a5a36"),
    "other": ("#c297ff", "#8957e5"),
}
_STYLE = (
    "svg{{background:{paper};font:12px system-ui,sans-serif}}text{{fill:{ink}}}.head{{font-size:15px;font-weight:600}}"
    ".soft{{fill:{soft}}}.line{{stroke:{line};stroke-width:1}}"
)


def picture(title: str, lanes: Sequence[Lane], end: datetime) -> str:
    """Return the SVG of some lanes; what lasts is drawn up to `end`."""
    drawn = lanes[:MOST]
    first, last = _span([bar for lane in drawn for bar in lane.bars], end)
    left_out = f"and {len(lanes) - MOST} more, which began later" if len(lanes) > MOST else ""
    height = _TOP + _STEP * (len(drawn) + (1 if left_out else 0)) + 34
    width = _LEFT + _WIDTH + _RIGHT
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={_attribute(title)}>',
        f"<title>{_text(title)}</title>",
        f"<style>{_styles()}</style>",
        _label(12, 22, title, "head"),
        *_legend({bar.word for lane in drawn for bar in lane.bars}),
        *_axis(first, last, height),
        *(part for row, lane in enumerate(drawn) for part in _lane(lane, _TOP + row * _STEP, first, last)),
        *([_label(12, _TOP + len(drawn) * _STEP + 15, left_out, "soft")] if left_out else []),
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


def _styles() -> str:
    light = _STYLE.format(paper="#ffffff", ink="#1f2328", soft="#59636e", line="#d1d9e0")
    dark = _STYLE.format(paper="#0d1117", ink="#e6edf3", soft="#9198a1", line="#3d444d")
    shades = [" ".join(f".{word}{{fill:{_COLOURS[word][index]}}}" for word in WORDS) for index in (0, 1)]
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
        x = 12 + number * 92
        yield f'<rect x="{x}" y="32" width="12" height="12" rx="2" class="{word}"/>'
        yield _label(x + 17, 42, word)


def _axis(first: datetime, last: datetime, height: int) -> Iterator[str]:
    for number in range(_TICKS + 1):
        at = first + (last - first) * number / _TICKS
        x = _x(at, first, last)
        yield f'<line x1="{x:.1f}" y1="{_TOP - 8}" x2="{x:.1f}" y2="{height - 26}" class="line"/>'
        anchor = "end" if number == _TICKS else "middle" if number else "start"
        stamp = f"{at:%m-%d %H:%M:%S}"
        yield f'<text x="{x:.1f}" y="{height - 10}" text-anchor="{anchor}" class="soft">{stamp}</text>'


def _x(at: datetime, first: datetime, last: datetime) -> float:
    return _LEFT + _WIDTH * ((at - first) / (last - first))


def _lane(lane: Lane, y: float, first: datetime, last: datetime) -> Iterator[str]:
    name = lane.name.removeprefix("@")
    short = name if len(name) <= 28 else f"{name[:27]}…"
    yield f"<g><title>{_text(name)}</title>{_label(12, y + 15, short)}</g>"
    for bar in lane.bars:
        left = _x(bar.since, first, last)
        wide = max(_x(bar.until or last, first, last) - left, _LEAST)
        yield (
            f'<rect x="{left:.1f}" y="{y}" width="{wide:.1f}" height="{_HEIGHT}" rx="2" class="{bar.word}">'
            f"<title>{_text(_said(name, bar, last))}</title></rect>"
        )


def _said(name: str, bar: Bar, last: datetime) -> str:
    """Return what a bar says when it is pointed at."""
    until = f"until {bar.until:%Y-%m-%d %H:%M:%S}" if bar.until is not None else "still"
    lasted = show(((bar.until or last) - bar.since) // _SECOND * _SECOND)
    since = f"{bar.since:%Y-%m-%d %H:%M:%S}"
    return f"{name}: {bar.word} from {since} UTC, {until} ({lasted})\n{bar.text}\nposition {bar.position}"
