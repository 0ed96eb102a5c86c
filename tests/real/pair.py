"""Two real kube-apiservers, a management cluster and a worker, and the service between them.

In: the words in the names of the CRD files of `CONTROLPLANE_TEST_CRDS` that both get. Out: their kubeconfigs, clients
of them, and the health of a service that runs. No controller runs there: a test plays both Kueues."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from controlplane.app.ports import ports_of
from controlplane.app.service import Service
from controlplane.clusters.kubeconfig import parse_kubeconfig
from controlplane.clusters.protocol import ApiError
from controlplane.clusters.transport import Transport
from controlplane.kube import kinds
from controlplane.kube.kinds import Json, Kind
from controlplane.log.connect import Database
from controlplane.settings import Settings
from controlplane.telemetry import Metrics
from controlplane.web.health import Health
from tests.simulation.contract import realserver

CRDS = os.environ.get("CONTROLPLANE_TEST_CRDS", "")
WHY = (
    realserver.missing()
    or ("" if CRDS else "CONTROLPLANE_TEST_CRDS is not set")
    or ("" if shutil.which("kubectl") else "kubectl is not there")
)
CHECK, NAMESPACE = "multikueue", "kueue-system"
NEEDED = ("workloads", "admissionchecks", "multikueueconfigs", "multikueueclusters", "localqueues", "clusterqueues")


def why_not(files: Sequence[str]) -> str:
    """Return why the tests cannot run with the CRDs of some files; "" if they can."""
    missing = next((name for name in files if not list(Path(CRDS).glob(f"*_{name}.yaml"))), "") if CRDS else ""
    return WHY or (f"the CRD of {missing} is not in CONTROLPLANE_TEST_CRDS" if missing else "")


@dataclass
class Cluster:
    kubeconfig: Json
    api: Transport


def kubeconfig_of(server: realserver.RealServer, folder: Path) -> Json:
    authority = (folder / "certs" / "apiserver.crt").read_bytes()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "real",
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "real"}}],
        "clusters": [
            {
                "name": "real",
                "cluster": {
                    "server": server.url,
                    "certificate-authority-data": base64.b64encode(authority).decode(),
                },
            }
        ],
        "users": [{"name": "real", "user": {"token": server.token}}],
    }


def install(kubeconfig: Path, crds: Sequence[Path]) -> None:
    """Install CRDs, and wait until they are served. A new one has no conditions for a moment, and `kubectl wait` takes
    that for an error."""
    kubectl = ["kubectl", "--kubeconfig", str(kubeconfig)]
    files = [word for crd in crds for word in ("-f", str(crd))]
    subprocess.run([*kubectl, "apply", "--server-side", "--validate=false", *files], check=True, capture_output=True)
    until = time.monotonic() + 60
    while True:
        waited = subprocess.run(
            [*kubectl, "wait", "--for=condition=Established", "--timeout=60s", *files], check=False, capture_output=True
        )
        if waited.returncode == 0:
            return
        assert time.monotonic() < until, waited.stderr.decode()
        time.sleep(0.2)


@contextmanager
def servers(folder: Path, files: Sequence[str]) -> Iterator[dict[str, Json]]:
    """Have both servers with the CRDs of some files; the kubeconfigs by name."""
    with ExitStack() as stack:
        found = {}
        for name in ("management", "worker"):
            place = folder / name
            place.mkdir()
            found[name] = kubeconfig_of(stack.enter_context(realserver.running(place)), place)
            path = place / "kubeconfig"
            path.write_text(yaml.safe_dump(found[name]))
            install(path, [next(Path(CRDS).glob(f"*_{file}.yaml")) for file in files])
        yield found


@asynccontextmanager
async def connected(kubeconfigs: dict[str, Json]) -> AsyncIterator[dict[str, Cluster]]:
    """Have a client of each."""
    found = {}
    for name, kubeconfig in kubeconfigs.items():
        config = parse_kubeconfig(yaml.safe_dump(kubeconfig).encode())
        found[name] = Cluster(kubeconfig, Transport(name, config))
    yield found
    for cluster in found.values():
        await cluster.api.close()


@asynccontextmanager
async def serving(
    clusters: dict[str, Cluster],
    url: str,
    dispatched: Sequence[str] = (),
    changed: Callable[[Settings], Settings] = lambda settings: settings,
) -> AsyncIterator[Health]:
    """Have the service, which dispatches some kinds besides Jobs and JobSets, with its settings changed."""
    await set_up(clusters)
    config = parse_kubeconfig(yaml.safe_dump(clusters["management"].kubeconfig).encode())

    async def open_management() -> Transport:
        return Transport("@management", config)

    settings = changed(Settings())
    # Who reports an Event has to have a name.
    named = msgspec.structs.replace(settings.leader, identity="real")
    every = tuple(dict.fromkeys((*settings.multikueue.kinds, *dispatched)))
    chosen = msgspec.structs.replace(settings.multikueue, kinds=every)
    health, stop, database = Health(), asyncio.Event(), Database(url, "controlplane_service")
    running = Service(
        msgspec.structs.replace(settings, multikueue=chosen, leader=named),
        ports_of(database),
        open_management,
        metrics=Metrics(),
        health=health,
    )
    task = asyncio.create_task(running.run(stop))
    yield health
    stop.set()
    await task


async def until(what: str, probe: Callable[[], Any], seconds: float = 20) -> Any:
    """Wait until an asynchronous probe returns something true."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    if found := await probe():
                        return found
                except ApiError as error:
                    if error.status != 404:
                        raise
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"waited in vain for: {what}") from None


def true(obj: Json, kind: str) -> Json | None:
    found = (c for c in obj.get("status", {}).get("conditions", []) if c["type"] == kind and c["status"] == "True")
    return next(found, None)


def condition(kind: str, reason: str, message: str = "by hand") -> Json:
    at = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": at}


async def set_up(clusters: dict[str, Cluster]) -> None:
    home = clusters["management"].api
    await home.create(kinds.NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
    text = yaml.safe_dump(clusters["worker"].kubeconfig).encode()
    secret = {"metadata": {"name": "worker"}, "data": {"kubeconfig": base64.b64encode(text).decode()}}
    await home.create(kinds.SECRETS, NAMESPACE, secret)
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
    source = {"kubeConfig": {"location": "worker", "locationType": "Secret"}}
    made: list[tuple[Kind, str, Json]] = [
        (kinds.MULTIKUEUE_CLUSTERS, "worker", {"clusterSource": source}),
        (kinds.MULTIKUEUE_CONFIGS, "all", {"clusters": ["worker"]}),
        (kinds.ADMISSION_CHECKS, CHECK, {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}),
    ]
    for kind, name, spec in made:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}
        await home.create(kind, "", body)
