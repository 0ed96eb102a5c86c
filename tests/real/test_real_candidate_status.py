"""The status of a source pod, written to a real kube-apiserver with the rights of deploy/candidates/source: what a
delegate says in one cluster, and the next one in another.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd. The targets are those of the stage of
`tests/candidates`."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest
import yaml

from controlplane.clusters.kubeconfig import parse_kubeconfig
from controlplane.clusters.protocol import ApiError
from controlplane.clusters.transport import Transport
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.kube.kinds import PODS, Json, ObjectRef, Request, meta
from tests.candidates.model.api import Api
from tests.candidates.stage import NS, Stage, pod
from tests.candidates.test_status_taken import DONE, RUNS, SPEC, says, states
from tests.deploy.manifests import render
from tests.real.test_real_scheduler import ACCOUNT_KINDS, WHY, kubeconfig, with_account

__all__ = ["kubeconfig"]
pytestmark = [pytest.mark.skipif(bool(WHY), reason=WHY), pytest.mark.timeout(240)]
SERVICE = "kueue-system"


class Shown(Api):
    """What came from the real server is shown as it came."""

    def shown(self, obj: Json) -> Json:
        return obj if "resourceVersion" in meta(obj) else super().shown(obj)


class RealSource(Stage):
    """A stage whose source pod is on a real server."""

    def __init__(self, server: Transport, made: Json) -> None:
        super().__init__("a", "b")
        self.api, self.server, self.sent = Shown(), server, list[Request]()
        self.home = {**self.home, "pods": {"web": made}}

    def carry_out(self, cluster: str, request: Request) -> None:
        if cluster == MANAGEMENT:
            self.sent.append(request)
        else:
            super().carry_out(cluster, request)

    async def settled(self) -> RealSource:
        """Let everybody do what there is to do, and the real server take what is written to the pod."""
        for _ in range(8):
            self.look()
            self.send()
            for name in self.names:
                self.target_turn(name)
            for request in self.sent:
                head = meta(request.body) | {"uid": request.uid, "resourceVersion": request.resource_version}
                body = request.body | {"metadata": head}
                try:
                    await self.server.write(Request("patch", request.ref, body, request.subresource))
                except ApiError as error:
                    if error.status != 409:  # of two writes to one version, the second is decided anew
                        raise
            self.sent.clear()
            self.home = {**self.home, "pods": {"web": await self.server.get(PODS, NS, "web")}}
        self.look()
        assert not self.requests()
        return self

    async def placed(self, name: str) -> RealSource:
        """Have a target reserve and bind."""
        await self.settled()
        self.reserve(name)
        await self.settled()
        assert self.bind(name)
        return await self.settled()


@pytest.fixture
async def servers(kubeconfig: Json) -> AsyncIterator[tuple[Transport, Transport]]:
    """An administrator's client, and one with the rights of the source's service."""
    admin = Transport("admin", parse_kubeconfig(yaml.safe_dump(kubeconfig).encode()))
    spaces: list[Json] = [{"kind": "Namespace", "metadata": {"name": name}} for name in (SERVICE, NS)]
    account = {"kind": "ServiceAccount", "metadata": {"name": "controlplane", "namespace": SERVICE}}
    for document in [*spaces, account, *render("deploy/candidates/source")]:
        kind = next(kind for kind in ACCOUNT_KINDS if kind.kind == document["kind"])
        with contextlib.suppress(ApiError):
            await admin.create(kind, document["metadata"].get("namespace", ""), document)
    limited = await with_account(admin, kubeconfig, SERVICE, "controlplane")
    service = Transport("source", parse_kubeconfig(yaml.safe_dump(limited).encode()))
    yield admin, service
    await admin.write(Request("delete", ObjectRef(PODS, NS, "web"), grace=0))
    await service.close()
    await admin.close()


@pytest.mark.parametrize("policy", ["OnFailure", "Always"])
async def test_a_pod_is_shown_in_one_cluster_after_the_other(servers: tuple[Transport, Transport], policy: str) -> None:
    admin, service = servers
    body = {"metadata": {"name": "web"}, "spec": pod(spec={**SPEC, "restartPolicy": policy})["spec"]}
    stage = await RealSource(service, await admin.create(PODS, NS, body)).placed("a")
    assert stage.home["pods"]["web"]["status"]["qosClass"] == "BestEffort"
    says(stage, "a", DONE, DONE, RUNS, qosClass="Burstable")
    await stage.settled()
    assert states(stage) == {"init/init": "terminated", "cont/c": "terminated", "cont/d": "running"}
    stage.lose_pod("a")
    await stage.placed("b")
    says(stage, "b", RUNS, {"waiting": {}}, {"waiting": {}}, "Pending", qosClass="Burstable")
    await stage.settled()
    assert states(stage) == {"init/init": "running", "cont/c": "waiting", "cont/d": "waiting"}
    says(stage, "b", DONE, RUNS, RUNS, qosClass="Burstable")
    await stage.settled()
    assert states(stage) == {"init/init": "terminated", "cont/c": "running", "cont/d": "running"}
    assert stage.home["pods"]["web"]["status"]["phase"] == "Running"
