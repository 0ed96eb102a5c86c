"""What LocalQueues use on a worker counts as past usage of their namesakes on the management cluster, between two real
kube-apiservers.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd and `CONTROLPLANE_TEST_CRDS` a folder with Kueue's CRDs.
No Kueue runs on the worker: the test writes the status of its LocalQueue."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import msgspec
import pytest

from controlplane.kube import kinds
from controlplane.kube.kinds import Json, Kind, ObjectRef, Request
from controlplane.kube.quantities import nanos
from controlplane.settings import Settings
from tests.real.pair import NEEDED, Cluster, connected, servers, serving, until, why_not

FILES = (*NEEDED, "cohorts", "resourceflavors", "workloadpriorityclasses")
WHY = why_not(FILES)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)


@pytest.fixture(scope="module")
def kubeconfigs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Json]]:
    with servers(tmp_path_factory.mktemp("usage"), FILES) as found:
        yield found


def over_all_clusters(settings: Settings) -> Settings:
    sharing = msgspec.structs.replace(
        settings.quota.admission_fair_sharing,
        enable="yes",
        usage_half_life_time=timedelta(seconds=60),
        usage_sampling_interval=timedelta(seconds=1),
        worker_usage="yes",
    )
    quota = msgspec.structs.replace(settings.quota, mode="builtin", admission_fair_sharing=sharing)
    return msgspec.structs.replace(settings, quota=quota)


async def create(cluster: Cluster, kind: Kind, name: str, spec: Json, namespace: str = "") -> None:
    place = {"namespace": namespace} if namespace else {}
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **place}, "spec": spec}
    await cluster.api.create(kind, namespace, body)


async def test_what_is_used_on_a_worker_is_told_here(kubeconfigs: dict[str, Json], database_url: str) -> None:
    async with connected(kubeconfigs) as clusters, serving(clusters, database_url, changed=over_all_clusters):
        home, worker = clusters["management"], clusters["worker"]
        flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "8"}]}
        spec = {
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
            "namespaceSelector": {},
            "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
        }
        await create(home, kinds.RESOURCE_FLAVORS, "default", {})
        await create(home, kinds.CLUSTER_QUEUES, "q", spec)
        for name in ("busy", "idle"):
            await create(home, kinds.LOCAL_QUEUES, name, {"clusterQueue": "q"}, "default")
        await create(worker, kinds.LOCAL_QUEUES, "busy", {"clusterQueue": "theirs"}, "default")
        usage = [{"name": "theirs", "resources": [{"name": "cpu", "total": "4"}]}]
        status = {"reservingWorkloads": 1, "admittedWorkloads": 1, "flavorsUsage": usage}
        ref = ObjectRef(kinds.LOCAL_QUEUES, "default", "busy")
        await worker.api.write(Request("patch", ref, {"status": status}, subresource="status"))

        async def consumed(name: str) -> Json:
            found = await home.api.get(kinds.LOCAL_QUEUES, "default", name)
            sharing = found.get("status", {}).get("fairSharing", {}).get("admissionFairSharingStatus", {})
            return dict(sharing.get("consumedResources") or {})

        async def grew() -> bool:
            return nanos((await consumed("busy")).get("cpu", "0")) > 0

        await until("what is used on the worker is told", grew, 30)
        assert nanos((await consumed("busy"))["cpu"]) < nanos("4")
        assert nanos((await consumed("idle")).get("cpu", "0")) == 0
