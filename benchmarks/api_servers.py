"""Real API servers for a measurement: kube-apiserver and etcd of `KUBEBUILDER_ASSETS`, the CRDs of a folder, and an
audit log of every request.

In: names. Out: kubeconfigs by name, and when all is over what the audit logs say. They listen on 127.0.0.1 and are gone
afterwards."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import yaml

from controlplane.clusters.kubeconfig import parse_kubeconfig
from controlplane.clusters.protocol import ApiError
from controlplane.clusters.streams import ListQuery
from controlplane.clusters.transport import Transport
from controlplane.kube.kinds import WORKLOADS, Json, Kind
from tests.simulation.contract import realserver

CRDS = "CONTROLPLANE_TEST_CRDS"
_CRD = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
_BODIES = {"level": "Request", "verbs": ["patch", "update"], "resources": [{"group": "kueue.x-k8s.io"}]}
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "None", "users": ["system:apiserver"]}, _BODIES, {"level": "Metadata"}],
}


def missing() -> str:
    """Why there can be no real API servers here; empty if there can."""
    return realserver.missing() or ("" if os.environ.get(CRDS) else f"{CRDS} names no folder with Kueue's CRDs")


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, as an API server's audit log has it: who asked (by user agent), for what, from when until when."""

    cluster: str
    agent: str
    verb: str
    resource: str
    name: str
    code: int
    received: float
    done: float
    body: Json

    @property
    def seconds(self) -> float:
        """How long the API server took."""
        return self.done - self.received


class ApiServers:
    """Running API servers: a kubeconfig file for each name, and their audit logs."""

    def __init__(self, kubeconfigs: dict[str, Path]) -> None:
        self.kubeconfigs = kubeconfigs

    def audit_log(self, name: str) -> Path:
        """Return where a cluster's API server writes what it was asked."""
        return self.kubeconfigs[name].with_name("audit.log")

    def text(self, name: str) -> str:
        """Return a cluster's kubeconfig."""
        return self.kubeconfigs[name].read_text()

    def transport(self, name: str, identity: str) -> Transport:
        """Return a way to a cluster; its user agent says who it is."""
        return transport(name, self.text(name), identity)

    def asked(self, since: float, until: float) -> list[Asked]:
        """Return the requests that were done between two times, by time. A watch counts when it is opened."""
        found = [one for name in self.kubeconfigs for one in _asked(name, self.audit_log(name))]
        return sorted((one for one in found if since <= one.done <= until), key=lambda one: one.received)


def transport(name: str, kubeconfig: str, identity: str) -> Transport:
    """Return a way to the cluster of a kubeconfig."""
    return Transport(name, parse_kubeconfig(kubeconfig.encode()), identity=identity)


def _asked(cluster: str, path: Path) -> Iterator[Asked]:
    for line in path.read_text().splitlines():
        said = json.loads(line)
        if said["stage"] != ("ResponseStarted" if said["verb"] == "watch" else "ResponseComplete"):
            continue
        about = said.get("objectRef") or {}
        resource = "/".join(filter(None, (about.get("resource", ""), about.get("subresource", ""))))
        yield Asked(
            cluster,
            said.get("userAgent", ""),
            said["verb"],
            resource or said["requestURI"].partition("?")[0],
            about.get("name", "") or str((said.get("requestObject") or {}).get("metadata", {}).get("name", "")),
            int(said.get("responseStatus", {}).get("code", 0)),
            _at(said["requestReceivedTimestamp"]),
            _at(said["stageTimestamp"]),
            said.get("requestObject") or {},
        )


def _at(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


@asynccontextmanager
async def api_servers(names: Sequence[str], *flags: str, kueue: bool = True) -> AsyncIterator[ApiServers]:
    """Have an API server of each name, with the CRDs of Kueue if wanted, and nothing else in it; `flags` are further
    ones of kube-apiserver."""
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="controlplane-bench-")))
        kubeconfigs = {}
        for name in names:
            folder = top / name
            folder.mkdir()
            (folder / "policy.yaml").write_text(yaml.safe_dump(_POLICY))
            audit = (f"--audit-policy-file={folder / 'policy.yaml'}", f"--audit-log-path={folder / 'audit.log'}")
            server = await asyncio.to_thread(stack.enter_context, realserver.running(folder, *audit, *flags))
            kubeconfigs[name] = folder / "kubeconfig"
            kubeconfigs[name].write_text(yaml.safe_dump(_kubeconfig(server, folder)))
        servers = ApiServers(kubeconfigs)
        if kueue:
            await asyncio.gather(*(_serve_kueue(servers.transport(name, "benchmark")) for name in names))
        yield servers


def _kubeconfig(server: realserver.RealServer, folder: Path) -> Json:
    authority = base64.b64encode((folder / "certs" / "apiserver.crt").read_bytes()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "real",
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "real"}}],
        "clusters": [
            {"name": "real", "cluster": {"server": server.url, "certificate-authority-data": authority}},
        ],
        "users": [{"name": "real", "user": {"token": server.token}}],
    }


def _crds() -> Iterator[Json]:
    for path in sorted(Path(os.environ[CRDS]).glob("*.yaml")):
        yield yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


async def _serve_kueue(server: Transport) -> None:
    """Create the CRDs, and wait until Workloads can be listed."""
    for body in _crds():
        await server.create(_CRD, "", body)
    while True:
        try:
            await server.list(ListQuery(WORKLOADS))
            break
        except ApiError:
            await asyncio.sleep(0.1)
    await server.close()
