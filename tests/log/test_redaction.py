"""What the log keeps of a body: what was left out, what stays, and under which hash."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from controlplane.log.event import Body, Event, Kept, NewEvent, body_of
from controlplane.log.redaction import LARGEST, Redaction
from tests.support.rows import each

SECRET = "hunter2-in-plain-text"


class Noticed(Event):
    template: str
    status: str = ""
    kept: Kept = {}


def noticed(template: Body, *more: Body) -> NewEvent:
    status = more[0].ref if more else ""
    return NewEvent(stream="s", event=Noticed(template=template.ref, status=status), bodies=(template, *more))


def container(**more: Any) -> dict[str, Any]:
    return {"name": "main", "image": "example.com/train:1", **more}


def job(**more: Any) -> dict[str, Any]:
    return {"labels": {}, "annotations": {}, "spec": {"template": {"spec": {"containers": [container(**more)]}}}}


def kept_of(value: Any, redaction: Redaction | None = None) -> Any:
    found = (redaction or Redaction()).of(body_of(value))
    assert isinstance(found, Body)
    assert hashlib.sha256(found.text.encode()).digest() == found.hash, "what is stored is known by its own hash"
    return json.loads(found.text)


def test_of_env_names_and_sources_stay() -> None:
    source = {"secretKeyRef": {"name": "s", "key": "k"}}
    env = [{"name": "TOKEN", "value": SECRET}, {"name": "FROM", "valueFrom": source}]
    assert kept_of(job(env=env), Redaction(())) == job(env=[{"name": "TOKEN"}, {"name": "FROM", "valueFrom": source}])


@pytest.mark.parametrize("env", [SECRET, {"TOKEN": SECRET}, [SECRET], [[{"value": SECRET}]], [{"Value": SECRET}]])
def test_env_of_another_shape_is_left_out_as_a_whole(env: Any) -> None:
    assert SECRET not in json.dumps(kept_of(job(env=env)))


@each(
    "where",
    [
        {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"initContainers": [container(env="@")]}}}}}},
        {
            "spec": {
                "replicatedJobs": [{"template": {"spec": {"template": {"spec": {"containers": [container(env="@")]}}}}}]
            }
        },
        {"spec": {"pipelineSpec": {"tasks": [{"taskSpec": {"stepTemplate": {"env": "@"}, "steps": [{"env": "@"}]}}]}}},
        {"spec": {"taskRunTemplate": {"podTemplate": {"env": "@"}}}},
        {"status": {"pipelineSpec": {"finally": [{"taskSpec": {"sidecars": [{"env": "@"}]}}]}}},
        {"spec": {"podSets": [{"template": {"spec": {"ephemeralContainers": [container(env="@")]}}}]}},
    ],
)
def test_it_is_found_wherever_it_is(where: Any) -> None:
    text = json.dumps(where).replace('"@"', json.dumps([{"name": "A", "value": SECRET}]))
    assert SECRET in text
    found = json.dumps(kept_of(json.loads(text)))
    assert SECRET not in found
    assert '"A"' in found


def test_command_lines_scripts_and_parameters_are_left_out_unless_the_setting_says_otherwise() -> None:
    whole = {
        "spec": {"params": [{"name": "p", "value": SECRET}], **job(command=[SECRET], args=[SECRET], script=SECRET)}
    }
    assert SECRET not in json.dumps(kept_of(whole))
    assert kept_of(whole, Redaction(())) == whole


def test_a_setting_names_the_end_of_a_path() -> None:
    whole = {"spec": {"volumes": [1], "template": {"spec": {"volumes": [{"csi": {"a": SECRET}}], "x": 1}}}}
    assert kept_of(whole, Redaction(["template.spec.volumes"])) == {
        "spec": {"volumes": [1], "template": {"spec": {"x": 1}}}
    }
    assert kept_of(whole, Redaction(["csi.a"]))["spec"]["template"]["spec"]["volumes"] == [{"csi": {}}]


def test_annotations_stay_if_they_say_how_to_dispatch() -> None:
    decisive = {
        "kueue.x-k8s.io/job-owner-name": "a",
        "provreq.kueue.x-k8s.io/b": "b",
        "controlplane/execution-policy": "never-twice",
        "candidates.controlplane.dev/targets": "c",
    }
    others = {"note": SECRET, "example.com/kueue.x-k8s.io": SECRET, "notkueue.x-k8s.io/a": SECRET}
    whole = job() | {"annotations": decisive | others}
    whole["spec"]["template"]["metadata"] = {"annotations": dict(others), "labels": {"a": "b"}}
    found = kept_of(whole)
    assert found["annotations"] == decisive
    assert found["spec"]["template"]["metadata"] == {"annotations": {}, "labels": {"a": "b"}}


def test_what_every_write_changes_is_left_out_of_refused_objects() -> None:
    first, second = (
        {"kind": "Job", "metadata": {"name": "a", "resourceVersion": version, "managedFields": [{"time": version}]}}
        for version in ("7", "8")
    )
    assert kept_of(first) == kept_of(second) == {"kind": "Job", "metadata": {"name": "a"}}


def test_a_secret_never_gets_there() -> None:
    whole = {"kind": "Secret", "data": {"a": SECRET}, "stringData": {"a": SECRET}, "type": "Opaque"}
    assert kept_of(whole) == {"kind": "Secret", "type": "Opaque"}


def test_what_holds_nothing_of_the_kind_is_stored_as_it_is_and_the_event_says_nothing() -> None:
    new = noticed(body_of(job()), body_of({"active": 1}))
    assert Redaction().stored(new) == new


def test_the_event_names_what_was_stored_in_the_place_of_what_was_seen() -> None:
    whole, status = body_of(job(env=[{"name": "A", "value": SECRET}])), body_of({"active": 1})
    event = Redaction().stored(noticed(whole, status))
    (stored, same) = event.bodies
    assert event.event == Noticed(template=whole.ref, status=status.ref, kept={"template": stored.ref})
    assert same == status
    assert stored == body_of(job(env=[{"name": "A"}]))


def test_what_is_too_large_is_kept_by_its_hash_and_size() -> None:
    large = body_of({"spec": "x" * LARGEST})
    event = Redaction().stored(noticed(large))
    assert event.bodies == ()
    assert event.event == Noticed(template=large.ref, kept={"template": len(large.text)})
    whole = body_of({"spec": 1, "annotations": {"a": "x" * 2 * LARGEST}})
    assert Redaction().stored(noticed(whole)).bodies == (body_of({"spec": 1, "annotations": {}}),), "bounded as stored"


def test_an_answer_is_the_same_when_it_was_given_before() -> None:
    redaction = Redaction()
    for value in (job(), job(env=[{"name": "A", "value": SECRET}]), {"spec": "x" * LARGEST}):
        assert redaction.stored(noticed(body_of(value))) == redaction.stored(noticed(body_of(value)))
