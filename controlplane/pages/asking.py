"""What a page is made from: the question as it was asked, and the two ways to its answer, the log and what is followed.

In: the parameters of a request, checked against those that the page has. Out: an `Asked`, which every view takes. What
cannot be answered is a `NotFound`, an `Archived` or a `BadQuestion`, each one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from controlplane.audit import times
from controlplane.audit.archived import archived_time
from controlplane.audit.leading import in_force, with_quota_in_force
from controlplane.audit.reads import LogReader
from controlplane.audit.shown import clock
from controlplane.controllers.multikueue.context import MultiKueuePolicy
from controlplane.controllers.multikueue.hosting import reading_policy
from controlplane.controllers.quota.admission.hosting import engine_settings
from controlplane.controllers.quota.engine.settings import EngineSettings
from controlplane.pages.follower import Follower
from controlplane.pages.past import MOST, Past, unchanged
from controlplane.settings import Settings


class NotFound(Exception):  # noqa: N818
    """There is no such thing, or it is not to be seen by whoever asks; `near` are names that may have been meant."""

    def __init__(self, sentence: str, near: Sequence[str] = ()) -> None:
        super().__init__(sentence)
        self.near = near


class Archived(Exception):  # noqa: N818
    """It has left the log for an archive; the message says for which, and how it comes back."""


class BadQuestion(Exception):  # noqa: N818
    """A parameter cannot be used; the message names it and says what is expected."""


class TooMany(BadQuestion):
    """More Workloads have changed since the time of which it is asked than are read for an answer."""


class Parameter(NamedTuple):
    """A parameter of a page's address. `words`: the only values there are; `number`: it is a whole number up to it."""

    name: str
    text: str
    words: tuple[str, ...] = ()
    number: int = 0
    default: str = ""

    def read(self, value: str) -> str:
        """Return the value; raises `BadQuestion`."""
        if self.words and value not in self.words:
            known = ", ".join(word for word in self.words if word)
            raise BadQuestion(f'{self.name}: "{value}" is none of {known}')
        if self.number and not (
            value.isascii() and value.isdigit() and len(value) < 20 and 1 <= int(value) <= self.number
        ):
            raise BadQuestion(f'{self.name}: "{value}" is no whole number from 1 to {self.number}')
        if "\0" in value or len(value) > 1000:
            raise BadQuestion(f"{self.name}: that is no name")
        return value


@dataclass(frozen=True)
class Asked:
    """One question. `allowed` are the namespaces that whoever asks may see, None for all of them; `at` is the time of
    which it is asked, None for now."""

    reader: LogReader
    follower: Follower
    settings: Settings
    now: datetime
    path: Mapping[str, str]
    given: Mapping[str, str] = field(default_factory=dict)
    allowed: frozenset[str] | None = None
    at: datetime | None = None

    def sees(self, namespace: str | None) -> bool:
        """Whether whoever asks may see what belongs to a namespace; what belongs to none is seen by who sees all."""
        return self.allowed is None or namespace in self.allowed

    @property
    def namespaces(self) -> Sequence[str] | None:
        """The namespaces that an answer may be about: the one that was asked for, else all that may be seen."""
        if asked := self.given.get("namespace"):
            if not self.sees(asked):
                raise NotFound(f"there is no namespace {asked} in the log {self.reader.log}")
            return [asked]
        return None if self.allowed is None else sorted(self.allowed)

    @property
    def moment(self) -> datetime:
        """The time of which it is asked."""
        return self.at or self.now

    def past(self) -> Past:
        """Return the Workloads at the time of which it is asked, but for those that were over and have not changed
        since.

        Raises `TooMany`."""
        follower, until = self.follower, self.reader.until or 0
        past = follower.pasts.at(until)
        with follower.pasts.reading:
            with follower.lock:
                wanted = past.lacks(follower.directory.open_at(self.moment.timestamp(), self.namespaces))
                past.take(unchanged(follower.index, follower.directory, wanted, until))
            wanted = past.lacks(wanted)
            if len(wanted) > MOST:
                raise TooMany(f"at: {len(wanted):,} Workloads have changed since then: ask for one namespace")
            past.read(self.reader, self.policy(), wanted, self.moment)
        return past

    def policy(self) -> MultiKueuePolicy:
        """Return what the service decided by, at the time of which it is asked."""
        return reading_policy(self.settings, in_force(self.reader))

    def engine_settings(self) -> EngineSettings:
        """Return how it was decided about quota then."""
        return engine_settings(with_quota_in_force(self.settings, self.reader))


def go_back(reader: LogReader, text: str, now: datetime) -> datetime:
    """Have a log read as it was at the time that was typed. Raises `BadQuestion`, and `Archived`."""
    try:
        at = times.moment(text, now)
    except ValueError as error:
        raise BadQuestion(f"at: {error}") from None
    if at > (there := reader.clock()):
        raise BadQuestion(f"at: {clock(at)} UTC is to come: it is {clock(there)} UTC by the database")
    if archived := archived_time(reader, at):
        raise Archived(archived)
    if not reader.read_at(at):
        reader.until = None
        raise BadQuestion(f"at: the log {reader.log} has nothing of {clock(at)} UTC: it begins later")
    return at
