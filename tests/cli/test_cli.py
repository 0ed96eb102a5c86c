"""The command line as people and scripts meet it: verbs, forms of output, sentences and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import click
import pytest
import yaml

from controlplane.__main__ import run
from controlplane.cli import MEANT, VERBS, cli
from controlplane.cli.frame import CommandGroup, Verb
from controlplane.cli.output import table, visible

HEAVY = {
    "kubernetes_asyncio",
    "sqlalchemy",
    "psycopg",
    "alembic",
    "aiohttp",
    "yaml",
    "rich",
    "structlog",
    "prometheus_client",
}


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("CONTROLPLANE_"):
            monkeypatch.delenv(name)


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys, controlplane.__main__ as m\n"
        "code = m.run(['--help'])\n"
        "print(code, *sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    code, *modules = done.stderr.split()
    assert code == "0"
    assert set(modules) & HEAVY == set()
    for name, entry in VERBS.items():
        assert name in done.stdout
        assert entry.summary.split()[0] in done.stdout
    assert "Exit codes" in done.stdout


@pytest.mark.parametrize("name", VERBS)
def test_each_verb_is_what_the_registry_says(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert isinstance(command, Verb | CommandGroup)
    assert command.name == name
    assert (command.help or "").splitlines()[0] == VERBS[name].summary


def test_an_unknown_verb_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cofig"]) == 2
    assert 'there is no command "cofig": did you mean `controlplane config`?' in capsys.readouterr().err
    assert run(["config", "xyz"]) == 2
    assert "there are check, show." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("get", "`controlplane workloads`"), ("list", "`controlplane workloads`"), ("logs", "kubectl logs"),
        ("status", "`controlplane doctor`"),
        ("delete", "with kubectl"), ("workload", "did you mean `controlplane workloads`?"),
    ],
)  # fmt: skip
def test_a_word_of_kubectl_is_answered_with_what_to_do_here(
    capsys: pytest.CaptureFixture[str], word: str, said: str
) -> None:
    assert run([word, "default/x"]) == 2
    assert said in capsys.readouterr().err


def test_no_word_that_is_answered_is_a_command() -> None:
    assert not MEANT.keys() & VERBS.keys()


def test_wrong_options_are_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version", "-o", "xml"]) == 2
    assert run(["version", "--no-such"]) == 2
    assert run([]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["-o", "json", "version"], ["version", "-o", "json"], ["-o", "yaml", "version", "-o", "json"]]
)
def test_global_options_stand_before_or_after_the_verb(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 0
    assert json.loads(capsys.readouterr().out)["version"] == metadata.version("controlplane")


def test_version_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version"]) == 0
    assert capsys.readouterr().out.startswith(f"controlplane {metadata.version('controlplane')} (Python ")


def test_config_show_says_where_a_value_came_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("multikueue:\n  origin: east\n")
    monkeypatch.setenv("CONTROLPLANE_LOG_LEVEL", "debug")
    assert run(["--config", str(file), "--database-url", "postgresql://u:hunter2@h/d", "config", "show"]) == 0
    out = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert rows["SETTING"] == ["VALUE", "FROM"]
    assert rows["multikueue.origin"] == ["east", f"{file}:2"]
    assert rows["log.level"] == ["debug", "CONTROLPLANE_LOG_LEVEL"]
    assert rows["database.url"] == ["postgresql://u:***@h/d", "--database-url"]
    assert rows["http.port"] == ["8080", "default"]
    assert "hunter2" not in out


def test_config_show_is_a_settings_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show", "-o", "yaml"]) == 0
    written = capsys.readouterr().out
    assert yaml.safe_load(written)["multikueue"]["workerLostTimeout"] == "15m"
    file = tmp_path / "again.yaml"
    file.write_text(written)
    assert run(["config", "show", "-o", "yaml", "--config", str(file)]) == 0
    assert capsys.readouterr().out == written
    assert run(["config", "show", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == yaml.safe_load(written)


def test_config_check_names_every_problem(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "check"]) == 0
    assert capsys.readouterr().out.startswith("The settings can be used: 0 given")
    monkeypatch.setenv("CONTROLPLANE_HTTP_PORT", "x")
    assert run(["config", "check"]) == 3
    assert (
        capsys.readouterr().err == 'Error: CONTROLPLANE_HTTP_PORT: http.port must be a whole number 0…65535, not "x".\n'
    )
    monkeypatch.setenv("CONTROLPLANE_LOG_LEVEL", "x")
    assert run(["config", "check"]) == 3
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_broken_settings_do_not_keep_version_from_working(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTROLPLANE_HTTP_PORT", "x")
    assert run(["version"]) == 0


def test_db_without_a_database(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "check"]) == 3
    assert "no database is set: give --database-url" in capsys.readouterr().err


def test_db_out_of_reach(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "upgrade", "--database-url", "postgresql://u:hunter2@127.0.0.1:1/d"]) == 4
    err = capsys.readouterr().err
    assert err.startswith("Error: cannot reach the database postgresql://u:***@127.0.0.1:1/d")
    assert "hunter2" not in err


def test_db_check_and_upgrade(empty_database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    here = ["--database-url", empty_database_url]
    assert run(["db", "check", *here]) == 4
    assert "run `controlplane db upgrade`" in capsys.readouterr().err
    assert run(["db", "upgrade", *here]) == 0
    assert capsys.readouterr().out.startswith("The schema was upgraded from nothing to ")
    assert run(["db", "upgrade", *here]) == 0
    assert capsys.readouterr().out.startswith("The schema is up to date (")
    assert run(["db", "check", *here, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["revision"]


def test_a_reader_that_leaves_is_no_failure() -> None:
    program = "import sys, controlplane.__main__ as m; sys.exit(m.run(['config', 'show']))"
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run([sys.executable, "-c", program], stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_table_in_a_pipe_is_neither_cut_nor_coloured(capsys: pytest.CaptureFixture[str]) -> None:
    wide = "x" * 500
    table(("name", "note"), [("a", wide), ("[red]b[/red]", None), ("evil\x1b[2J", "line\nbreak")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "NOTE"]
    assert lines[1].split() == ["a", wide]
    assert lines[2] == "[red]b[/red]"
    assert lines[3].split("  ")[0] == "evil\\x1b[2J"
    assert lines[3].endswith("line break")
    assert visible("a\tb\x07\x9b") == "a b\\x07\\x9b"
