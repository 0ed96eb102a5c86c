"""The webhook of jobs, asked by a real kube-apiserver by the configuration that is shipped: what it stores of a Job, a
Pod and a StatefulSet, and what is created while nobody answers.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd and `CONTROLPLANE_TEST_CRDS` a folder with Kueue's
CRDs."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from controlplane.app.admission import answers
from controlplane.clock import SystemClock
from controlplane.clusters.kubeconfig import parse_kubeconfig
from controlplane.clusters.transport import Transport
from controlplane.job_kinds.gated import HELD
from controlplane.kube import kinds
from controlplane.kube.kinds import Json, Kind, ObjectRef, Request
from controlplane.kube.kueue_names import MULTIKUEUE, ORIGIN_LABEL, QUEUE_LABEL
from controlplane.settings import Settings
from controlplane.settings.model import WebhookSettings
from controlplane.web import Certificate, Webhook, serve_webhook
from tests.clusters import pki
from tests.deploy.manifests import one, render
from tests.outages.stage import Replica, keep_tasks_apart
from tests.real.pair import CRDS, NEEDED, WHY, install, kubeconfig_of, until
from tests.real.test_real_service import TEMPLATE
from tests.simulation.contract import realserver

pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
CONFIGURATION = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    namespaced=False,
)


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("webhook")
    with realserver.running(folder) as server:
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig_of(server, folder)))
        install(path, [next(Path(CRDS).glob(f"*_{kind}.yaml")) for kind in NEEDED])
        yield path


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[Transport]:
    found = Transport("@management", parse_kubeconfig(kubeconfig.read_bytes()))
    yield found
    await found.close()


@pytest.fixture
async def hook(kubeconfig: Path, api: Transport, database_url: str, tmp_path: Path) -> AsyncIterator[Webhook]:
    """The service on that API server, the shipped configuration there, and queues that lead to our check and
    elsewhere."""
    keep_tasks_apart()
    pki.make(tmp_path, "IP:127.0.0.1")
    certificate, key = str(tmp_path / "server.crt"), str(tmp_path / "server.key")
    wanted = msgspec.structs.replace(Settings(), webhook=WebhookSettings(certificate=certificate, key=key))
    kinds_ = ("batch/job", "pod", "statefulset")
    wanted = msgspec.structs.replace(wanted, multikueue=msgspec.structs.replace(wanted.multikueue, kinds=kinds_))
    replica = Replica(database_url, kubeconfig, wanted, "real")
    served = await serve_webhook(
        answers(wanted, replica.service, SystemClock(), replica.metrics), Certificate(certificate, key), "127.0.0.1", 0
    )
    await queues(api)

    async def known() -> bool:
        fleet = replica.service.fleet
        return fleet is not None and fleet.index.leads_to_us("default", "ours") is True

    await until("the queues to be known", known, 60)
    configuration = one(render("deploy/multikueue-webhook"), "MutatingWebhookConfiguration")
    for each in configuration["webhooks"]:
        path = each["clientConfig"].pop("service")["path"]
        authority = base64.b64encode((tmp_path / "ca.crt").read_bytes()).decode()
        each["clientConfig"] = {"url": f"https://127.0.0.1:{served.port}{path}", "caBundle": authority}
    await api.create(CONFIGURATION, "", configuration)
    yield served
    await served.stop()
    await replica.stop()


async def queues(api: Transport) -> None:
    check = {"controllerName": MULTIKUEUE}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": 1}]}]}
    strategy = {"admissionChecksStrategy": {"admissionChecks": [{"name": "multikueue"}]}}
    made: list[tuple[Kind, str, str, Json]] = [
        (kinds.ADMISSION_CHECKS, "", "multikueue", check),
        (kinds.CLUSTER_QUEUES, "", "dispatches", {"resourceGroups": [group], "namespaceSelector": {}, **strategy}),
        (kinds.CLUSTER_QUEUES, "", "stays", {"resourceGroups": [group], "namespaceSelector": {}}),
        (kinds.LOCAL_QUEUES, "default", "ours", {"clusterQueue": "dispatches"}),
        (kinds.LOCAL_QUEUES, "default", "theirs", {"clusterQueue": "stays"}),
    ]
    for kind, namespace, name, spec in made:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
        await api.create(kind, namespace, body)


def labels(queue: str) -> Json:
    return {QUEUE_LABEL: queue}


def job(name: str, queue: str, **more: str) -> Json:
    spec = {"suspend": True, "template": TEMPLATE}
    metadata = {"name": name, "namespace": "default", "labels": {**labels(queue), **more}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


async def test_what_an_api_server_stores(hook: Webhook, api: Transport) -> None:
    async def asked() -> bool:
        # A configuration takes a moment until it is in force.
        name = f"probe-{len(tried)}"
        tried.append(name)
        return bool((await api.create(kinds.JOBS, "default", job(name, "ours")))["spec"].get("managedBy") == MULTIKUEUE)

    tried: list[str] = []
    await until("the webhook to be asked", asked, 60)
    for name, queue, more in (("other", "theirs", {}), ("copy", "ours", {ORIGIN_LABEL: "elsewhere"})):
        stored = await api.create(kinds.JOBS, "default", job(name, queue, **more))
        assert "managedBy" not in stored["spec"]

    pod = {"containers": [{"name": "c", "image": "i"}], "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    stored = await api.create(
        kinds.PODS,
        "default",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default", "labels": labels("ours")},
            "spec": pod,
        },
    )
    assert [gate["name"] for gate in stored["spec"]["schedulingGates"]] == ["kueue.x-k8s.io/admission", HELD]

    template = {"metadata": {"labels": {"app": "s"}}, "spec": {"containers": pod["containers"]}}
    spec = {"serviceName": "s", "selector": {"matchLabels": {"app": "s"}}, "template": template}
    body = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "s", "namespace": "default", "labels": labels("ours")},
        "spec": spec,
    }
    stored = await api.create(kinds.STATEFUL_SETS, "default", body)
    assert stored["spec"]["template"]["spec"]["schedulingGates"] == [{"name": HELD}]
    without = {"spec": {"template": {"spec": {"schedulingGates": None}}}}
    await api.write(Request("patch", ObjectRef(kinds.STATEFUL_SETS, "default", "s"), without))
    stored = await api.get(kinds.STATEFUL_SETS, "default", "s")
    assert stored["spec"]["template"]["spec"]["schedulingGates"] == [{"name": HELD}]

    await hook.stop()
    stored = await api.create(kinds.JOBS, "default", job("late", "ours"))
    assert "managedBy" not in stored["spec"], "nobody answers, and the job is created as it is"
