"""Workers that are reached by ClusterProfiles: a real command logs in, and what becomes of it when it, the profile or
the kind goes."""

from __future__ import annotations

import functools
import json
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from controlplane.clusters.pace import Pace
from controlplane.kube.kinds import CLUSTER_PROFILES, MULTIKUEUE_CLUSTERS
from controlplane.runtime import term
from controlplane.settings.access_providers import AccessProvider, ExecConfig
from controlplane.settings.multikueue import ClusterProfiles
from controlplane.simulation.world import KUEUE_NAMESPACE
from tests.outages.stage import Stage, settings

Make = Callable[..., Awaitable[Stage]]
V1 = "client.authentication.k8s.io/v1"
FAILED = "load client config failed: "


class Login:
    """The command that logs in to a simulated worker: it prints its token."""

    def __init__(self, folder: Path) -> None:
        self.path, self._said = folder / "login", folder / "said"

    def say(self, token: str) -> None:
        self._said.write_text(json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": {"token": token}}))
        self.path.write_text(f"#!/bin/sh\nexec cat {self._said}\n")
        self.path.chmod(self.path.stat().st_mode | stat.S_IXUSR)

    def fail(self) -> None:
        self._said.unlink()

    @property
    def settings(self) -> ClusterProfiles:
        return ClusterProfiles(access_providers=(AccessProvider("simulated", ExecConfig(str(self.path), V1)),))


def refer(on: Stage, cluster: str, profile: str) -> None:
    """Let a MultiKueueCluster name a ClusterProfile."""
    source = {"kubeConfig": None, "clusterProfileRef": {"name": profile}}
    on.manager.store.patch(MULTIKUEUE_CLUSTERS, "", cluster, {"spec": {"clusterSource": source}})


def profile_of(on: Stage, cluster: str, name: str) -> dict[str, Any]:
    server = on.worker(cluster).server.kubeconfig()["clusters"][0]["cluster"]
    access = {"accessProviders": [{"name": "simulated", "cluster": server}]}
    return {"metadata": {"namespace": KUEUE_NAMESPACE, "name": name}, "spec": {}, "status": access}


def put_profile(on: Stage, cluster: str, name: str) -> None:
    wanted = profile_of(on, cluster, name)
    on.manager.store.create(CLUSTER_PROFILES, wanted)
    on.manager.store.patch(CLUSTER_PROFILES, KUEUE_NAMESPACE, name, {"status": wanted["status"]}, subresource="status")


async def said(on: Stage, cluster: str, reason: str, message: str) -> None:
    await on.until(lambda: on.lost(cluster) and on.why(cluster)[0] == reason, f"{reason}")
    await on.until(lambda: on.why(cluster)[1].startswith(message), message)


async def test_a_job_runs_on_the_cluster_of_a_profile(stage: Make, tmp_path: Path) -> None:
    login = Login(tmp_path)
    on = await stage("a", "b", roomy=("a",), settings=settings(lost=3600, cluster_profile=login.settings))
    login.say(on.worker("a").token)
    refer(on, "a", "p")
    await said(on, "a", "BadClusterProfile", f'{FAILED}ClusterProfile.multicluster.x-k8s.io "p" not found')
    put_profile(on, "a", "p")
    await on.until(lambda: on.active("a"), "connected by the profile")
    on.submit()
    await on.running("a")
    on.manager.store.delete(CLUSTER_PROFILES, KUEUE_NAMESPACE, "p")
    await said(on, "a", "BadClusterProfile", f'{FAILED}ClusterProfile.multicluster.x-k8s.io "p" not found')
    put_profile(on, "a", "p")
    await on.until(lambda: on.active("a"), "back")
    on.end("a")
    await on.done()
    assert on.witness.starts["train"] == ["a"]


async def test_a_command_that_fails_is_a_lost_cluster_and_not_a_lost_job(stage: Make, tmp_path: Path) -> None:
    login = Login(tmp_path)
    on = await stage("a", "b", roomy=("a",), settings=settings(lost=3600, cluster_profile=login.settings))
    login.say("wrong")
    refer(on, "a", "p")
    put_profile(on, "a", "p")
    await said(on, "a", "ClientConnectionFailed", "")
    login.fail()
    await on.until(lambda: "getting credentials: exec: executable" in on.why("a")[1], "the command's failure")
    assert "wrong" not in on.why("a")[1]
    login.say(on.worker("a").token)
    await on.until(lambda: on.active("a"), "connected")
    on.submit()
    await on.running("a")


async def test_without_providers_the_profile_is_not_enough(stage: Make) -> None:
    on = await stage("a", "b", settings=settings(cluster_profile=ClusterProfiles(enabled="yes")))
    refer(on, "a", "p")
    await said(on, "a", "BadClusterProfile", f'{FAILED}ClusterProfile.multicluster.x-k8s.io "p" not found')
    put_profile(on, "a", "p")
    await said(on, "a", "BadClusterProfile", f"{FAILED}no access provider configured")


async def test_the_kind_may_come_later(stage: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(term, "Pace", functools.partial(Pace, off_retry=0.5))
    login = Login(tmp_path)
    on = await stage("a", "b", settings=settings(cluster_profile=login.settings))
    served = on.manager.store.served
    kind = served.pop(CLUSTER_PROFILES)
    await on.kill()
    await on.up()
    refer(on, "a", "p")
    missing = f'{FAILED}no matches for kind "ClusterProfile" in version "multicluster.x-k8s.io/v1alpha1"'
    await said(on, "a", "BadClusterProfile", missing)
    served[CLUSTER_PROFILES] = kind
    login.say(on.worker("a").token)
    put_profile(on, "a", "p")
    await on.until(lambda: on.active("a"), "connected")


async def test_where_profiles_are_off_the_condition_says_so(stage: Make) -> None:
    on = await stage("a", "b")
    refer(on, "a", "p")
    put_profile(on, "a", "p")
    disabled = f"{FAILED}MultiKueueClusterProfile feature gate is disabled"
    await said(on, "a", "MultiKueueClusterProfileFeatureDisabled", disabled)
