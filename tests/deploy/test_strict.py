"""Every manifest that we ship is taken as it is by an API server that passes over nothing (`fieldValidation=Strict`, as
kubectl asks for).

Where `KUBEBUILDER_ASSETS` names a kube-apiserver, it says so itself; everywhere the models and schemas do, which know
less."""

from __future__ import annotations

import asyncio
import functools
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.deploy import neighbours, strict
from tests.deploy.chart_files import CHART
from tests.deploy.manifests import LOADER, ROOT, Object, listed, render
from tests.simulation.contract import realserver
from tests.support.rows import each

FOLDERS = sorted(
    str(path.parent.relative_to(ROOT))
    for base in ("deploy", "examples")
    for name in ("kustomization.yaml", "Kustomization")
    for path in (ROOT / base).rglob(name)
)
# Read by kubectl, and by the scheduler: no object of an API server.
NOT_SENT = ("Kustomization", "KubeSchedulerConfiguration")
CRDS = os.environ.get("CONTROLPLANE_TEST_CRDS", "")


def manifests() -> dict[str, list[str]]:
    """Return the documents of every file that are objects, as they are written; of the chart, what it renders."""
    found: dict[str, list[str]] = {}
    for base in ("deploy", "examples", "tests/deploy/golden"):
        for path in sorted((ROOT / base).rglob("*.yaml")):
            if CHART in path.parents:
                continue
            texts = re.split(r"^---$", path.read_text(), flags=re.MULTILINE)
            sent = [text for text in texts if (kind := kind_of(text)) and kind not in NOT_SENT]
            if sent:
                found[str(path.relative_to(ROOT))] = sent
    return found


def kind_of(text: str) -> str:
    document = yaml.load(text, LOADER)
    return str(document.get("kind", "")) if isinstance(document, dict) else ""


MANIFESTS = manifests()


@functools.cache
def of_neighbours() -> list[Object]:
    """Return the definitions of the kinds of other projects: their own where they are at hand, and ours of what we
    use.
    """
    found = []
    for api_version, kind in neighbours.SPECS:
        own = Path(CRDS) / f"{api_version.partition('/')[0]}_{neighbours.plural(kind)}.yaml"
        given = CRDS and own.is_file()
        found.append(yaml.safe_load(own.read_text()) if given else neighbours.definition(api_version, kind))
    return found


@functools.cache
def known() -> dict[tuple[str, str], Object]:
    """Return the schemas of all custom kinds by (apiVersion, kind)."""
    definitions = [*of_neighbours(), *listed(ROOT / "deploy/crds")]
    return {key: schema for definition in definitions for key, schema in strict.schemas(definition).items()}


@each("path", MANIFESTS)
def test_every_field_is_known_and_there_once(path: str) -> None:
    for text in MANIFESTS[path]:
        for item in strict.objects(text):
            assert strict.faults(item, known()) == []


@each(
    ("text", "fault"),
    [
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: b, a: c}}", 'duplicate field "a"'),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {nam: a}}", ".metadata.nam: unknown field"),
        ("{apiVersion: batch/v1, kind: Job, spec: {parallelism: x}}", ".spec.parallelism: 'x' is no int"),
        ("{apiVersion: v1, kind: ConfigMap, data: {a: 1}}", ".data.a: 1 is no str"),
        ("{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, spec: {queue: a}}", ".spec.queue: unknown field"),
        ("{apiVersion: example.com/v1, kind: Thing}", "no schema of example.com/v1 Thing is known"),
        (
            "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {names: {kind: Two, words: }}}",
            ".spec.names.words: unknown field",
        ),
    ],
)
def test_what_an_api_server_would_refuse_is_found(text: str, fault: str) -> None:
    try:
        (item,) = strict.objects(text)
        said = "\n".join(strict.faults(item, known()))
    except yaml.YAMLError as error:
        said = str(error)
    assert fault in said


class Server:
    """A real API server, to which texts are sent as they are."""

    def __init__(self, session: aiohttp.ClientSession, real: realserver.RealServer) -> None:
        self._session, self._url = session, real.url
        self._headers = {"Authorization": f"Bearer {real.token}"}

    async def call(self, verb: str, path: str, body: str | None = None, **query: str) -> tuple[int, Any]:
        headers = {**self._headers, "Content-Type": "application/apply-patch+yaml"} if body else self._headers
        async with self._session.request(verb, self._url + path, data=body, params=query, headers=headers) as answer:
            return answer.status, await answer.json(content_type=None)

    async def path(self, item: Object) -> str:
        version = item["apiVersion"]
        root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        status, resources = await self.call("GET", root)
        assert status == 200, resources
        (found,) = [r for r in resources["resources"] if r["kind"] == item["kind"] and "/" not in r["name"]]
        name = item["metadata"].get("name", "generated")
        inside = f"/namespaces/{item['metadata'].get('namespace', 'default')}" if found["namespaced"] else ""
        return f"{root}{inside}/{found['name']}/{name}"

    async def apply(self, text: str, *, dry: bool) -> tuple[int, Any]:
        item = yaml.safe_load(text)
        namespace = item["metadata"].get("namespace")
        if namespace:
            body = yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            await self.call("PATCH", f"/api/v1/namespaces/{namespace}", body, fieldManager="test")
        query = {"dryRun": "All"} if dry else {}
        return await self.call(
            "PATCH", await self.path(item), text, fieldManager="test", fieldValidation="Strict", force="true", **query
        )


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    with realserver.running(tmp_path) as real:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
            yield Server(session, real)


async def established(server: Server, name: str) -> None:
    for _ in range(600):
        _, found = await server.call("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
        conditions = {c["type"]: c["status"] for c in found.get("status", {}).get("conditions") or ()}
        if conditions.get("Established") == "True":
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{name} is not established: {found}")


@pytest.mark.skipif(bool(realserver.missing()), reason=f"no real kube-apiserver: {realserver.missing()}")
async def test_a_real_api_server_takes_every_manifest(server: Server) -> None:
    ours = [text for path, texts in MANIFESTS.items() if path.startswith("deploy/crds/") for text in texts]
    theirs = [yaml.safe_dump(d) for d in of_neighbours()]
    refused = []
    for text in [*ours, *theirs]:
        status, answer = await server.apply(text, dry=False)
        if status not in (200, 201):
            refused.append(answer["message"])
    assert refused == []
    for text in [*ours, *theirs]:
        await established(server, yaml.safe_load(text)["metadata"]["name"])
    rendered = [(folder, yaml.safe_dump(item)) for folder in FOLDERS for item in render(folder)]
    written = [(path, text) for path, texts in MANIFESTS.items() for text in texts]
    for where, text in [*written, *rendered]:
        status, answer = await server.apply(text, dry=True)
        if status not in (200, 201):
            refused.append(f"{where}: {answer['message']}")
    assert refused == []
