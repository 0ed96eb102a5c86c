"""Copies are known by their origin: a service with another one would leave them alone, and dispatch their jobs again
beside them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from controlplane.settings.load import SettingsError
from tests.outages.stage import Stage, running_on_a, settings

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
