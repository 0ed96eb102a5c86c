"""What kube-scheduler's own plugins answered to generated lines, and what `evaluate` answers.

The files in `data` have one object a line: the line that was asked, and the answer in short (`recorded.shortened`).
How it was made is told in docs/reference/scheduler-evaluate.md."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from controlplane.controllers.scheduling.cycle import schedule
from controlplane.controllers.scheduling.evaluate.answer import answer
from controlplane.controllers.scheduling.evaluate.lines import said
from controlplane.controllers.scheduling.evaluate.request import read
from controlplane.controllers.scheduling.framework.configuration import default_framework
from controlplane.controllers.scheduling.plugins.dynamic_resources import NOT_ALL, NOT_HERE
from controlplane.controllers.scheduling.plugins.node_volume_limits import TOO_MANY
from controlplane.controllers.scheduling.plugins.volume_restrictions import CLAIM_TAKEN, DISK_TAKEN
from controlplane.kube.kinds import Json
from tests.scheduler.generated import scenario, scenarios
from tests.scheduler.generated_attachments import scenarios as attachments
from tests.scheduler.generated_devices import scenarios as devices
from tests.scheduler.recorded import PLUGINS, shortened
from tests.support.rows import each

DATA = Path(__file__).parent / "data"
RECORDED = [json.loads(line) for line in (DATA / "recorded.jsonl").read_text().splitlines()]
ATTACHING = [json.loads(line) for line in (DATA / "recorded_attachments.jsonl").read_text().splitlines()]
DEVICES = [json.loads(line) for line in (DATA / "recorded_devices.jsonl").read_text().splitlines()]
ATTACH = ("VolumeRestrictions", "NodeVolumeLimits")


def asked(line: Json) -> Json:
    ok, text = said(json.dumps(line).encode(), 1)
    found: Json = json.loads(text)
    assert ok, found
    return found


@each("recorded", RECORDED, ids=[str(one["line"]["id"]) for one in RECORDED])
def test_what_the_real_plugins_answered(recorded: Json) -> None:
    found = shortened(asked(recorded["line"]))
    assert found == {"id": recorded["line"]["id"], **recorded["answer"]}


@each("recorded", ATTACHING, ids=[str(one["line"]["id"]) for one in ATTACHING])
def test_what_the_real_plugins_answered_about_attaching(recorded: Json) -> None:
    found = shortened(asked(recorded["line"]), ATTACH)
    assert found == {"id": recorded["line"]["id"], **recorded["answer"]}


def test_the_lines_about_attaching_know_every_answer() -> None:
    told = {
        (plugin, said)
        for one in ATTACHING
        for plugin in ATTACH
        for said in one["answer"].get(plugin, {}).get("filter", {}).values()
    }
    for plugin, reason in (("VolumeRestrictions", DISK_TAKEN), ("VolumeRestrictions", CLAIM_TAKEN)):
        assert (plugin, f"Unschedulable {reason.reasons[0]}") in told
    assert ("NodeVolumeLimits", f"Unschedulable {TOO_MANY.reasons[0]}") in told
    assert ("NodeVolumeLimits", "Error") in told
    assert any("preemption" in one["answer"] for one in ATTACHING)
    assert any(one["line"].get("simulate") for one in ATTACHING)


@each("recorded", DEVICES, ids=[str(one["line"]["id"]) for one in DEVICES])
def test_what_the_real_plugin_answered_about_devices(recorded: Json) -> None:
    answered, plugin = asked(recorded["line"]), "DynamicResources"
    allocations = {node: here for node, here in answered["perPlugin"][plugin].pop("allocations", {}).items() if here}
    answered["perPlugin"][plugin]["preScore"] = {"code": "Success"}  # the real one has no PreScore
    found = shortened(answered, (plugin,))
    wanted = {"id": recorded["line"]["id"], **recorded["answer"]}
    for one in (wanted, found):
        for _, by_plugin in one.get("scores", {}).values():
            by_plugin.setdefault(plugin, 0)
    assert found | {"allocations": allocations} == wanted


def test_the_lines_about_devices_know_every_answer() -> None:
    told = {said for one in DEVICES for said in one["answer"].get("DynamicResources", {}).get("filter", {}).values()}
    assert {f"UnschedulableAndUnresolvable {reason}" for reason in (NOT_HERE, NOT_ALL)} | {"Error"} <= told
    refused = {one["answer"].get("DynamicResources", {}).get("preFilter", "") for one in DEVICES}
    for part in ("is being deleted", "not created yet", "Pod is not owner", "does not exist", "could not find", "Skip"):
        assert any(part in said for said in refused), part
    given = [here for one in DEVICES for node in one["answer"]["allocations"].values() for here in node.values()]
    assert any("config" in one["devices"] for one in given)
    assert any("nodeSelector" in one for one in given)
    assert any(result.get("adminAccess") for one in given for result in one["devices"]["results"])
    assert any(result.get("tolerations") for one in given for result in one["devices"]["results"])
    assert any("/" in result["request"] for one in given for result in one["devices"]["results"])
    assert any("consumesCounters" in json.dumps(one["line"]) and one["answer"]["allocations"] for one in DEVICES)
    assert any(
        score for one in DEVICES for score, _ in one["answer"].get("DynamicResources", {}).get("score", {}).values()
    )


@each("line", [*attachments(7_500_000, 60), *devices(8_500_000, 60)], ids=lambda line: str(line["id"]))
def test_generated_lines_about_attaching_and_devices_are_answered(line: Json) -> None:
    assert "error" not in asked(line)


def test_the_recorded_lines_know_every_plugin_and_outcome() -> None:
    answers = [one["answer"] for one in RECORDED]
    for plugin in PLUGINS:
        assert any(set(one.get(plugin, ())) & {"filter", "score", "preFilter"} for one in answers), plugin
    assert sum("preemption" in one for one in answers) >= 20
    assert sum(len(one.get("scores", ())) > 1 for one in answers) >= 20
    assert any("error" in one for one in answers)
    assert any(one["line"].get("simulate") for one in RECORDED)


def _first_score(found: Json) -> None:
    scores = found["perPlugin"]["TaintToleration"]["score"]
    scores[next(iter(scores))] = [0, 1]


def _another_reason(found: Json) -> None:
    refused = next(status for status in found["combined"]["filter"].values() if status["code"] != "Success")
    refused["reasons"] = ["another"]


def _another_code(found: Json) -> None:
    refused = next(status for status in found["perPlugin"]["NodeResourcesFit"]["filter"].values() if status["reasons"])
    refused["code"] = "Success"


def _another_victim(found: Json) -> None:
    next(iter(found["preemption"]["candidates"].values()))["victims"].reverse()


def _none_chosen(found: Json) -> None:
    found["preemption"]["chosen"] = []


def _no_skip(found: Json) -> None:
    found["perPlugin"]["NodePorts"]["preFilter"]["code"] = "Success"


@each("change", [_first_score, _another_reason, _another_code, _another_victim, _none_chosen, _no_skip])
def test_in_short_nothing_is_lost_that_counts(change: Callable[[Any], None]) -> None:
    full = {"cpu": "4"}
    container = {"name": "c", "resources": {"requests": {"cpu": "2"}}}
    nodes = [{"metadata": {"name": "n"}, "status": {"allocatable": {**full, "pods": "9"}}}]
    pods = [
        {"metadata": {"name": f"p{at}"}, "spec": {"nodeName": "n", "containers": [container], "priority": at}}
        for at in range(2)
    ]
    incoming = {"metadata": {"name": "new"}, "spec": {"priority": 9, "containers": [container, container]}}
    found = answer(read({"id": 1, "pod": incoming, "nodes": nodes, "pods": pods}))
    changed = copy.deepcopy(found)
    change(changed)
    assert shortened(changed) != shortened(found)


def test_a_seed_is_a_line() -> None:
    assert scenario(7) == scenario(7)
    assert scenario(7) != scenario(8)


@each("line", list(scenarios(4_000_000, 60)), ids=lambda line: str(line["id"]))
def test_generated_lines_are_the_same_in_both_forms(line: Json) -> None:
    assert "error" not in asked(line)
    question = read(line)
    framework = default_framework(question.args)
    fast = schedule(framework, question.snapshot, question.pod, question.nominated)
    framework.vectorised = False
    slow = schedule(framework, question.snapshot, question.pod, question.nominated)
    rows = range(len(question.snapshot))
    assert [fast.statuses.of(row) for row in rows] == [slow.statuses.of(row) for row in rows]
    assert (fast.status, fast.best, fast.post_filtered) == (slow.status, slow.best, slow.post_filtered)
