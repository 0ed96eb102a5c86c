"""Copies are known by their origin: a service with another one would leave them alone, and dispatch their jobs again
beside them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from controlplane.cli import cli
from controlplane.controllers.multikueue import copy_reads
from controlplane.kube.kinds import JOBS, WORKLOADS
from controlplane.settings import Settings
from controlplane.settings.load import SettingsError
from tests.outages.stage import NS, Stage, check_of, running_on_a, settings
from tests.support.waiting import PATIENCE

MakeStage = Callable[..., Awaitable[Stage]]


async def test_another_origin_is_refused_while_there_are_copies(stage: MakeStage) -> None:
    on = await running_on_a(stage)
    await on.replica.stop()
    position = on.position
    replica = await on.up(ready=False, wanted=settings(origin="another"))
    with pytest.raises(SettingsError) as told:
        await replica.task
    on.replicas.remove(replica)
    assert 'multikueue.origin is "another"' in str(told.value)
    assert 'with "multikueue"' in str(told.value)
    assert "default/" in str(told.value)
    assert on.position == position
    assert on.running_on() == "a"
    await on.up()
    assert on.running_on() == "a"


async def test_another_origin_is_taken_once_all_copies_are_gone(stage: MakeStage) -> None:
    on = await stage("a", "b", roomy=("a",))
    on.submit_for("train", "1s")
    await on.running("a")
    await on.until(lambda: not on.left(), "its copies are gone")
    await on.replica.stop()
    await on.up(wanted=settings(origin="another"))
    on.submit_for("again")
    await on.running(name="again")


def of_new_log(**multikueue: Any) -> Settings:
    """The settings of a service whose log has nothing yet, and which gives up no cluster that it did not reach yet."""
    found = settings(lost=PATIENCE, **multikueue)
    return msgspec.structs.replace(found, database=msgspec.structs.replace(found.database, log="new"))


def remove_copy(on: Stage) -> None:
    """Delete what the cluster a has of the job."""
    store = on.worker("a").store
    for kind in (JOBS, WORKLOADS):
        (found,) = [one for one in store.records(kind) if "train" in one.name]
        store.delete(kind, NS, found.name)


async def test_a_new_log_starts_nothing_beside_a_copy_of_another_origin(
    stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who dispatched it before had an origin that the settings do not have, and no watch shows its copy."""
    monkeypatch.setattr(copy_reads, "_FIRST", timedelta(milliseconds=200))
    on = await running_on_a(stage)
    await on.replica.stop()
    await on.up(wanted=of_new_log(origin="another"))
    on.make_room("b")
    said = (await on.until(lambda: on.said("ObservationRefused", "a"), "what is in the place of the copy"))[0]
    assert said["error"].endswith(
        'it is "multikueue", and multikueue.origin is "another": whoever made it may run its job'
    )
    on.submit_for("beside")
    await on.running(name="beside")
    assert (on.running_on(), on.jobs()) == ("a", {"a"})
    assert check_of(on.workload())["state"] == "Ready"
    told = CliRunner().invoke(
        cli, ["--database-url", on.url, "why", f"job/{NS}/train", "--log", "new"], catch_exceptions=False
    )
    assert "admitted on a, and waits for what is on a to be readable" in told.stdout
    assert 'it is "multikueue", and multikueue.origin is "another"' in told.stdout
    remove_copy(on)
    await on.until(lambda: on.said("WinnerChosen", attempt=1), "it is dispatched again")
    await on.running()


async def test_a_new_log_takes_over_copies_of_its_origin_and_asks_for_none(stage: MakeStage) -> None:
    on = await running_on_a(stage)
    await on.replica.stop()
    on.forget_counts()
    await on.up(wanted=of_new_log())
    on.end("a")
    await on.done()
    assert on.said("CloneAbsent") == on.said("ObservationRefused") == []
    assert on.count("a", "get", WORKLOADS) == 0


async def test_a_copy_that_went_while_there_was_no_log_is_asked_for_and_dispatched_anew(stage: MakeStage) -> None:
    on = await running_on_a(stage)
    await on.replica.stop()
    remove_copy(on)
    await on.up(wanted=of_new_log())
    await on.running()
    assert len(on.said("CloneAbsent", "a")) == 1
