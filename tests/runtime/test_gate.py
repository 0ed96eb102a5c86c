"""The gate: closed for as long as any one reason is left."""

from __future__ import annotations

import asyncio

from controlplane.runtime.gate import Gate
from tests.runtime.bench import settle


async def test_a_gate_opens_when_the_last_reason_against_is_gone() -> None:
    gate = Gate()
    assert gate.is_open
    gate.set("log", ok=False, detail="connection refused")
    gate.set("leader", ok=False)
    assert (gate.against("log"), gate.against("leader"), gate.against("other")) == ("connection refused", "", None)
    passing = [asyncio.create_task(gate.passed()) for _ in range(3)]
    gate.set("log", ok=True)
    await settle()
    assert not gate.is_open
    assert not any(task.done() for task in passing)
    gate.set("leader", ok=True)
    await settle()
    assert gate.is_open
    assert all(task.done() for task in passing)


async def test_one_reason_counts_once() -> None:
    gate = Gate()
    gate.set("log", ok=False, detail="once")
    gate.set("log", ok=False, detail="twice")
    assert gate.against("log") == "twice"
    gate.set("log", ok=True)
    gate.set("log", ok=True)
    assert gate.is_open
