"""The benchmark of the scheduler on a real API server runs, with few nodes and pods: what it prints has every row."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import __main__ as benchmarks
from benchmarks import real_scheduler
from tests.simulation.contract import realserver

WHY = realserver.missing()
FEW = ["real-scheduler", "--real-nodes", "3", "--real-pods", "4", "--real-rate", "20"]


async def test_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    await real_scheduler.run(benchmarks.parser().parse_args(FEW))
    assert capsys.readouterr().out == "real-scheduler: left out, since KUBEBUILDER_ASSETS is not set\n"


@pytest.mark.skipif(bool(WHY), reason=WHY)
@pytest.mark.timeout(240)
async def test_it_measures_a_few_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.chmod(0o711)
    await real_scheduler.run(benchmarks.parser().parse_args(FEW))
    said = capsys.readouterr().out
    for row in (
        "start to first bind, s",
        "plain, 20/s: commits a pod",
        "spread, backlog: pods/s",
        "create pods/binding",
    ):
        assert row in said
