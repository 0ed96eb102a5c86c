"""What can go wrong, as one sentence and an exit code.

In: an exception. Out: the sentence on stderr, which says which thing and what to do, and the code that scripts can rely
on. Nothing is imported here to recognise an exception: a class whose module was never loaded cannot have been raised.
"""

from __future__ import annotations

import enum
import errno
import os
import sys
import traceback
from collections.abc import Callable, Mapping

import click

Sentence = tuple[str, int]


class Exit(enum.IntEnum):
    """The exit codes of the program; an interface, so numbers are never given a new meaning."""

    OK = 0
    FAILED = 1
    USAGE = 2
    CONFIGURATION = 3
    DATABASE = 4
    NOT_FOUND = 5
    CLUSTER = 6
    LISTEN = 7
    INTERRUPTED = 130


class CommandFailure(Exception):  # noqa: N818 - what the user sees is a failure, not an error of ours
    """An expected end of a verb: one sentence that says which thing failed and what to do, and the exit code."""

    def __init__(self, sentence: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(sentence)
        self.code = code


def report(error: BaseException, env: Mapping[str, str] = os.environ) -> int:
    """Say on stderr what went wrong and return the exit code."""
    if isinstance(error, BrokenPipeError):
        return _quietly()
    if isinstance(error, KeyboardInterrupt | click.Abort):
        click.echo("Interrupted.", err=True)
        return Exit.INTERRUPTED
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if env.get("CONTROLPLANE_DEBUG") == "1":
        traceback.print_exception(error)
    from controlplane.cli.output import visible

    sentence, code = explain(error)
    click.secho("Error: ", fg="red", bold=True, nl=False, err=True, color=None if coloured(env) else False)
    click.echo("\n".join(map(visible, sentence.split("\n"))), err=True)  # it may have names of clusters, or of a file
    return code


def coloured(env: Mapping[str, str]) -> bool:
    """Whether a terminal may be given colours: not where `NO_COLOR` is set (https://no-color.org), nor where it has
    none."""
    return not env.get("NO_COLOR") and env.get("TERM") != "dumb"


def explain(error: BaseException) -> Sentence:
    """Return the sentence and the exit code of an exception; one that nobody expected is named as such."""
    if isinstance(error, CommandFailure):
        return str(error), error.code
    for module, name, say in _KNOWN:
        known = getattr(sys.modules.get(module), name, None)
        if known is not None and isinstance(error, known):
            return say(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}", Exit.FAILED
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"there is no room for what is written ({error.strerror}): make some, or write it elsewhere", Exit.FAILED
    if isinstance(error, RuntimeError) and str(error) == "Could not determine home directory.":  # of `expanduser`
        return "the path of a file begins with ~, and there is no home directory: write it out", Exit.CONFIGURATION
    message = f": {_first_line(error)}" if str(error) else ""
    return f"unexpected {type(error).__name__}{message} (CONTROLPLANE_DEBUG=1 shows where)", Exit.FAILED


def _as(code: Exit) -> Callable[[BaseException], Sentence]:
    return lambda error: (str(error), code)


def _settings(error: BaseException) -> Sentence:
    problems = str(error).splitlines()
    if len(problems) == 1:
        return problems[0], Exit.CONFIGURATION
    return "\n  ".join(["the settings cannot be used:", *problems]), Exit.CONFIGURATION


def _database(error: BaseException) -> Sentence:
    found = getattr(error, "orig", None) or error
    state = getattr(found, "sqlstate", None) or ""
    said = _first_line(found)
    if state in {"42P01", "3F000", "42703", "42883"}:  # no such table, schema, column, function
        return (
            f"the database's schema is not the one this version needs ({said}): run `controlplane db upgrade`",
            Exit.DATABASE,
        )
    if state == "25006":  # read_only_sql_transaction
        return (
            (
                f"the database takes no writes: {said}; database.url has to name the primary, and"
                " default_transaction_read_only must be off"
            ),
            Exit.DATABASE,
        )
    if state == "42501":
        return f"the database refuses: {said}; the role needs that right, or database.role names another", Exit.DATABASE
    if (todo := _LIMITS.get(state)) is not None:
        return f"the database refuses: {said}; {todo}", Exit.DATABASE
    if type(found).__name__ in {"OperationalError", "PoolTimeout", "InterfaceError"} or state[:2] in {
        "08",
        "28",
        "3D",
        "57",
    }:
        return f"the database cannot be used: {said}; check database.url and that the server runs", Exit.DATABASE
    if type(found).__name__ == "ProgrammingError" and not state:  # of libpq, before anything was asked
        return f"database.url cannot be used: {said}", Exit.DATABASE
    return f"the database refused a statement: {said}", Exit.DATABASE


_LIMITS = {
    "57014": "ask for less, such as one namespace or a shorter time, or raise statement_timeout of its role",
    "53100": "make room on the disk of the server",
    "53200": "give the server more memory, or ask for less",
    "53300": "close other connections, or raise max_connections of the server",
}
"""By SQLSTATE what to do about a limit of the server: of time, disk, memory and connections."""


def _unavailable(error: BaseException) -> Sentence:
    """Say what the connection of a log had to say, where it is known."""
    cause = error.__context__
    return _database(cause) if type(cause).__module__.startswith("psycopg") and cause else (str(error), Exit.DATABASE)


def _cluster(error: BaseException) -> Sentence:
    return f"the cluster does not answer: {_first_line(error)}", Exit.CLUSTER


def _moved_on(error: BaseException) -> Sentence:
    return f"the log moved on meanwhile, and nothing was recorded ({_first_line(error)}): try again", Exit.FAILED


_KNOWN: tuple[tuple[str, str, Callable[[BaseException], Sentence]], ...] = (
    ("controlplane.settings.load", "SettingsError", _settings),
    ("controlplane.log.schema", "SchemaError", _as(Exit.DATABASE)),
    ("controlplane.log.retention", "PurgeError", _as(Exit.DATABASE)),
    ("controlplane.log.event", "LogUnavailable", _unavailable),
    ("controlplane.log.event", "LogGap", _as(Exit.DATABASE)),
    ("controlplane.log.event", "LogError", _moved_on),
    ("controlplane.app.operate", "NoSuchCluster", _as(Exit.NOT_FOUND)),
    ("controlplane.app.operate", "NotAllowed", _as(Exit.FAILED)),
    ("controlplane.runtime.bound", "WrongCluster", _as(Exit.CLUSTER)),
    ("controlplane.local.postgres.errors", "EmbeddedError", _as(Exit.DATABASE)),
    ("controlplane.web.ops", "ListenError", _as(Exit.LISTEN)),
    ("controlplane.clusters.protocol", "Unreachable", _cluster),
    ("controlplane.clusters.protocol", "ClusterError", _as(Exit.FAILED)),
    ("psycopg", "Error", _database),
    ("sqlalchemy.exc", "DBAPIError", _database),
)


def _first_line(error: BaseException) -> str:
    from controlplane.settings.secret import mask_urls

    lines = str(error).strip().splitlines()
    return mask_urls(lines[0]) if lines else type(error).__name__


def _quietly() -> int:
    """Whoever read our output has gone (`| head`): that is no failure, and the interpreter must not complain at its
    exit.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit.OK
