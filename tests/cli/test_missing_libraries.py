"""What needs a library that is not installed says so in one sentence, with what to install, before anything begins."""

from __future__ import annotations

import msgspec
import pytest

from controlplane.__main__ import run
from controlplane.cli.errors import CommandFailure, Exit
from controlplane.cli.run import tracing
from controlplane.pages import beside
from controlplane.runtime import otel
from controlplane.settings import Settings
from controlplane.settings.tracing import TracingSettings

TRACED = msgspec.structs.replace(Settings(), tracing=TracingSettings(endpoint="http://127.0.0.1:1/v1/traces"))


def test_a_library_whose_package_is_not_there_is_missing_as_one_that_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert otel.missing_library() == ""
    monkeypatch.setattr(otel, "_LIBRARIES", ("controlplane", "no_such_package.part"))
    assert otel.missing_library() == "no_such_package.part"
    monkeypatch.setattr(otel, "_LIBRARIES", ("controlplane.no_such_part",))
    assert otel.missing_library() == "controlplane.no_such_part"


async def test_spans_without_their_library_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otel, "_LIBRARIES", ("no_such_package.part",))
    with pytest.raises(CommandFailure) as refused:
        async with tracing(TRACED, "main"):
            raise AssertionError("nothing begins")
    assert str(refused.value) == (
        "tracing.endpoint: spans need no_such_package.part, which is not installed: install controlplane[otel]"
    )
    assert refused.value.code == Exit.CONFIGURATION


async def test_nobody_who_sends_no_spans_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otel, "_LIBRARIES", ("no_such_package.part",))
    async with tracing(Settings(), "main") as spans:
        assert spans is None


def test_a_demo_does_not_stay_where_nobody_could_open_a_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says so at once, and not after it has played for half a minute."""
    assert run(["demo", "--stay", "-o", "json"]) == 2
    assert "--stay is for people, and goes without -o: leave one of them out" in capsys.readouterr().err
    monkeypatch.setattr(beside, "_LIBRARIES", ("no_such_package",))
    assert run(["demo", "--stay"]) == 3
    assert "--stay: the pages need no_such_package: install controlplane[web]" in capsys.readouterr().err
