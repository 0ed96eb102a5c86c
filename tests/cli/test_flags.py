"""The flags that kubectl's users expect, on every verb on which they mean something.

The first tables walk the tree of commands, so that a new verb cannot forget them; the others try what each flag
does."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator

import click
import msgspec
import psycopg
import pytest
from click.testing import CliRunner

from controlplane.__main__ import run
from controlplane.cli import cli
from controlplane.controllers.multikueue.observations import JobObserved
from controlplane.log.event import Body, NewEvent, body_of
from tests.audit.database import with_stories
from tests.audit.script import Script, write
from tests.cli.test_arguments import commands
from tests.support import postgres
from tests.support.rows import each

TREE = dict(commands(cli))
LEAVES = {path: command for path, command in TREE.items() if not isinstance(command, click.Group)}
OF_LISTS = {("workloads",), ("clusters",), ("events",), ("as-of",), ("usage",), ("timeline",)}
NOWHERE = ["--database-url", "postgresql://u@127.0.0.1:1/d"]


def has(path: tuple[str, ...], *flags: str) -> bool:
    known = {flag for parameter in TREE[path].params for flag in parameter.opts}
    return set(flags) <= known


@pytest.fixture(scope="module")
def url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    yield from with_stories(postgres_server, migrated_template)


def said(url: str, *arguments: str) -> str:
    result = CliRunner().invoke(cli, ["--database-url", url, *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    return told.err


@each("path", LEAVES, ids=" ".join)
def test_every_verb_takes_the_global_options(path: tuple[str, ...]) -> None:
    assert has(path, "--database-url")
    assert has(path, "--config")
    assert has(path, "-o", "--output")


@each("path", TREE, ids=" ".join)
def test_every_verb_that_says_it_has_a_list_orders_it(path: tuple[str, ...]) -> None:
    listed = "a list of objects" in " ".join((TREE[path].help or "").split()) or path in OF_LISTS
    assert has(path, "--sort-by", "--no-headers", "--local-time") == listed


@each("path", LEAVES, ids=" ".join)
def test_every_verb_that_takes_a_name_takes_its_namespace(path: tuple[str, ...]) -> None:
    named = any(isinstance(one, click.Argument) and "NAME" in (one.metavar or "") for one in LEAVES[path].params)
    if named and path[0] not in ("clusters", "submit"):
        assert has(path, "-n", "--namespace")
    if has(path, "-A"):
        assert has(path, "-n", "--all-namespaces")


@each("path", [path for path in LEAVES if has(path, "-o")], ids=" ".join)
def test_a_form_that_there_is_not(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    if path == ("export",):  # -o is the file there
        return
    assert "'jsn' is not one of" in (text := refused(capsys, *path, "-o", "jsn"))
    assert "did you mean json?" in text


def test_a_form_that_the_verb_has_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert "-o csv is for lists" in refused(capsys, "version", "-o", "csv")
    assert "-o name is for lists" in refused(capsys, "usage", "-o", "name", *NOWHERE)


def test_a_template_is_read_before_anything_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert "a {range} has no {end}" in refused(capsys, "workloads", "-o", "jsonpath={range .items[*]}", *NOWHERE)


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["workloads", "-o", "name"], "workload/default/etl-0a1b2 workload/default/odd-0a1b2"),
        (["workloads", "-o", "jsonpath={.items[*].job}"], "etl odd sim queued"),
        (["workloads", '-o=jsonpath={.items[?(@.state=="Running")].job}'], "etl"),
        (["workloads", "--sort-by", ".job", "-o", "jsonpath={.items[*].job}"], "etl odd queued sim"),
        (["workloads", "-A", "--queue", "lq", "-n", "default", "-o", "jsonpath={.items[*].namespace}"], None),
        (["workloads", "--cluster", "b", "-o", "jsonpath={.items[*].job}"], "etl"),
        (["version", "-o", "jsonpath={.version}"], "0.1.0"),
    ],
)
def test_forms(url: str, arguments: list[str], printed: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    if printed is None:
        assert "-n and -A exclude each other" in refused(capsys, "--database-url", url, *arguments)
        return
    assert " ".join(said(url, *arguments).split()).startswith(printed)


def test_csv_has_the_fields_of_the_json(url: str) -> None:
    first, *rows = said(url, "workloads", "-o", "csv").splitlines()
    assert first.startswith("namespace,name,job,kind,state,")
    assert len(rows) == 4


def test_wide_has_more_columns(url: str) -> None:
    narrow, wide = said(url, "workloads").splitlines(), said(url, "workloads", "-o", "wide").splitlines()
    assert len(narrow) == len(wide) == 5
    assert wide[0].startswith(narrow[0].split("WAITS")[0])
    assert "NOMINATED" in wide[0]
    assert "NOMINATED" not in narrow[0]


@pytest.mark.parametrize("verb", ["workloads", "clusters", "events", "timeline"])
def test_without_headings(url: str, verb: str) -> None:
    more = ["default/train"] if verb == "timeline" else []
    whole, without = said(url, verb, *more), said(url, verb, *more, "--no-headers")
    assert len(without.splitlines()) == len(whole.splitlines()) - 1
    assert without.split()[0] != whole.split()[0]


def test_csv_without_headings(url: str) -> None:
    whole, without = (said(url, "workloads", "-o", "csv", *more) for more in ([], ["--no-headers"]))
    assert whole.startswith("namespace,name,job,")
    assert without.splitlines() == whole.splitlines()[1:]


def test_the_order_of_rows_is_that_of_the_json(url: str) -> None:
    rows = [row.split()[2] for row in said(url, "workloads", "--sort-by", "{.job}").splitlines()[1:]]
    assert rows == ["etl", "odd", "queued", "sim"]
    positions = [one["position"] for one in json.loads(said(url, "events", "--sort-by", "position", "-o", "json"))]
    assert positions == sorted(positions)


def test_the_order_of_what_stands_within_an_object(url: str) -> None:
    moments = json.loads(said(url, "timeline", "default/train", "--sort-by", "what", "-o", "json"))["moments"]
    assert [one["what"] for one in moments] == sorted(one["what"] for one in moments)
    told = json.loads(said(url, "timeline", "default/train", "-o", "json"))["moments"]
    assert moments != told
    rows = said(url, "timeline", "default/train", "--sort-by", "what", "--no-headers").splitlines()
    assert len(rows) == len(moments)
    assert all(one["what"] in row for one, row in zip(moments, rows, strict=True))
    found = json.loads(said(url, "clusters", "--sort-by", "running", "-o", "json"))["clusters"]
    assert [one["running"] for one in found] == sorted(one["running"] for one in found)


def test_an_unknown_field_has_its_nearest(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean cluster?" in refused(capsys, "--database-url", url, "workloads", "--sort-by", "clustr")


def test_the_times_of_this_machine(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    utc = said(url, "events", "--limit", "1")
    monkeypatch.setitem(os.environ, "TZ", "Asia/Tokyo")
    time.tzset()
    try:
        local = said(url, "events", "--limit", "1", "--local-time")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert "AT (LOCAL TIME)" in local
    assert "AT (UTC)" in utc
    hours = [int(text.splitlines()[1].split()[2][:2]) for text in (utc, local)]
    assert (hours[1] - hours[0]) % 24 == 9


@each("verb", ["why", "timeline"])
@each(
    "typed",
    [
        ["train", "-n", "default"],
        ["workload/default/train"],
        ["job/train", "-n", "default"],
        ["default/train", "-n", "default"],
    ],
    ids=" ".join,
)
def test_names(url: str, verb: str, typed: list[str]) -> None:
    assert said(url, verb, *typed) == said(url, verb, "default/train")


def test_two_namespaces_for_one_name(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = refused(capsys, "--database-url", url, "why", "default/train", "-n", "team-b")
    assert '-n says namespace team-b, and "default/train" says default' in text


def test_a_cluster_that_is_none(database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where all Workloads have finished, or there is none yet."""
    script = Script("north")
    asyncio.run(write(database_url, script.appended))
    assert run(["--database-url", database_url, "workloads", "--cluster", "nort"]) == 0
    assert capsys.readouterr().err.endswith("No workloads found on cluster nort. Did you mean north?\n")


