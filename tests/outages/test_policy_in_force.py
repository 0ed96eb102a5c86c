"""The settings that decisions rest on are in the log: said when somebody begins to lead by others, and believed by
whoever reads.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import partial

from click.testing import CliRunner

from controlplane.cli import cli
from controlplane.kube.kinds import MULTIKUEUE_CONFIGS
from tests.outages.stage import NS, Stage, settings
from tests.outages.test_admission_devices import SERVED, counting, offer, submit, template, told

Make = Callable[..., Awaitable[Stage]]


async def test_it_is_said_at_each_lead_that_changes_it_and_never_else(stage: Make) -> None:
    careful = settings(lost=90.0, execution_policy="never-twice")
    on = await stage("a", settings=careful)
    assert [said["execution_policy"] for said in on.said("PolicyInForce")] == ["never-twice"]
    await on.kill()
    await on.up(wanted=careful)
    assert len(on.said("ServiceStarted")) == 2
    assert len(on.said("PolicyInForce")) == 1
    await on.kill()
    await on.up(wanted=settings(lost=30.0))
    assert [said["worker_lost_timeout_seconds"] for said in on.said("PolicyInForce")] == [90.0, 30.0]


async def test_a_reader_shows_the_services_policy_and_not_his_own(stage: Make) -> None:
    on = await stage("a", settings=settings(lost=90.0, execution_policy="never-twice"))
    shown = CliRunner().invoke(cli, ["--database-url", on.url, "clusters", "-o", "json"], catch_exceptions=False)
    assert shown.exit_code == 0
    policy = json.loads(shown.stdout)["policy"]
    assert (policy["execution_policy"], policy["worker_lost_timeout"]) == ("never-twice", "1m30s")
    assert "does not say" not in shown.stderr


async def test_why_a_workload_waits_is_counted_by_the_services_settings(stage: Make) -> None:
    on = await stage("a", settings=counting(), manager_is={"kueue": False}, kinds=SERVED)
    offer(on, gpus="1")
    template(on, "two", "gpu.example.com", count=2)
    submit(on, "job", "two")
    await on.until(lambda: "insufficient quota for gpus" in told(on, "job"), "it asks for more than there is")
    why = partial(CliRunner().invoke, cli, catch_exceptions=False)
    shown = why(["--database-url", on.url, "why", f"job/{NS}/job", "-o", "json"])
    found = json.loads(shown.stdout)["quota"]
    assert found["inadmissible"] == ""
    short = [each["resource"] for one in found["flavors"] for each in one["resources"] if each["missing"] != "0"]
    assert short == ["gpus"]


async def test_who_changed_a_config_can_be_asked(stage: Make) -> None:
    on = await stage("a", "b")
    before = on.manager.store.get(MULTIKUEUE_CONFIGS, "", "multikueue")["spec"]["clusters"]
    on.manager.store.patch(
        MULTIKUEUE_CONFIGS, "", "multikueue", {"spec": {"clusters": ["a"]}}, field_manager="terraform"
    )
    asked = (
        "SELECT old, new, changed_by FROM audit.config_changes WHERE kind = 'MultiKueueConfig' AND change = 'Changed'"
    )
    await on.until(lambda: on.query(asked) == [(before, ["a"], "terraform")], "the change and who made it")
