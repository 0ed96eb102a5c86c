"""The example's manifests are what the code takes: no field that nobody reads, no pod that would be refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from controlplane.controllers.candidates.objects import CANDIDATE_SOURCES, CANDIDATE_TARGETS, PODS
from controlplane.controllers.candidates.source.observations import SourcePodObserved
from controlplane.controllers.candidates.source.observe import source_pod
from controlplane.kube.kinds import Json
from controlplane.settings import load
from tests.candidates.test_manifests import schema, unknown

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "candidates"


def of_kind(manifest: str, kind: str) -> list[Json]:
    return [obj for obj in yaml.safe_load_all((EXAMPLE / manifest).read_text()) if obj["kind"] == kind]


def test_the_settings_can_be_used_and_name_the_cluster_that_is_invited() -> None:
    settings = load(EXAMPLE / "settings.yaml", {})
    (invitation,) = of_kind("target.yaml", CANDIDATE_SOURCES.kind)
    assert "candidates" in settings.run.controllers
    assert invitation["spec"]["cluster"] == settings.candidates.cluster


def test_targets_fit_their_definition() -> None:
    targets = of_kind("source.yaml", CANDIDATE_TARGETS.kind)
    assert [target["spec"]["cluster"] for target in targets] == ["east", "west"]
    for target in targets:
        assert unknown(target["spec"], schema(CANDIDATE_TARGETS)["properties"]["spec"]) == []


@pytest.mark.parametrize("pod", of_kind("source.yaml", PODS.kind), ids=lambda pod: pod["metadata"]["name"])
def test_pods_are_taken(pod: Json) -> None:
    pod["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    _, event, _ = source_pod(pod)
    assert isinstance(event, SourcePodObserved)
    assert event.problem == ""
