"""What `controlplane whatif -o json` said, read back: a time of the log as it was recorded, played again, and
otherwise.

In: the text of a report. Out: a `Report`, and the figures of it by their names. Raises `ReportError` for what is none.
Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from controlplane.values import Value
from controlplane.whatif.agreement import Placement
from controlplane.whatif.measure import Figures

Unit = Literal["count", "seconds", "hours", "share"]
FIGURES: tuple[tuple[str, Unit, str], ...] = (
    ("Workloads that came", "count", "arrived"),
    ("… that ran", "count", "started"),
    ("… that wait at the end", "count", "waiting"),
    ("Workloads that finished", "count", "finished"),
    ("wait, median", "seconds", "wait_p50"),
    ("wait, 95th percentile", "seconds", "wait_p95"),
    ("wait, longest", "seconds", "wait_max"),
    ("run hours", "hours", "run_hours"),
    ("utilisation", "share", "utilisation"),
    ("moves", "count", "moves"),
    ("lost hours", "hours", "lost_hours"),
    ("preemptions", "count", "preemptions"),
)
"""What is told of a time: how it is called, its unit, and the field of `Figures`."""


class ReportError(ValueError):
    """The text is no report; the message says what is wrong with it."""


class ReportedChoices(Value):
    """How many choices of a kind were recorded, and how many of them were taken again."""

    recorded: int
    agree: int
    share: float
    differ: list[Placement]


class Report(Value):
    """A report. `alternative` is None if nothing was changed, or if the past could not be played again. `queues` says
    of each ClusterQueue how its quota was decided, and `quota` how many of the recorded decisions about it were taken
    again."""

    log: str
    began: datetime = msgspec.field(name="from")
    ended: datetime = msgspec.field(name="to")
    changes: list[str]
    not_simulated: dict[str, int]
    placements: ReportedChoices
    reproduced: bool
    recorded: Figures
    played: Figures
    alternative: Figures | None
    queues: dict[str, str] = {}
    quota: ReportedChoices | None = None

    @property
    def columns(self) -> dict[str, Figures]:
        """The figures by what they are of."""
        found = {"recorded": self.recorded, "played again": self.played}
        return found if self.alternative is None else {**found, "what if": self.alternative}


def read(text: bytes) -> Report:
    """Return a report. Raises `ReportError`."""
    try:
        return msgspec.json.decode(text, type=Report)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ReportError(f"it is not what `controlplane whatif -o json` writes ({error})") from None
