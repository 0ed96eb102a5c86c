"""What the documentation shows is run, or at least parsed by whoever would run it."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Callable

import click
import duckdb
import psycopg
import pytest
import yaml

from controlplane.cli import cli
from tests.deploy import chart_files
from tests.docs.snippets import ROOT, Snippet, commands, snippets
from tests.support.rows import Test, each

EXPECT = re.compile(r"^-- expect: (?P<error>.+)$", re.MULTILINE)


def on_each(language: str) -> Callable[[Test], Test]:
    return each("snippet", snippets(language), ids=str)


@on_each("yaml")
def test_yaml_is_yaml(snippet: Snippet) -> None:
    documents = list(yaml.safe_load_all(snippet.text))
    assert documents
    assert all(isinstance(document, dict) for document in documents)


@on_each("python")
def test_python_runs(snippet: Snippet) -> None:
    exec(compile(snippet.text, str(snippet), "exec"), {"__name__": "snippet"})


@on_each("sql")
def test_sql_runs(snippet: Snippet, database_url: str) -> None:
    """In one transaction that is rolled back. `-- expect: text` says that it fails, and how."""
    expected = EXPECT.search(snippet.text)
    with psycopg.connect(database_url) as connection:
        if expected:
            with pytest.raises(psycopg.Error, match=expected["error"]):
                connection.execute(snippet.text.encode())
        else:
            connection.execute(snippet.text.encode())
        connection.rollback()


def controlplane(arguments: list[str]) -> None:
    """Let the real command line parse the arguments, verb by verb, without carrying anything out."""
    command: click.Command = cli
    context = command.make_context("controlplane", list(arguments))
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        if not rest and command.invoke_without_command:
            return
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command = found
        context = command.make_context(name, rest, parent=context)


def make(arguments: list[str]) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {word for word in arguments if "=" not in word} <= targets


def kubectl(arguments: list[str]) -> None:
    """The verbs are kubectl's own business; the files and folders named are ours."""
    for option, value in itertools.pairwise(arguments):
        if option in ("-k", "-f") and value != "-":
            assert (ROOT / value).exists(), value


def psql(arguments: list[str]) -> None:
    for option, value in itertools.pairwise(arguments):
        if option == "-f":
            assert (ROOT / value).is_file(), value


def helm(arguments: list[str]) -> None:
    """The verbs are Helm's own business; the chart, and the values that are set, are ours."""
    values = chart_files.value_names()
    if arguments[0] in ("install", "upgrade") or arguments[2:3] == ["install"]:
        assert "deploy/chart" in arguments
    for option, value in itertools.pairwise(arguments):
        if option == "--set":
            assert value.partition("=")[0] in values | {"settings.multikueue.kind"}, (
                value
            )  # which is shown to be refused


def docker(arguments: list[str]) -> None:
    assert arguments[:1] in (["build"], ["compose"], ["run"])


def pip(arguments: list[str]) -> None:
    """An extra that is named is one of ours."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for word in arguments:
        if named := re.fullmatch(r"controlplane\[(\w+)\]", word):
            assert named[1] in extras, word


def in_duckdb(arguments: list[str]) -> None:
    """The statement is one that DuckDB understands."""
    assert duckdb.extract_statements(arguments[arguments.index("-c") + 1])


def loop(arguments: list[str]) -> None:
    """`for NAME in WORD…; do COMMAND; done`: the command is one of those that are understood."""
    begin = arguments.index("do")
    program, *inner = (word.removesuffix(";") for word in arguments[begin + 1 : -1])
    assert (arguments[1], arguments[begin - 1][-1], arguments[-2][-1], arguments[-1]) == ("in", ";", ";", "done")
    PROGRAMS[program](inner)


def nothing(arguments: list[str]) -> None:
    """Something that every shell has."""


PROGRAMS: dict[str, Callable[[list[str]], None]] = {
    "controlplane": controlplane,
    ".venv/bin/controlplane": controlplane,
    "make": make,
    "kubectl": kubectl,
    "psql": psql,
    "docker": docker,
    "helm": helm,
    "pip": pip,
    "duckdb": in_duckdb,
    "for": loop,
    "cd": nothing,
    "git": nothing,
    "openssl": nothing,
    "rm": nothing,
    "export": nothing,
    "curl": nothing,
}


@on_each("console")
def test_commands_are_understood(snippet: Snippet) -> None:
    found = list(commands(snippet))
    assert found, "a console block shows at least one command, after `$ `"
    for program, *arguments in found:
        if "/" in program and program not in PROGRAMS:
            assert (ROOT / program).is_file(), program
        else:
            PROGRAMS[program](arguments)
