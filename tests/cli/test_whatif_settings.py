"""`whatif` of logs of other settings: of a dispatcher that is no part of the program, and of settings that changed."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from click.testing import CliRunner

from controlplane.cli import cli
from controlplane.controllers.connectivity.events import PolicyInForce
from tests.audit.database import keep
from tests.cli.test_audit_verbs import fails
from tests.cli.test_whatif import QUEUED, asked, invoke
from tests.dst.plans import plan, step
from tests.support import postgres
from tests.whatif.logs import played


def test_a_dispatcher_that_is_somebody_else_s_cannot_be_played(
    capsys: pytest.CaptureFixture[str], postgres_server: postgres.Server, migrated_template: str
) -> None:
    name = postgres.new_name("foreign")
    made = postgres_server.create(name, migrated_template)
    try:
        events = [
            msgspec.structs.replace(one, event=msgspec.structs.replace(one.event, dispatcher="example.com/nominator"))
            if isinstance(one.event, PolicyInForce)
            else one
            for one in played(QUEUED)[:60]
        ]
        asyncio.run(keep(made, events))
        code, text = fails(capsys, made, "whatif")
        assert (code, "clusters were nominated by example.com/nominator, which is no part" in text) == (5, True)
    finally:
        postgres_server.drop(name)


ROLLED_OUT = plan(*QUEUED.steps[:12], step(30, "rollout", "", 0, 1))


def test_settings_that_changed_are_told(postgres_server: postgres.Server, migrated_template: str) -> None:
    """What came after is played by those before; a time that begins later by those that were in force then."""
    name = postgres.new_name("rollout")
    made = postgres_server.create(name, migrated_template)
    try:
        events = played(ROLLED_OUT)
        asyncio.run(keep(made, events))
        policies = [one for one in events if isinstance(one.event, PolicyInForce)]
        found = asked(made)[1]["settings_changed"]
        assert len(found) == 1
        said = invoke(made).stdout
        assert "The settings changed at 2026-01-01 00:00:" in said
        after = asked(made, "--from", str(policies[-1].position + 1))[1]
        assert (after["settings_changed"], after["placements"]["share"]) == ([], 1.0)
        result = CliRunner().invoke(cli, ["--database-url", made, "diff-decisions"], standalone_mode=False)
        assert (result.return_value, "0 differences" in result.stdout) == (0, True), result.stdout
    finally:
        postgres_server.drop(name)
