"""The webhook of pods, asked by a real kube-apiserver by the configuration that is shipped: which pods of which
namespaces get the scheduler of candidates, and what is created while nobody answers.

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
from controlplane.controllers.candidates.objects import ELECT_LABEL, SCHEDULER_NAME
from controlplane.kube import kinds
from controlplane.kube.kinds import Json
from controlplane.settings import Settings
from controlplane.settings.candidates import Candidates
from controlplane.settings.model import WebhookSettings
from controlplane.web import Certificate, Webhook, serve_webhook
from tests.clusters import pki
from tests.deploy.manifests import ROOT, one, render
from tests.outages.stage import Replica, keep_tasks_apart
from tests.real.pair import CRDS, NEEDED, WHY, install, kubeconfig_of, until
from tests.real.test_real_webhook import CONFIGURATION
from tests.simulation.contract import realserver

pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
ELECTED, PLAIN, FORBIDDEN = "physics", "chemistry", "biology"


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("candidates-webhook")
    with realserver.running(folder) as server:
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig_of(server, folder)))
        ours = sorted((ROOT / "deploy/crds").glob("candidate*.yaml"))
        assert ours
        install(path, [*(next(Path(CRDS).glob(f"*_{kind}.yaml")) for kind in NEEDED), *ours])
        yield path


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[Transport]:
    found = Transport("@management", parse_kubeconfig(kubeconfig.read_bytes()))
    yield found
    await found.close()


@pytest.fixture
async def hook(kubeconfig: Path, api: Transport, database_url: str, tmp_path: Path) -> AsyncIterator[Webhook]:
    """The service on that API server with the shipped configuration; one namespace asks for all of its pods, and may
    send by the same label, one by the settings, one not at all."""
    keep_tasks_apart()
    pki.make(tmp_path, "IP:127.0.0.1")
    certificate, key = str(tmp_path / "server.crt"), str(tmp_path / "server.key")
    base = Settings()
    wanted = msgspec.structs.replace(
        base,
        run=msgspec.structs.replace(base.run, controllers=("candidates",)),
        candidates=Candidates(cluster="campus", namespaces=(PLAIN,), namespace_selector=f"{ELECT_LABEL}=true"),
        webhook=WebhookSettings(certificate=certificate, key=key),
    )
    for name, labels in ((ELECTED, {ELECT_LABEL: "true"}), (PLAIN, {}), (FORBIDDEN, {})):
        await api.create(kinds.NAMESPACES, "", {"metadata": {"name": name, "labels": labels}})
    replica = Replica(database_url, kubeconfig, wanted, "real")
    served = await serve_webhook(
        answers(wanted, replica.service, SystemClock(), replica.metrics), Certificate(certificate, key), "127.0.0.1", 0
    )

    async def known() -> bool:
        sources = replica.service.sources
        return sources is not None and sources.may_send(ELECTED) is True and sources.may_send(FORBIDDEN) is False

    await until("the namespaces to be known", known, 60)
    configuration = one(render("deploy/candidates/webhook"), "MutatingWebhookConfiguration")
    for each in configuration["webhooks"]:
        path = each["clientConfig"].pop("service")["path"]
        authority = base64.b64encode((tmp_path / "ca.crt").read_bytes()).decode()
        each["clientConfig"] = {"url": f"https://127.0.0.1:{served.port}{path}", "caBundle": authority}
    await api.create(CONFIGURATION, "", configuration)
    yield served
    await served.stop()
    await replica.stop()


def pod(name: str, label: str = "", scheduler: str = "") -> Json:
    spec: Json = {"containers": [{"name": "c", "image": "i"}]}
    metadata: Json = {"name": name, "labels": {ELECT_LABEL: label} if label else {}}
    return {"metadata": metadata, "spec": {**spec, **({"schedulerName": scheduler} if scheduler else {})}}


async def scheduler_of(api: Transport, namespace: str, wanted: Json) -> str:
    return str((await api.create(kinds.PODS, namespace, wanted))["spec"]["schedulerName"])


async def test_what_an_api_server_stores(hook: Webhook, api: Transport) -> None:
    tried: list[str] = []

    async def asked(namespace: str, label: str) -> bool:
        # A configuration takes a moment until it is in force.
        tried.append(f"probe-{len(tried)}")
        return await scheduler_of(api, namespace, pod(tried[-1], label)) == SCHEDULER_NAME

    await until("the namespace's webhook to be asked", lambda: asked(ELECTED, ""), 60)
    await until("the pods' webhook to be asked", lambda: asked(PLAIN, "true"), 60)
    default = "default-scheduler"
    rows = [
        (ELECTED, pod("in", "true"), SCHEDULER_NAME),
        (ELECTED, pod("out", "false"), default),
        (ELECTED, pod("typo", "yes"), default),
        (ELECTED, pod("theirs", scheduler="volcano"), "volcano"),
        (PLAIN, pod("silent"), default),
        (FORBIDDEN, pod("in", "true"), default),
        ("kube-system", pod("in", "true"), default),
    ]
    for namespace, wanted, scheduler in rows:
        assert await scheduler_of(api, namespace, wanted) == scheduler, (namespace, wanted)

    await hook.stop()
    assert await scheduler_of(api, ELECTED, pod("late")) == default, "nobody answers, and the pod stays here"