def test_a_queue_that_is_none(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--database-url", url, "workloads", "--queue", "lqq"]) == 0
    told = capsys.readouterr()
    assert told.err.endswith("No workloads found in queue lqq. Did you mean lq?\n")


def test_what_follows_has_no_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--follow has no end" in refused(capsys, "events", "-w", "--sort-by", "at", *NOWHERE)


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("controlplane 0.")


@pytest.mark.parametrize(
    ("arguments", "jobs"),
    [
        (["--since", "2000-01-01"], {"etl", "odd", "sim", "queued"}),
        (["--until", "2000-01-01"], set()),
        (["--since", "2000-01-01", "--until", "2001-01-01"], set()),
    ],
)
def test_workloads_of_a_time(url: str, arguments: list[str], jobs: set[str]) -> None:
    result = CliRunner().invoke(cli, ["--database-url", url, "workloads", *arguments, "-o", "json"])
    assert {one["job"] for one in json.loads(result.stdout)} == jobs
    assert ("first seen in that time" in result.stderr) == (not jobs)


def test_events_of_a_time(url: str) -> None:
    every = json.loads(said(url, "events", "--limit", "1000", "-o", "json"))
    middle = every[len(every) // 2]
    after = json.loads(said(url, "events", "--limit", "1000", "--since", middle["at"], "-o", "json"))
    before = json.loads(said(url, "events", "--limit", "1000", "--until", middle["at"], "-o", "json"))
    assert [one["position"] for one in [*before, *after]] == [one["position"] for one in every]
    assert all(one["at"] >= middle["at"] for one in after)


@pytest.mark.parametrize("verb", ["diff-decisions", "whatif"])
def test_one_may_also_say_since_where_a_position_is_meant(verb: str) -> None:
    assert has((verb,), "--from", "--since")
    assert has((verb,), "--to", "--until")


def test_a_selector_where_the_log_has_no_labels(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--database-url", url, "workloads", "-l", "team=a"]) == 0
    assert "the log has no labels of these jobs" in capsys.readouterr().err
    assert "-l: 'a=b=c' is not a label selector" in refused(capsys, "workloads", "-l", "a=b=c", *NOWHERE)


async def test_a_selector_of_labels_that_are_in_templates(database_url: str) -> None:
    script = Script("a")
    bodies = {name: body_of({"labels": labels, "spec": {}}) for name, labels in LABELS.items()}
    for name in bodies:
        script.workload(f"{name}-0a1b2").job().seen()
    told = [
        _with(new, bodies[new.event.name]) if isinstance(new.event, JobObserved) else new for new in script.appended
    ]
    await write(database_url, told)
    listed = ("workloads", "-o", "jsonpath={.items[*].job}")
    for selector, names in (("team=red", ["w"]), ("team", ["w", "x"]), ("!team", ["y"]), ("team!=red", ["x", "y"])):
        assert said(database_url, *listed, "-l", selector).split() == names
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("SELECT kind, namespace, name, labels FROM audit.job_labels ORDER BY name").fetchall()
        assert rows == [("jobs.batch", "default", name, labels) for name, labels in LABELS.items()]
        connection.execute("DELETE FROM controlplane.bodies WHERE body ->> 'labels' LIKE '%blue%'")
    assert said(database_url, *listed, "-l", "team").split() == ["w"]


def _with(new: NewEvent, body: Body) -> NewEvent:
    """The job x is one of which something was left out."""
    hashes = {"kept": {"template": body.ref}} if new.event.name == "x" else {"template": body.ref}
    return msgspec.structs.replace(new, event=msgspec.structs.replace(new.event, **hashes), bodies=(body,))


LABELS = {"w": {"team": "red"}, "x": {"team": "blue", "tier": "a"}, "y": dict[str, str]()}


async def test_a_selector(database_url: str) -> None:
    script = Script("a", "b")
    script.workload("w-0a1b2").job(labels={"team": "red"}).seen()
    script.workload("x-0a1b2").job(labels={"team": "blue"}).seen()
    await write(database_url, script.appended)
    for selector, names in (
        ("team=red", ["w-0a1b2"]),
        ("team in (blue)", ["x-0a1b2"]),
        ("team", ["w-0a1b2", "x-0a1b2"]),
    ):
        assert said(database_url, "workloads", "-l", selector, "-o", "jsonpath={.items[*].name}").split() == names
    assert (
        "No workloads found"
        in CliRunner().invoke(cli, ["--database-url", database_url, "workloads", "-l", "team=green"]).stderr
    )
