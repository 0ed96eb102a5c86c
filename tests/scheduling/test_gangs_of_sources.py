"""Gangs of two sources that name a PodGroup alike, end to end: each has its own quorum, and its own pods for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.controllers.candidates.objects import (
    CANDIDATE_SOURCES,
    CANDIDATES,
    FINALIZER,
    SOURCE_LABEL,
    SOURCE_UID,
)
from controlplane.kube.candidate_pods import SOURCE
from controlplane.kube.kinds import PODS, Json
from controlplane.kube.pod_groups import GROUP_NAME
from tests.scheduling.stage import Cluster, staged, until
from tests.scheduling.test_candidates import Source
from tests.scheduling.test_gangs import config


class Of(Source):
    """One of several sources; its candidates are named by it. `speaks_as`: the name that its settings give it, `uid`:
    the cluster that its candidates say that they come from."""

    def __init__(self, cluster: Cluster, name: str, *, speaks_as: str = "", uid: str = "") -> None:
        super().__init__(cluster)
        self.name, self.speaks_as, self.uid = name, speaks_as or name, uid
        head, spec = {"name": name, "namespace": "default"}, {"cluster": self.speaks_as, "podSecurity": "baseline"}
        self.store.create(CANDIDATE_SOURCES, {"metadata": head, "spec": spec})

    def gang(self, size: int, least: int) -> list[str]:
        names = [f"{self.name}-{number}" for number in range(size)]
        for name in names:
            self.store.create(CANDIDATES, self._candidate(name, least))
        return names

    def _candidate(self, name: str, least: int) -> Json:
        container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}
        template = {"metadata": {"annotations": {GROUP_NAME: "g"}}, "spec": {"containers": [container]}}
        source = {"cluster": self.speaks_as, "namespace": "default", "name": name, "uid": f"uid-{name}", "epoch": 1}
        head = {"name": name, "namespace": "default", "labels": {SOURCE_LABEL: self.speaks_as}}
        head |= {"finalizers": [FINALIZER], "annotations": {SOURCE_UID: self.uid} if self.uid else {}}
        return {"metadata": head, "spec": {"source": source, "template": template, "minMember": least}}


@pytest.mark.parametrize("name", ["", "campus"])
async def test_members_of_one_source_complete_no_gang_of_another(database_url: str, tmp_path: Path, name: str) -> None:
    """Also where both clusters were given one name: their Candidates say which one made them."""
    async with staged(database_url, config=config(tmp_path)) as stage:
        cluster = stage.cluster
        cluster.node("n", cpu="8")
        two, three = (Of(cluster, one, speaks_as=name, uid=f"uid-{one}" if name else "") for one in ("two", "three"))
        await stage.replica()
        short = three.gang(2, 3)
        whole = two.gang(2, 2)
        await until(lambda: all(two.phase(name) == "Reserved" for name in whole))
        await until(lambda: all(cluster.condition(name).get("reason") == "SchedulingGated" for name in short))
        assert {three.phase(name) for name in short} == {"Unschedulable"}
        for name in whole:
            two.permits(name)
        await until(lambda: all(cluster.on(name) for name in whole))
        assert {three.phase(name) for name in short} == {"Unschedulable"}
        three.store.create(CANDIDATES, three._candidate("three-2", 3))
        await until(lambda: all(three.phase(f"three-{number}") == "Reserved" for number in range(3)))


async def test_pods_that_an_earlier_version_made_are_told_their_source_and_come_together(
    database_url: str, tmp_path: Path
) -> None:
    async with staged(database_url, config=config(tmp_path)) as stage:
        cluster = stage.cluster
        cluster.node("n", cpu="8")
        one, other = Of(cluster, "one"), Of(cluster, "other")
        replica = await stage.replica()
        mine, theirs = one.gang(2, 3), other.gang(2, 3)
        everybody = [*mine, *theirs]
        await until(lambda: all(name in cluster.pods() for name in everybody))
        await replica.end()
        for name in everybody:
            cluster.store.patch(PODS, "default", name, {"metadata": {"annotations": {SOURCE: None}}})
        await stage.replica()
        await until(lambda: all(SOURCE in cluster.get(name)["metadata"]["annotations"] for name in everybody))
        one.store.create(CANDIDATES, one._candidate("one-2", 3))
        await until(lambda: all(one.phase(f"one-{number}") == "Reserved" for number in range(3)))
        assert "Reserved" not in {other.phase(name) for name in theirs}


async def test_a_gang_that_runs_since_before_its_candidates_said_their_cluster_goes_on(
    database_url: str, tmp_path: Path
) -> None:
    """One that has lost a member is known to have come together by the log alone, under the name of its source."""
    async with staged(database_url, config=config(tmp_path)) as stage:
        cluster = stage.cluster
        cluster.node("n", cpu="8")
        one = Of(cluster, "one", speaks_as="campus")
        replica = await stage.replica()
        for name in one.gang(2, 2):
            await until(lambda name=name: one.phase(name) == "Reserved")
            one.permits(name)
        await until(lambda: all(cluster.on(f"one-{number}") for number in range(2)))
        await until(lambda: stage.recorded("scheduler", "gang/default/g/campus") > 0)
        one.store.delete(CANDIDATES, "default", "one-0")
        await until(lambda: "one-0" not in cluster.pods())
        one.uid = "u1"

        async def joins(name: str) -> None:
            one.store.create(CANDIDATES, one._candidate(name, 2))
            await until(lambda: one.phase(name) == "Reserved")
            one.permits(name)
            await until(lambda: cluster.on(name))

        await replica.end()
        replica = await stage.replica()
        await joins("one-2")
        assert stage.recorded("scheduler", "gang/default/g/campus/u1") > 0
        other = Of(cluster, "other", speaks_as="campus", uid="u2")
        (alone,) = other.gang(1, 2)
        await until(lambda: alone in cluster.pods() and cluster.condition(alone).get("reason") == "SchedulingGated")
        await replica.end()
        await stage.replica()
        await joins("one-3")
        assert cluster.condition(alone).get("reason") == "SchedulingGated"
