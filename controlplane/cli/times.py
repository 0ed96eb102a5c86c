"""The times that people type for an option, as `controlplane.audit.times` reads them.

In: text. Out: a time with a zone. What cannot be read is a `CommandFailure` (exit code 2)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click

from controlplane.audit import times
from controlplane.audit.times import EXPECTED
from controlplane.cli.errors import CommandFailure, Exit
from controlplane.clock import SystemClock

__all__ = ["EXPECTED", "interval", "interval_options", "moment"]

Verb = TypeVar("Verb", bound=Callable[..., Any])


def moment(text: str, option: str, now: datetime | None = None) -> datetime:
    """Return the time that was typed for an option; `now` is what durations are counted back from."""
    try:
        return times.moment(text, now or SystemClock().now())
    except ValueError as error:
        raise CommandFailure(f"{option}: {error}", Exit.USAGE) from None


def interval_options(since: str, until: str) -> Callable[[Verb], Verb]:
    """Give a verb `--since` and `--until`, which `interval` reads."""

    def give(verb: Verb) -> Verb:
        end = click.option("--until", metavar="TIME", help=f"{until}.")
        return click.option("--since", metavar="TIME", help=f"{since}: 2026-01-31T13:00:00Z, or 6h ago.")(end(verb))

    return give


def interval(since: str | None, until: str | None) -> tuple[datetime | None, datetime | None]:
    """Return the ends of `--since` and `--until`, None for one that is not given; `CommandFailure` if nothing is
    between them."""
    now = SystemClock().now()
    begin = moment(since, "--since", now) if since is not None else None
    end = moment(until, "--until", now) if until is not None else None
    if begin is not None and end is not None and begin >= end:
        raise CommandFailure(f'nothing is between --since "{since}" and --until "{until}"', Exit.USAGE)
    return begin, end
