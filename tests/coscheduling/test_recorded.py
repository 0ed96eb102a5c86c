"""What Tekton's own controller made of generated PipelineRuns, and what `plan` says.

`data/recorded.jsonl` has one object a line: the question (`generated`), and the answer in short (`recorded.shortened`),
or what the run was refused with. How it was made is told in docs/reference/coscheduling.md."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.coscheduling.generated import MODES, question, questions
from tests.coscheduling.recorded import asked, shortened
from tests.support.rows import each

Json = dict[str, Any]
RECORDED = [json.loads(line) for line in (Path(__file__).parent / "data/recorded.jsonl").read_text().splitlines()]
STARTED = [one for one in RECORDED if "refused" not in one["answer"]]
REFUSED = [one for one in RECORDED if "refused" in one["answer"]]


def named(recorded: list[Json]) -> list[str]:
    return [str(one["question"]["id"]) for one in recorded]


@each("recorded", STARTED, ids=named(STARTED))
def test_what_the_real_controller_made(recorded: Json) -> None:
    found = asked(recorded["question"])
    assert found["error"] is None
    assert shortened(found, recorded["question"], ours=True) == recorded["answer"]


@each("recorded", REFUSED, ids=named(REFUSED))
def test_what_it_refused(recorded: Json) -> None:
    found = asked(recorded["question"])
    assert found["error"]
    assert found["statefulSets"] == found["persistentVolumeClaims"] == found["taskRuns"] == []


def test_the_recorded_runs_know_every_mode_and_kind() -> None:
    modes = [one["question"]["flags"].get("coschedule", "workspaces").lower() for one in STARTED]
    assert all(modes.count(mode) >= 10 for mode in MODES)
    kinds = {task["kind"] for one in STARTED for task in one["answer"]["taskRuns"].values()}
    assert kinds == {"TaskRun", "CustomRun", "PipelineRun"}
    assert any("templates" in made for one in STARTED for made in one["answer"]["statefulSets"].values())
    assert len(REFUSED) >= 10


def _another_name(found: Json) -> None:
    found["statefulSets"][0]["metadata"]["name"] += "x"


def _another_owner(found: Json) -> None:
    found["persistentVolumeClaims"][0]["metadata"]["ownerReferences"][0]["uid"] = "another"


def _no_toleration(found: Json) -> None:
    del found["statefulSets"][0]["spec"]["template"]["spec"]["tolerations"]


def _another_claim(found: Json) -> None:
    found["taskRuns"][0]["workspaces"][0]["persistentVolumeClaim"]["claimName"] = "another"


def _no_annotation(found: Json) -> None:
    found["taskRuns"][0]["annotations"] = {}


def _no_affinity(found: Json) -> None:
    found["taskRuns"][0]["affinity"] = {}


@each("change", [_another_name, _another_owner, _no_toleration, _another_claim, _no_annotation, _no_affinity])
def test_in_short_nothing_is_lost_that_counts(change: Callable[[Json], None]) -> None:
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {
        "workspaces": [{"name": "a", "volumeClaimTemplate": {"spec": storage}}],
        "pipelineSpec": {"tasks": [{"name": "t", "taskRef": {"name": "t"}, "workspaces": [{"name": "a"}]}]},
        "taskRunTemplate": {"podTemplate": {"tolerations": [{"operator": "Exists"}]}},
    }
    run = {"kind": "PipelineRun", "metadata": {"name": "r", "uid": "u"}, "spec": spec}
    asking = {"run": run, "flags": {}, "defaults": {}, "pipelines": [], "tasks": []}
    found = asked(asking)
    changed = copy.deepcopy(found)
    change(changed)
    assert shortened(changed, asking, ours=True) != shortened(found, asking, ours=True)


def test_a_seed_is_a_question() -> None:
    assert question(7) == question(7)
    assert question(7) != question(8)


@each("asking", list(questions(4_000_000, 60)), ids=lambda asking: str(asking["id"]))
def test_every_task_follows_a_placeholder_that_is_made(asking: Json) -> None:
    found = asked(asking)
    names = {one["metadata"]["name"] for one in found["statefulSets"]}
    followed = {name for task in found["taskRuns"] for name in task["annotations"].values()}
    assert followed <= names
    assert asked(asking) == found
