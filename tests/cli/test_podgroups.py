"""`controlplane podgroups resolve`: files and standard input, forms of output, exit codes and what is said with
them.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from controlplane.__main__ import run

OBJECTS = """\
apiVersion: v1
kind: Pod
metadata:
  name: web-1
  namespace: a
  uid: p1
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-abc, uid: r1, controller: true}]
spec: {schedulerName: volcano}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web-abc
  namespace: a
  uid: r1
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: d1, controller: true}]
"""
OWNER = """\
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: a, uid: d1}
"""
RULES = "podgroup-level-rules:\n- {apiversion: apps/v1, kind: deployment}\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "objects.yaml").write_text(OBJECTS + OWNER)
    (tmp_path / "rules.yaml").write_text(RULES)
    return str(tmp_path / "objects.yaml"), str(tmp_path / "rules.yaml")


@pytest.mark.parametrize("flag", ["--rules", "--config"])
def test_json(flag: str, files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    objects, rules = files
    assert run(["podgroups", "resolve", flag, rules, "-f", objects, "-o", "json"]) == 0
    (line,) = json.loads(capsys.readouterr().out)
    assert (line["action"], line["podGroupName"], line["owner"]["kind"]) == ("create", "podgroup-d1", "Deployment")


def test_a_table_is_the_default(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    objects, rules = files
    assert run(["podgroups", "resolve", "--config", rules, "-f", objects]) == 0
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["POD", "ACTION", "REASON"]
    assert row.split()[:5] == ["a/web-1", "create", "RuleMatched", "podgroup-d1", "Deployment/web"]


def test_an_owner_that_is_not_in_the_files(
    tmp_path: Path, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    alone = tmp_path / "alone.yaml"
    alone.write_text(OBJECTS)
    assert run(["podgroups", "resolve", "--rules", files[1], "-f", str(alone)]) == 0
    row = capsys.readouterr().out.splitlines()[1]
    assert row.split()[:4] == ["a/web-1", "retry", "OwnerGone", "podgroup-d1"]
    assert "apps/v1 Deployment web (UID d1) is not there: no PodGroup is made" in row
    assert row.endswith("; if it exists, give it with the others")


def test_without_rules_as_today(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["podgroups", "resolve", "-f", files[0], "-o", "json"]) == 0
    (line,) = json.loads(capsys.readouterr().out)
    assert (line["reason"], line["podGroupName"], line["reads"]) == ("FirstOwner", "podgroup-r1", [])


def test_standard_input(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO((OBJECTS + OWNER).encode())))
    assert run(["podgroups", "resolve", "--config", files[1], "-f", "-", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["podGroupName"] == "podgroup-d1"
    assert run(["podgroups", "resolve", "--config", "-", "-f", "-"]) == 2
    assert "standard input can be read only once" in capsys.readouterr().err


def test_refused_rules(tmp_path: Path, files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("podgroup-level-rules:\n- {kind: job}\n- {apiversion: batch/v1, kind: job, adjust-level: 3}\n")
    assert run(["podgroups", "resolve", "--config", str(bad), "-f", files[0], "-o", "json"]) == 3
    told = capsys.readouterr()
    assert told.out == ""
    assert "entry 1: apiversion: is missing" in told.err
    assert "entry 2: adjust-level: is 3; write zero or a negative number" in told.err


def test_another_object_in_the_place_of_the_rules(
    tmp_path: Path, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "profiles.yaml"
    other.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")
    assert run(["podgroups", "resolve", "--rules", str(other), "-f", files[0]]) == 3
    assert "the document: kind: is KubeSchedulerConfiguration; give the ConfigMap" in capsys.readouterr().err


def test_files_without_pods_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    none = tmp_path / "none.yaml"
    none.write_text("apiVersion: v1\nkind: Service\nmetadata: {name: s, namespace: d}\n")
    assert run(["podgroups", "resolve", "-f", str(none)]) == 0
    assert f"No pods found in {none}." in capsys.readouterr().err


@pytest.mark.parametrize(("flag", "code"), [("--config", 3), ("-f", 2)])
def test_files_that_are_not_there(flag: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["podgroups", "resolve", flag, "/no/such/file", *(["-f", "/dev/null"] if flag == "--config" else [])]
    assert run(arguments) == code
    assert "/no/such/file: No such file or directory" in capsys.readouterr().err


def test_bad_objects_are_told_and_the_rest_is_printed(
    tmp_path: Path, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n---\nnothing\n")
    assert run(["podgroups", "resolve", "-f", str(bad), "-f", files[0], "-o", "json"]) == 1
    told = capsys.readouterr()
    assert [line["pod"] for line in json.loads(told.out)] == ["web-1"]
    assert "2 objects cannot be used" in told.err
    assert "document 1 (Pod x): metadata.uid: is missing" in told.err


def test_pretended_answers_and_scheduler_names(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    objects, rules = files
    line = ["podgroups", "resolve", "--config", rules, "-f", objects, "-o", "json"]
    run([*line, "--unavailable", "ReplicaSet.apps"])
    run([*line, "--forbidden", "replicasets.apps"])
    run([*line, "--scheduler-name", "other"])
    out = capsys.readouterr().out
    decoder, place, actions = json.JSONDecoder(), 0, []
    while place < len(out.rstrip()):
        value, end = decoder.raw_decode(out, place)
        actions.append((value[0]["action"], value[0]["reason"]))
        place = end + 1
    assert actions == [("retry", "OwnerUnavailable"), ("create", "FirstOwner"), ("skip", "OtherScheduler")]
    assert run([*line, "--forbidden", "a/b/c"]) == 2


def test_the_settings_file_keeps_its_place_before_the_verb(files: tuple[str, str]) -> None:
    """`--config` after the verb names the rules, as it did; before it, the settings, which this verb does not need."""
    objects, rules = files
    assert run(["--config", "/no/such/settings", "podgroups", "resolve", "--config", rules, "-f", objects]) == 0


def test_the_old_name_of_rules_says_so_and_is_in_no_help(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    objects, rules = files
    line = ["podgroups", "resolve", "-f", objects, "-o", "json"]
    assert run([*line, "--rules", rules]) == 0
    new = capsys.readouterr()
    assert run([*line, "--config", rules]) == 0
    old = capsys.readouterr()
    assert (old.out, new.err) == (new.out, "")
    assert old.err == "--config is deprecated for this file: say --rules. --config is the settings file.\n"
    assert run([*line, "--config", rules, "--rules", rules]) == 2
    assert "leave one out" in capsys.readouterr().err
    assert run(["podgroups", "resolve", "--help"]) == 0
    told = capsys.readouterr().out
    assert "The settings file (YAML)." in told
    assert "deprecated" not in told


@pytest.mark.parametrize("verb", ["podgroups resolve", "coscheduling plan"])
def test_a_settings_file_is_one_after_the_verb_too(
    verb: str, files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "settings.yaml").write_text("database:\n  log: other\n")
    run([*verb.split(), "-f", files[0], "--config", str(tmp_path / "settings.yaml"), "-o", "json"])
    assert "deprecated" not in capsys.readouterr().err
