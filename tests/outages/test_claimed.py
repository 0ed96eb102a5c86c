"""The webhook of jobs over HTTPS beside a running process: it answers by what the log says of queues, a follower as
well as a leader.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from controlplane.app.admission import JOBS_PATH, answers, endpoint
from controlplane.clock import SystemClock
from controlplane.kube.kinds import LOCAL_QUEUES, Json
from controlplane.kube.kueue_names import MULTIKUEUE, QUEUE_LABEL
from controlplane.settings import Settings
from controlplane.settings.model import WebhookSettings
from controlplane.web import Certificate, serve_webhook
from tests.clusters import pki
from tests.multikueue.kep693.rig import NS
from tests.outages.stage import Replica, Stage, settings


async def review(port: int, authority: Path, queue: str) -> Json:
    labels = {QUEUE_LABEL: queue}
    job = {"metadata": {"name": "train", "namespace": NS, "labels": labels}, "spec": {"template": {}}}
    named = {"group": "batch", "version": "v1", "kind": "Job"}
    request = {"uid": "r1", "operation": "CREATE", "namespace": NS, "kind": named, "object": job}
    trust = ssl.create_default_context(cafile=str(authority))
    trust.verify_flags &= ~ssl.VERIFY_X509_STRICT
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"https://127.0.0.1:{port}{JOBS_PATH}", json={"request": request}, ssl=trust) as answer,
    ):
        assert answer.status == 200
        response: Json = (await answer.json())["response"]
    assert (response["uid"], response["allowed"]) == ("r1", True)
    return response


def claimed(response: Json) -> bool:
    patch = json.loads(base64.b64decode(response.get("patch", "W10=")))
    return bool(patch == [{"op": "add", "path": "/spec/managedBy", "value": MULTIKUEUE}])


async def test_a_job_is_ours_by_where_its_queue_leads_whoever_answers(
    stage: Callable[..., Awaitable[Stage]], tmp_path: Path
) -> None:
    folder = tmp_path / "pki"
    folder.mkdir()
    pki.make(folder, "IP:127.0.0.1")
    served = WebhookSettings(
        certificate=str(folder / "server.crt"), key=str(folder / "server.key"), address="127.0.0.1", port=0
    )
    wanted: Settings = msgspec.structs.replace(settings(), webhook=served)
    on = await stage("a", settings=wanted)
    follower = Replica(on.url, tmp_path / "management.kubeconfig", wanted, "follower")
    on.replicas.insert(0, follower)  # the last one is the process that leads
    (queue,) = [one["metadata"]["name"] for one in on.manager.store.list(LOCAL_QUEUES)[0]]
    chosen = endpoint(wanted)
    assert chosen is not None
    for replica in (on.replica, follower):
        await on.until(lambda who=replica: knows(who, queue), "the queue to be known")
        certificate = Certificate(chosen.certificate, chosen.key)
        hook = await serve_webhook(
            answers(wanted, replica.service, SystemClock(), replica.metrics), certificate, chosen.address, chosen.port
        )
        try:
            assert claimed(await review(hook.port, folder / "ca.crt", queue))
            unknown = await review(hook.port, folder / "ca.crt", "nowhere")
        finally:
            await hook.stop()
        assert "patch" not in unknown
        assert f"{NS}/nowhere" in unknown["warnings"][0]
        for result in ("patched", "unknown"):
            assert counted(replica, result) == 1
    assert on.replica.leads
    assert not follower.leads


def knows(replica: Replica, queue: str) -> Any:
    fleet = replica.service.fleet
    return fleet is not None and fleet.index.leads_to_us(NS, queue)


def counted(replica: Replica, result: str) -> float | None:
    return replica.metrics.registry.get_sample_value("controlplane_admission_reviews_total", {"result": result})


def test_the_older_settings_of_coscheduling_serve_it_alone(tmp_path: Path) -> None:
    older = msgspec.structs.replace(Settings().coscheduling, webhook_certificate="c", webhook_port=1)
    run = msgspec.structs.replace(Settings().run, controllers=("coscheduling", "multikueue"))
    only_older = msgspec.structs.replace(Settings(), coscheduling=older, run=run)
    found = endpoint(only_older)
    assert found is not None
    assert (found.section, found.certificate, found.port) == ("coscheduling.webhook", "c", 1)
    common = msgspec.structs.replace(Settings(), webhook=WebhookSettings(certificate="d", port=2), run=run)
    found = endpoint(common)
    assert found is not None
    assert (found.section, found.certificate, found.port) == ("webhook", "d", 2)
    assert endpoint(Settings()) is None
