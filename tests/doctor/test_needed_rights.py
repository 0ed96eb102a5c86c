"""The rights that are asked for: those of the manifests, by the settings; and whatever is watched is among them."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.hosts import hosted
from controlplane.doctor.examine import kinds
from controlplane.doctor.rights import (
    NeededRight,
    needed_as_source,
    needed_on_management,
    needed_on_workers,
    needed_to_send,
)
from controlplane.job_kinds import JOB_KINDS
from controlplane.kube.kinds import LOCAL_QUEUES
from controlplane.kube.watches import WatchSpec
from controlplane.settings import Settings
from controlplane.settings.load import load
from tests.support.rows import each

ALL = ("multikueue", "candidates", "podgroups", "coscheduling")


def chosen(controllers: tuple[str, ...] = ("multikueue",), **values: str) -> Settings:
    environ = {
        "CONTROLPLANE_DATABASE_URL": "postgresql://localhost/x",
        "CONTROLPLANE_RUN_CONTROLLERS": ",".join(controllers),
    }
    environ |= {
        "CONTROLPLANE_CANDIDATES_CLUSTER": "home",
        "CONTROLPLANE_COSCHEDULING_IMAGE": "example.com/nop:1",
    }
    return load(None, environ | {f"CONTROLPLANE_{name.upper()}": value for name, value in values.items()})


def texts(needed: list[NeededRight], *, only_needed: bool = False) -> set[str]:
    return {
        f"{one.right}{f'[{one.right.name}]' if one.right.name else ''}"
        for one in needed
        if one.needed or not only_needed
    }


EVERY_KIND = ",".join(JOB_KINDS)
SETTINGS: list[Settings] = [
    chosen(),
    chosen(multikueue_kinds=EVERY_KIND),
    chosen(multikueue_quota_automation="yes"),
    chosen(quota_mode="builtin"),
    chosen(multikueue_external_frameworks="Render.v1.example.com"),
    chosen(webhook_certificate="/etc/tls.crt"),
    chosen(ALL, multikueue_kinds=EVERY_KIND, candidates_namespace_selector="send=yes"),
    *(chosen((one,)) for one in ALL),
]


def watched(spec: WatchSpec) -> set[str]:
    return {f"{verb} {spec.kind.name}" for verb in ("list", "watch")}


@each("settings", SETTINGS, ids=range(len(SETTINGS)))
def test_whatever_is_watched_is_among_the_rights(settings: Settings) -> None:
    home = {text.partition(" in ")[0].partition("[")[0] for text in texts(needed_on_management(settings))}
    workers = {text.partition(" in ")[0].partition("[")[0] for text in texts(needed_on_workers(settings))}
    for one in hosted(settings):
        for spec in one.home:
            assert watched(spec) <= home, spec
        for spec in one.workers:
            assert watched(spec) <= workers, spec


def test_each_right_is_asked_for_once_and_has_a_manifest() -> None:
    settings = SETTINGS[5]
    for needed in (needed_on_management(settings), needed_on_workers(settings)):
        rights = [one.right for one in needed]
        assert len(rights) == len(set(rights))
        assert all(one.manifest.startswith("deploy/") for one in needed)


def test_secrets_are_asked_for_in_the_namespace_of_the_settings() -> None:
    assert {"list secrets in kueue-system", "get namespaces[kube-system]"} <= texts(needed_on_management(chosen()))
    elsewhere = texts(needed_on_management(chosen(multikueue_namespace="fleet")))
    assert "watch secrets in fleet" in elsewhere
    assert not [one for one in elsewhere if one.startswith("watch secrets") and "fleet" not in one]


@each(
    ("more", "place", "right"),
    [
        ({"multikueue_kinds": "ray.io/rayjob"}, "home", "patch rayjobs.ray.io/status"),
        ({"multikueue_kinds": "ray.io/rayservice"}, "worker", "patch rayservices.ray.io"),
        ({"multikueue_external_frameworks": "Render.v1.example.com"}, "worker", "create renders.example.com"),
        ({"multikueue_quota_automation": "yes"}, "home", "patch clusterqueues.kueue.x-k8s.io"),
        ({"quota_mode": "builtin"}, "home", "patch localqueues.kueue.x-k8s.io/status"),
        ({"quota_mode": "builtin"}, "home", "create workloads.kueue.x-k8s.io"),
        ({"quota_mode": "builtin"}, "home", "update jobs.batch/finalizers"),
        ({"multikueue_quota_automation": "yes"}, "worker", "list localqueues.kueue.x-k8s.io"),
        (
            {"multikueue_cluster_profile_enabled": "yes"},
            "home",
            "list clusterprofiles.multicluster.x-k8s.io in kueue-system",
        ),
        ({"webhook_certificate": "/tls.crt"}, "home", "watch localqueues.kueue.x-k8s.io"),
    ],
)
def test_what_is_asked_for_follows_from_the_settings(more: dict[str, Any], place: str, right: str) -> None:
    needed = {"home": needed_on_management, "worker": needed_on_workers}[place]
    assert right in texts(needed(chosen(**more)))
    assert right not in texts(needed(chosen()))


def test_what_only_judges_runs_is_not_needed() -> None:
    runs = needed_on_workers(chosen(multikueue_kinds="tekton.dev/pipelinerun"))
    assert "create pipelineruns.tekton.dev" in texts(runs, only_needed=True)
    assert "list nodes" in texts(runs)
    assert "list nodes" not in texts(runs, only_needed=True)


def test_the_kinds_are_those_that_are_watched() -> None:
    home, workers = kinds(chosen(("podgroups",)))
    assert LOCAL_QUEUES not in home
    assert workers == []
    home, workers = kinds(chosen())
    assert LOCAL_QUEUES in home
    assert {kind.kind for kind in workers} == {"Workload", "Job", "JobSet", "LocalQueue"}


def test_candidates_alone_need_nothing_that_dispatching_does() -> None:
    alone = texts(needed_on_management(chosen(("candidates",))), only_needed=True)
    assert "list multikueueclusters.kueue.x-k8s.io" in alone
    assert "patch multikueueclusters.kueue.x-k8s.io/status" in alone
    assert "create events.events.k8s.io" in alone
    assert any(one.startswith("get namespaces") for one in alone)
    others = {"workloads", "admissionchecks", "multikueueconfigs", "clusterqueues"}
    assert [one for one in alone if any(f" {other}." in one for other in others)] == []
    both = texts(needed_on_management(chosen(("multikueue", "candidates"))), only_needed=True)
    assert alone | {f"patch {other}.kueue.x-k8s.io/status" for other in ("workloads", "admissionchecks")} <= both


def test_what_is_bound_in_single_namespaces_is_asked_for_in_each() -> None:
    sends = chosen(("candidates",))
    home, target = needed_to_send(sends, ["b", "a", "a"]), needed_as_source(sends, ["a"])
    assert texts(home) == {f"{verb} {what} in {ns}" for verb in VERBS for what in FOLLOWED for ns in "ab"}
    assert texts(home, only_needed=True) == set()
    assert {f"{verb} candidates.candidates.controlplane.dev in a" for verb in WRITES} == texts(target, only_needed=True)
    assert {one.manifest for one in target} == {"deploy/candidates/target/clusterrole.yaml"}
    assert {one.bind for one in target} == {f"controlplane-candidate-source{more}" for more in ("", "-follow")}
    assert {one.bind for one in home} == {"controlplane-candidates-follow"}
    assert len(texts(target)) == 3 * len(WRITES)
    alone = chosen(("candidates",), candidates_follow="no")
    assert needed_to_send(alone, ["a"]) == []
    assert len(texts(needed_as_source(alone, ["a"]))) == len(WRITES)
    assert {one.right.namespace for one in needed_as_source(sends, [""])} == {""}
    assert needed_as_source(chosen(), ["a"]) == needed_to_send(chosen(), ["a"]) == []


VERBS, FOLLOWED = ("get", "list", "watch"), ("configmaps", "secrets")
WRITES = (*VERBS, "create", "patch", "delete")


@pytest.mark.parametrize("kinds", ["batch/job", EVERY_KIND])
def test_what_dispatching_needs_is_asked_for_as_well_where_quota_is_decided_on_here(kinds: str) -> None:
    builtin = chosen(quota_mode="builtin", multikueue_kinds=kinds, multikueue_pod_gate="own")
    without = chosen(multikueue_kinds=kinds)
    assert texts(needed_on_management(without)) - texts(needed_on_management(builtin)) == set()
