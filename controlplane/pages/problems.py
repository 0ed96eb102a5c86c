"""What can go wrong with a page, as a status and one sentence.

In: an exception of a view, of the access rules or of the database. Out: a `Trouble`. What
goes over by itself says so, and the page asks again."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

import psycopg

from controlplane.kube.durations import show
from controlplane.log.connect import first_line
from controlplane.pages.access import Unasked, Unauthenticated
from controlplane.pages.asking import Archived, BadQuestion, NotFound
from controlplane.pages.readers import Busy

_SCHEMA = {"42P01", "3F000", "42703", "42883"}  # no such table, schema, column, function


class Trouble(NamedTuple):
    """Why there is no answer. `passes`: it is asked again by itself."""

    status: int
    title: str
    sentence: str
    near: tuple[str, ...] = ()
    passes: bool = False


EXPECTED: tuple[type[Exception], ...] = (NotFound, Archived, BadQuestion, Unauthenticated, Unasked, Busy, psycopg.Error)
"""What may go wrong."""


def trouble(error: Exception, patience: timedelta) -> Trouble:
    """Return what went wrong, of what may."""
    if isinstance(error, NotFound):
        return Trouble(404, "Not found", _sentence(str(error)), tuple(error.near))
    if isinstance(error, Archived):
        return Trouble(410, "In an archive", _sentence(str(error)))
    if isinstance(error, BadQuestion):
        return Trouble(400, "That cannot be asked", _sentence(str(error)))
    if isinstance(error, Unauthenticated):
        return Trouble(401, "Who are you?", _sentence(str(error)))
    if isinstance(error, (Unasked, Busy)):
        return Trouble(503, "Not now", _sentence(str(error)), passes=True)
    if isinstance(error, psycopg.errors.QueryCanceled):
        more = (
            f"this is more than the database reads in {show(patience)} (web.patience): ask for less, such as one "
            "namespace"
        )
        return Trouble(503, "Too much at once", _sentence(more))
    if isinstance(error, psycopg.Error) and error.sqlstate in _SCHEMA:
        said = (
            f"the database's schema is not the one this version reads ({first_line(error)}): run `controlplane db "
            "upgrade`"
        )
        return Trouble(503, "Another schema", _sentence(said), passes=True)
    assert isinstance(error, psycopg.Error)
    return Trouble(503, "The database is away", _sentence(f"it cannot be read: {first_line(error)}"), passes=True)


def _sentence(text: str) -> str:
    text = f"{text[0].upper()}{text[1:]}"
    return text if text.endswith((".", "?")) else f"{text}."
