"""`diff-decisions` as it is typed: what it prints, its exit codes, and a sentence for what it cannot do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from click.testing import CliRunner, Result

from controlplane.cli import cli
from tests.audit.database import keep
from tests.cli.test_audit_verbs import fails
from tests.docs.snippets import ROOT
from tests.support import postgres
from tests.whatif.logs import played
from tests.whatif.test_compare import QUIET


@pytest.fixture(scope="module")
def url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    """A database with the log of three Jobs on three clusters."""
    name = postgres.new_name("decisions")
    made = postgres_server.create(name, migrated_template)
    try:
        asyncio.run(keep(made, played(QUIET)))
        yield made
    finally:
        postgres_server.drop(name)


def invoke(url: str, *arguments: str) -> Result:
    typed = ["--database-url", url, "diff-decisions", *arguments]
    return CliRunner().invoke(cli, typed, catch_exceptions=False, standalone_mode=False)


def asked(url: str, *arguments: str) -> tuple[int, Any]:
    result = invoke(url, *arguments, "-o", "json")
    return result.return_value, json.loads(result.stdout)


def table(url: str, *arguments: str) -> tuple[int, list[str]]:
    result = invoke(url, *arguments)
    return result.return_value, result.stdout.splitlines()


def settings(folder: Path, **multikueue: Any) -> str:
    """Write a settings file that differs from what the log's service decided by in nothing else."""
    file = folder / "other.yaml"
    file.write_text(yaml.safe_dump({"multikueue": {"workerLostTimeout": "3m", **multikueue}}))
    return str(file)


def test_nothing_differs_by_the_settings_that_were_in_force(url: str) -> None:
    code, lines = table(url)
    assert code == 0
    assert lines[0].startswith("Positions 1 to ")
    assert lines[0].endswith(" of the log main, decided again by the settings that were in force:")
    assert lines[1].split()[1:] == ["decisions,", lines[1].split()[0], "agree,", "0", "differences."]
    assert lines[2:] == []


def test_for_programs(url: str) -> None:
    code, found = asked(url)
    assert code == 0
    assert list(found) == ["log", "from", "to", "by", "decisions", "agree", "not_asked", "left_alone", "differences"]
    assert found["decisions"] == found["agree"] > 30
    assert (found["log"], found["from"], found["not_asked"], found["left_alone"]) == ("main", 1, 0, {})


def test_by_another_settings_file(url: str, tmp_path: Path) -> None:
    file = settings(tmp_path, dispatcherName="kueue.x-k8s.io/multikueue-dispatcher-incremental", stepSize=1)
    code, found = asked(url, "--with", file)
    assert (code, found["by"]) == (1, f"the settings of {file}")
    first = next(one for one in found["differences"] if one["verdict"] == "changed")
    assert first["recorded"]["reason"] == "AvailableClusters"
    assert first["recorded"]["data"]["clusters"] == ["w1", "w2", "w3"]
    assert first["now"]["reason"] == "FirstRound"
    assert first["now"]["data"]["clusters"] == ["w1"]
    assert found["decisions"] == asked(url)[1]["decisions"]
    code, lines = table(url, "--with", file)
    assert code == 1
    assert "VERDICT" in lines[3]
    assert any("offered to w1, w2, w3" in one and "offered to w1 (attempt 1)" in one for one in lines)


def test_a_part(url: str) -> None:
    whole = asked(url)[1]
    begin, middle = whole["from"], whole["to"] // 2
    first = asked(url, "--to", str(middle))[1]
    second = asked(url, "--from", str(middle + 1))[1]
    assert (first["from"], first["to"], second["from"], second["to"]) == (begin, middle, middle + 1, whole["to"])
    assert first["decisions"] + second["decisions"] == whole["decisions"]
    assert second["differences"] == []


def test_times_are_positions(url: str) -> None:
    whole = asked(url)[1]
    with psycopg.connect(url) as connection:
        (at, position), *_ = connection.execute(
            "SELECT recorded_at, max(position) FROM audit.events WHERE log = 'main' GROUP BY 1 ORDER BY 1 OFFSET 20"
        ).fetchall()
    assert asked(url, "--to", at.isoformat())[1]["to"] == position
    assert asked(url, "--from", at.isoformat())[1]["from"] == position + 1
    assert asked(url, "--from", "2020-01-01")[1]["decisions"] == whole["decisions"]


def test_the_version_that_runs_is_the_default(url: str) -> None:
    from importlib import metadata

    assert asked(url, "--with", metadata.version("controlplane")) == asked(url)


def test_the_code_of_a_checkout_decides_in_a_process_of_its_own(url: str) -> None:
    assert asked(url, "--with", str(ROOT), "--to", "60") == asked(url, "--to", "60")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--from", "yesterday"], 2, '--from: "yesterday" is neither a time nor a position: write 2026-'),
        (["--to", "0"], 5, "--to: there is no position 0 in the log main, which has the positions 1 to "),
        (["--from", "99999999"], 5, "--from: there is no position 99999999 in the log main"),
        (["--to", "9" * 40], 5, f"--to: there is no position {'9' * 40} in the log main"),
        (["--from", "20", "--to", "10"], 2, "nothing is between --from 20 and --to 10 in the log main, which has"),
        (["--to", "2020-01-01"], 2, "nothing is between --from the beginning and --to 2020-01-01 in the log main"),
        (["--from", "2199-01-01"], 2, "--from: 2199-01-01 00:00:00 UTC is to come: it is "),
        (["--with", "9.9"], 2, '--with "9.9": there is no such file or folder, and this program is version '),
        (["--with", str(ROOT / "docs")], 2, "this folder has no controlplane/cli/diff_decisions.py: name the checkout"),
        (["--with", str(ROOT / "README.md")], 3, ""),
        (
            ["--log", "nobody"],
            5,
            "the log nobody has no events: the log nobody is empty; the logs of this database are",
        ),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    url: str, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    found, text = fails(capsys, url, "diff-decisions", *arguments)
    assert found == code, text
    assert said in text
    assert text.startswith("Error: ")
    assert code == 3 or len(text.splitlines()) == 1


def test_a_log_without_its_beginning_has_no_states(
    url: str, capsys: pytest.CaptureFixture[str], postgres_server: postgres.Server, migrated_template: str
) -> None:
    name = postgres.new_name("beginning")
    made = postgres_server.create(name, migrated_template)
    try:
        asyncio.run(keep(made, played(QUIET)[:30]))
        with psycopg.connect(made) as connection:
            connection.execute("DELETE FROM controlplane.events WHERE position < 10")
        code, text = fails(capsys, made, "diff-decisions")
        assert code == 5
        assert "the log main begins with position 10: what came before it was taken out of this database" in text
    finally:
        postgres_server.drop(name)


def test_a_checkout_whose_code_fails_says_so(url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "controlplane/cli").mkdir(parents=True)
    (tmp_path / "controlplane/__init__.py").write_text("")
    (tmp_path / "controlplane/cli/diff_decisions.py").write_text("")
    (tmp_path / "controlplane/__main__.py").write_text("raise SystemExit('this code is broken')")
    code, text = fails(capsys, url, "diff-decisions", "--with", str(tmp_path))
    assert (code, text) == (1, f"Error: --with {tmp_path.resolve()}: its code failed: this code is broken\n")
