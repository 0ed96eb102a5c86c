"""The demo's Jobs: found wherever the package is, and such that a real MultiKueue would take them."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

import pytest

from controlplane.kube import durations
from controlplane.local import examples

ROOT = Path(__file__).resolve().parents[2]


def test_twenty_jobs_of_which_one_fails() -> None:
    found = examples.jobs()
    assert len({job["metadata"]["name"] for job in found}) == len(found) == 20
    outcomes = Counter(job["metadata"]["annotations"].get("simulation.controlplane/outcome") for job in found)
    assert outcomes == {None: 19, "fail": 1}


def test_each_is_managed_by_multikueue_and_queued() -> None:
    for job in examples.jobs():
        assert job["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"
        assert job["spec"]["suspend"] is True
        assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "user-queue"
        assert durations.parse(job["metadata"]["annotations"]["simulation.controlplane/duration"]).total_seconds() <= 5


def test_the_wheel_has_them_where_they_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"]["examples"] == "controlplane/_examples"
    others = {source for source in wheel["force-include"] if source != "examples"}
    assert all(source.startswith("deploy/") for source in others), "the rights that doctor asks for, and nothing else"
    package = tmp_path / "site-packages" / "controlplane"
    (package / "_examples" / "demo").mkdir(parents=True)
    monkeypatch.setattr(examples, "_PACKAGE", package)
    assert examples.jobs_file() == package / "_examples" / "demo" / "jobs.yaml"


def test_a_checkout_has_them_beside_the_package() -> None:
    assert examples.examples() == ROOT / "examples"
