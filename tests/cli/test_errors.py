"""Each exception that a verb may let go becomes one sentence and the documented exit code."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psycopg
import pytest
from psycopg import errors as pg
from sqlalchemy.exc import OperationalError

from controlplane.__main__ import run
from controlplane.cli import errors, version
from controlplane.cli.errors import CommandFailure, Exit, explain, report
from controlplane.clusters.protocol import ApiError, Unreachable
from controlplane.local.postgres import EmbeddedError
from controlplane.log.event import LogUnavailable
from controlplane.log.schema import SchemaError
from controlplane.settings import SettingsError
from controlplane.web import ListenError
from tests.cli.processes import PROGRAM, environment
from tests.support.rows import each


def lost(text: str) -> psycopg.OperationalError:
    return psycopg.OperationalError(text)


def unavailable(cause: psycopg.Error) -> Exception:
    """What a log raises of an error of its connection."""
    try:
        try:
            raise cause
        except psycopg.Error:
            raise LogUnavailable("the database refuses") from None
    except LogUnavailable as error:
        return error


@each(
    ("error", "code", "part"),
    [
        (CommandFailure("no workload ns/x", Exit.NOT_FOUND), 5, "no workload ns/x"),
        (CommandFailure("it did not work"), 1, "it did not work"),
        (SettingsError(["a: b."]), 3, "a: b."),
        (SettingsError(["a: b.", "c: d."]), 3, "the settings cannot be used:\n  a: b.\n  c: d."),
        (SchemaError("run `controlplane db upgrade`"), 4, "run `controlplane db upgrade`"),
        (EmbeddedError("in use"), 4, "in use"),
        (ListenError("in use"), 7, "in use"),
        (Unreachable("connection refused"), 6, "the cluster does not answer: connection refused"),
        (ApiError(403, "Forbidden", "no"), 1, "403 Forbidden: no"),
        (lost("connection failed\nmore"), 4, "the database cannot be used: connection failed; check database.url"),
        (lost('bad "postgresql://u:hunter2@h/d"'), 4, "postgresql://u:***@h/d"),
        (OperationalError("SELECT 1", {}, lost("server closed")), 4, "server closed"),
        (pg.UndefinedTable('relation "events" does not exist'), 4, "run `controlplane db upgrade`"),
        (pg.InsufficientPrivilege("permission denied for table events"), 4, "the role needs that right"),
        (unavailable(pg.InsufficientPrivilege("permission denied for schema a")), 4, "a; the role needs that right"),
        (unavailable(pg.UndefinedTable('relation "a" does not exist')), 4, "run `controlplane db upgrade`"),
        (unavailable(lost("connection refused")), 4, "connection refused; check database.url and that the server runs"),
        (LogUnavailable("the database does not answer: it is late"), 4, "the database does not answer: it is late"),
        (
            pg.ReadOnlySqlTransaction("cannot execute UPDATE in a read-only transaction"),
            4,
            (
                "the database takes no writes: cannot execute UPDATE in a read-only transaction; database.url has to "
                "name the primary, and default_transaction_read_only must be off"
            ),
        ),
        (
            pg.QueryCanceled("canceling statement due to statement timeout"),
            4,
            "timeout; ask for less, such as one namespace",
        ),
        (pg.DiskFull("could not extend file"), 4, "could not extend file; make room on the disk of the server"),
        (pg.TooManyConnections("sorry, too many clients already"), 4, "already; close other connections, or raise"),
        (unavailable(pg.DiskFull("could not extend file")), 4, "make room on the disk"),
        (pg.UniqueViolation("duplicate key"), 4, "the database refused a statement: duplicate key"),
        (FileNotFoundError(2, "No such file or directory", "/x/y"), 1, "/x/y: No such file or directory"),
        (pg.ProgrammingError('invalid URI query parameter: "x"'), 4, "database.url cannot be used: invalid URI query"),
        (RuntimeError("Could not determine home directory."), 3, "begins with ~, and there is no home directory"),
        (KeyError("x"), 1, "unexpected KeyError: 'x' (CONTROLPLANE_DEBUG=1 shows where)"),
        (RuntimeError(), 1, "unexpected RuntimeError (CONTROLPLANE_DEBUG=1 shows where)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_a_sentence_and_a_code(error: Exception, code: int, part: str) -> None:
    sentence, got = explain(error)
    assert got == code
    assert part in sentence
    assert "hunter2" not in sentence


def test_a_traceback_only_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    def failing() -> int:
        try:
            raise KeyError("x")
        except KeyError as error:
            return report(error, env)

    env: dict[str, str] = {}
    assert failing() == 1
    assert "Traceback" not in capsys.readouterr().err
    env["CONTROLPLANE_DEBUG"] = "1"
    assert failing() == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_is_told_apart(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(version, "line", interrupted)
    assert run(["version"]) == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_a_verb_may_return_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version.version, "callback", lambda: 5)
    assert run(["version"]) == 5


def test_every_code_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    told = capsys.readouterr().out.partition("Exit codes:")[2].split()
    assert {str(int(code)) for code in errors.Exit} <= set(told)


@pytest.mark.parametrize(
    ("env", "coloured"),
    [
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm"}, True),
    ],
)
def test_colours_are_left_out_where_nobody_wants_them(
    env: dict[str, str], coloured: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.utils.should_strip_ansi", lambda _stream, color: color is False)
    assert report(CommandFailure("no"), env) == Exit.FAILED
    assert ("\x1b[" in capsys.readouterr().err) == coloured


@pytest.mark.parametrize("arguments", [["version"], ["--help"], ["config", "show"]], ids=" ".join)
def test_output_that_has_no_room_or_is_closed(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*PROGRAM, *arguments], env=environment(), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode == 1
    assert ended.stderr.startswith("Error: there is no room for what is written (No space left on device): make some")
    closed = subprocess.run(["sh", "-c", '"$@" >&- 2>&-', "sh", *PROGRAM, *arguments], env=environment(), check=False)
    assert closed.returncode == 0
