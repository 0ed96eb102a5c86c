"""What `why`, `timeline` and `events` say of pods and PodGroups, of a log that a real process has written."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from controlplane.cli import cli
from controlplane.cli.errors import CommandFailure
from controlplane.kube.kinds import PODS, meta
from tests.podgroups.e2e.test_groups import BY_DEPLOYMENT, MIN_MEMBER, container, deployment, phase, rules, running
from tests.support.local import Make, Stage


def ask(it: Stage, *words: str, code: int = 0) -> str:
    result = CliRunner().invoke(cli, ["--database-url", it.url, *words], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


async def test_a_pod_tells_whose_group_it_is_in_and_why(stage: Make) -> None:
    it = await stage(start=False)
    rules(it, BY_DEPLOYMENT)
    made = deployment(it, "web", 2)
    await it.up()
    await it.until(lambda: running(it, "web") == 2, "running pods")
    group = f"podgroup-{meta(made)['uid']}"
    await it.until(lambda: phase(it, group) == "Running", "the phase")
    pod = meta(it.pods(app="web")[0])["name"]
    await it.until(lambda: "Running" in ask(it, "why", f"pod/default/{pod}"), "the story")
    said = ask(it, "why", f"pod/default/{pod}")
    assert f"It is in PodGroup {group} of Deployment web, because the rule apps/v1 deployment 0 matches" in said
    assert f"(Pod {pod} ← ReplicaSet" in said
    assert "OwnerResolved" in said
    told = ask(it, "timeline", f"po/default/{pod}")
    assert f"belongs to {group} of Deployment web" in told
    assert "the group is there and is its owner's" in told
    # The phase is as it was decided, the counts as they were seen on the group, which is a moment later.
    why = ("-o", "json", "why", f"podgroup/default/{group}")
    await it.until(lambda: "2 run" in json.loads(ask(it, *why))["sentence"], "the counts")
    assert json.loads(ask(it, *why))["state"] == "Running"
    assert "PodGroup is to be created, for 1 members" in ask(it, "timeline", f"pg/default/{group}")
    assert "room:" in ask(it, "events", "--type", "RoomObserved")


async def test_what_was_never_seen_is_named_with_the_reason(stage: Make) -> None:
    it = await stage()
    it.make(PODS, "other", spec={"schedulerName": "default-scheduler", "containers": [container()]})
    for verb, name in (("why", "pod/default/other"), ("timeline", "pg/default/none"), ("why", "pr/default/none")):
        with pytest.raises(CommandFailure) as refused:
            ask(it, verb, name)
        assert refused.value.code == 5
        assert f"{name.split('/')[2]} in the log main" in str(refused.value)


async def test_a_group_that_waits_tells_of_the_room(stage: Make) -> None:
    it = await stage(start=False, nodes=1)
    rules(it, BY_DEPLOYMENT)
    made = deployment(it, "big", 200, **{MIN_MEMBER: "200"})
    await it.up()
    group = f"podgroup-{meta(made)['uid']}"
    await it.until(lambda: phase(it, group) == "Pending" and it.said("RoomObserved"), "a group that waits")
    said = " ".join(ask(it, "why", f"pg/default/{group}").split())
    assert "its 200 members are there, and it waits for room for what they ask for together (cpu 100)" in said
    assert "room: 0 of 64 cpu" in said


async def test_where_nodes_may_not_be_seen_the_room_is_said_to_be_unknown(stage: Make) -> None:
    it = await stage(start=False)
    it.cluster.faults.storm(403, resources=["nodes"])
    rules(it, BY_DEPLOYMENT)
    made = deployment(it, "web", 1)
    await it.up()
    group = f"podgroup-{meta(made)['uid']}"
    await it.until(lambda: phase(it, group) == "Pending", "a group that waits")
    assert "room: not known, because nodes or pods are not in view" in " ".join(
        ask(it, "why", f"pg/default/{group}").split()
    )
    assert [one["kind"] for one in it.said("KindOff")] == ["nodes"]
