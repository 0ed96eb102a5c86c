"""Numbers that are too large, and texts that are none: one sentence and code 2, before anything is asked for."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from controlplane.__main__ import run
from controlplane.cli import cli
from tests.support.rows import each

HUGE = "9" * 20
BYTES = "a\udcff"  # how Python shows a byte that is not UTF-8
NOWHERE = ["--database-url", "postgresql://u@127.0.0.1:1/d"]


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


def flags(numeric: bool) -> list[tuple[tuple[str, ...], str]]:
    """Return every option of every verb that takes a number, or a text."""
    return [
        (path, option.opts[0])
        for path, command in commands(cli)
        for option in command.params
        if isinstance(option, click.Option)
        and not option.is_flag
        and isinstance(option.type, click.types.IntParamType if numeric else click.types.StringParamType)
    ]


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert run(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    (said,) = [line for line in told.err.splitlines() if line.startswith("Error: ")]
    return said


@each(("path", "flag"), flags(numeric=True), ids=str)
def test_a_number_is_bounded(path: tuple[str, ...], flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not in the range" in refused([*path, flag, HUGE], capsys)
    assert "'many' is not a valid whole number." in refused([*path, flag, "many"], capsys)


@each(("path", "flag"), flags(numeric=False), ids=str)
def test_a_text_is_unicode(path: tuple[str, ...], flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not UTF-8" in refused([*path, flag, BYTES], capsys)


@pytest.mark.parametrize("path", [("why",), ("timeline",), ("clusters", "forget")], ids=str)
def test_a_name_is_unicode(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not UTF-8" in refused([*path, f"default/{BYTES}", *NOWHERE], capsys)


@pytest.mark.parametrize("seeds", [f"1..{HUGE}", f"{HUGE}..{HUGE}1", "-1..3", "9" * 5000 + "..1"], ids=len)
def test_seeds_are_bounded(seeds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--seeds" in refused(["simulate", "--seeds", seeds], capsys)
