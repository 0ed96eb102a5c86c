"""The `Active` condition of an AdmissionCheck, to Kueue's letter."""

from __future__ import annotations

import pytest

from tests.multikueue.active import CHECK_STREAM, active, decided
from tests.multikueue.scene import Scene


def test_a_check_whose_clusters_are_all_active() -> None:
    scene = Scene("a", "b")
    active(scene, "a")
    active(scene, "b")
    assert decided(scene, CHECK_STREAM) == ("True", "Active", "The admission check is active")


def test_a_check_with_some_active_clusters() -> None:
    scene = Scene("a", "b")
    scene.config("a", "gone", "b", "lost")
    active(scene, "a")
    active(scene, "b", value=False)
    assert decided(scene, CHECK_STREAM) == (
        "True",
        "SomeActiveClusters",
        "Missing clusters: [gone lost], Inactive clusters: [b]",
    )


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        (["x", "y"], "Missing clusters: [x y]"),
        (["b", "a"], "Inactive clusters: [b a]"),
        (["b", "x", "a"], "Missing clusters: [x], Inactive clusters: [b a]"),
    ],
)
def test_a_check_without_usable_clusters_in_the_configs_order(clusters: list[str], message: str) -> None:
    scene = Scene("a", "b")
    scene.config(*clusters)
    assert decided(scene, CHECK_STREAM) == ("False", "NoUsableClusters", message)


def test_what_counts_is_the_stored_condition_not_the_connection() -> None:
    scene = Scene("a")
    assert decided(scene, CHECK_STREAM) == ("False", "NoUsableClusters", "Inactive clusters: [a]")


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        (
            {"apiGroup": "x", "kind": "MultiKueueConfig", "name": "config"},
            'spec.parameters.apiGroup: "x" should be "kueue.x-k8s.io"',
        ),
        (
            {"apiGroup": "kueue.x-k8s.io", "kind": "ConfigMap", "name": "config"},
            'spec.parameters.kind: "ConfigMap" should be "MultiKueueConfig"',
        ),
        (
            {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "other"},
            'MultiKueueConfig.kueue.x-k8s.io "other" not found',
        ),
    ],
)
def test_a_check_whose_config_cannot_be_loaded(parameters: dict[str, str], why: str) -> None:
    scene = Scene("a")
    scene.check(**parameters)
    assert decided(scene, CHECK_STREAM) == (
        "False",
        "BadConfig",
        f"Cannot load the AdmissionChecks parameters: {why}",
    )


def test_a_check_of_another_controller_is_left_alone() -> None:
    scene = Scene("a")
    scene.check(controller="kueue.x-k8s.io/provisioning-request")
    assert decided(scene, CHECK_STREAM) is None


def test_a_check_is_looked_at_again_when_what_it_depends_on_changes() -> None:
    scene = Scene("a")
    active(scene, "a")
    scene.fleet.take_dirty()
    scene.config("a", "b")
    assert CHECK_STREAM in scene.fleet.take_dirty()
    active(scene, "a", value=False)
    assert CHECK_STREAM in scene.fleet.take_dirty()
    scene.check()
    assert CHECK_STREAM in scene.fleet.take_dirty()


def test_the_same_condition_of_a_check_is_not_written_again() -> None:
    scene = Scene("a")
    active(scene, "a")
    assert decided(scene, CHECK_STREAM) is not None
    assert decided(scene, CHECK_STREAM) is None
    scene.fleet.take_dirty()
    active(scene, "a")
    assert decided(scene, CHECK_STREAM) is None
