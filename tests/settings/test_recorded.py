"""What decides about quota is written to the log as a settings file has it, and read from it whoever reads."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from controlplane.controllers.quota.admission.hosting import engine_settings
from controlplane.settings import LEAVES, Settings, load
from controlplane.settings.recorded import recorded_quota, with_recorded_quota

FILE = """
quota:
  mode: builtin
  readmissionOrder: Timestamp
  dynamicResources: Count
  fairSharing: {enable: yes, preemptionStrategies: [LessThanInitialShare]}
  admissionFairSharing: {enable: yes, usageHalfLifeTime: 2h, resourceWeights: {cpu: 2, nvidia.com/gpu: 0.123456789, memory: 12345678}}
  waitForPodsReady: {enable: yes, timeout: 5m, requeuingStrategy: {backoffLimitCount: 3}}
  objectRetention: {afterFinished: never, afterDeactivated: 1h}
  metrics: {localQueues: no}
  resources:
    excludeResourcePrefixes: [example.com/]
    transformations:
    - {input: nvidia.com/mig-1g.5gb, strategy: Replace, outputs: {example.com/memory: 5Gi}}
    deviceClassMappings:
    - {name: gpus, deviceClassNames: [gpu.example.com]}
"""


def settings(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    return load(path, {})


def test_what_is_recorded_comes_back_whoever_reads(tmp_path: Path) -> None:
    service, reader = settings(tmp_path, FILE), Settings()
    recorded = json.loads(json.dumps(recorded_quota(service)))
    found = with_recorded_quota(reader, recorded)
    own = reader.quota
    assert found.quota == msgspec.structs.replace(service.quota, metrics=own.metrics, visibility=own.visibility)
    assert msgspec.structs.replace(found, quota=own) == reader


def test_gates_are_kept_to_as_by_the_service(tmp_path: Path) -> None:
    recorded = recorded_quota(settings(tmp_path, FILE))
    for says in (True, False):
        reader = settings(
            tmp_path,
            f"multikueue: {{orchestratedPreemption: {not says}}}".replace("True", "yes").replace("False", "no"),
        )
        found = with_recorded_quota(reader, recorded, orchestrated_preemption=says)
        assert engine_settings(found).preemption_gates is says


def test_every_setting_of_the_section_is_recorded_but_those_of_the_process(tmp_path: Path) -> None:
    recorded = recorded_quota(settings(tmp_path, FILE))
    for leaf in LEAVES:
        section, *path = leaf.key.split(".")
        if section == "quota" and path[0] not in ("metrics", "visibility"):
            value: object = recorded
            for name in path:
                assert isinstance(value, dict)
                value = value[name]
            assert leaf.setting.rule.read(value) == leaf.of(settings(tmp_path, FILE)), leaf.key


@pytest.mark.parametrize("mode", ["kueue", "builtin"])
def test_a_log_that_does_not_say_leaves_the_readers_own(tmp_path: Path, mode: str) -> None:
    reader = settings(tmp_path, FILE.replace("mode: builtin", f"mode: {mode}"))
    assert with_recorded_quota(reader, {}) == reader


def test_nothing_is_recorded_where_kueue_decides() -> None:
    assert recorded_quota(Settings()) == {}


def test_what_a_later_version_recorded_otherwise_is_left_out(tmp_path: Path) -> None:
    recorded = recorded_quota(settings(tmp_path, FILE))
    recorded |= {"readmissionOrder": "Random", "fairSharing": ["yes"], "later": {"a": 1}}
    found = with_recorded_quota(Settings(), recorded).quota
    assert (found.mode, found.readmission_order, found.fair_sharing.enable) == ("builtin", "LongestRun", "no")
    assert found.wait_for_pods_ready.enable == "yes"
