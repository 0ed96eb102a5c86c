"""Who the pages know and what he may see, asked of a real kube-apiserver: its tokens, its roles, and the rights of
deploy/web.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import yaml
from starlette.requests import HTTPConnection

from controlplane.clusters.kubeconfig import parse_kubeconfig
from controlplane.clusters.transport import Transport
from controlplane.kube.kinds import Json
from controlplane.pages.access import Access, Unasked, Unauthenticated
from controlplane.settings.web import WebSettings
from tests.deploy.manifests import ROOT
from tests.real.pair import kubeconfig_of
from tests.simulation.contract import realserver

pytestmark = pytest.mark.skipif(bool(realserver.missing()), reason=realserver.missing())
TEAMS = ("team-a", "team-b")
ROLE: Json = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "sees"},
    "rules": [{"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads"], "verbs": ["get", "list"]}],
}


class Cluster:
    """An API server with the teams' namespaces, and accounts whose tokens are asked for."""

    def __init__(self, kubeconfig: Json, path: Path) -> None:
        self.kubeconfig, self._kubectl = kubeconfig, ["kubectl", "--kubeconfig", str(path)]

    def kubectl(self, *words: str, stdin: str = "") -> str:
        done = subprocess.run([*self._kubectl, *words], input=stdin, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def account(self, namespace: str, name: str) -> str:
        """Make an account; return a token of it."""
        self.kubectl("--namespace", namespace, "create", "serviceaccount", name)
        return self.token(namespace, name)

    def token(self, namespace: str, name: str) -> str:
        return self.kubectl("--namespace", namespace, "create", "token", name).strip()

    @asynccontextmanager
    async def pages(self, token: str) -> AsyncIterator[Access]:
        """Have the pages' questions, asked with a token."""
        config = parse_kubeconfig(yaml.safe_dump(self.kubeconfig).encode())
        server = Transport("real", dataclasses.replace(config, token=token))
        try:
            yield Access(msgspec.structs.replace(WebSettings(), authentication="token"), server)
        finally:
            await server.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("pages")
    with realserver.running(folder) as server:
        kubeconfig = kubeconfig_of(server, folder)
        (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
        found = Cluster(kubeconfig, folder / "kubeconfig")
        for namespace in ("kueue-system", *TEAMS):
            found.kubectl("create", "namespace", namespace)
        found.account("kueue-system", "controlplane")
        found.kubectl("apply", "-f", str(ROOT / "deploy/web/binding.yaml"))
        yield found


def asking(token: str) -> HTTPConnection:
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
    return HTTPConnection({"type": "http", "headers": headers, "client": ("10.0.0.7", 1), "path": "/", "method": "GET"})


async def test_who_may_see_what_is_the_clusters_to_say(cluster: Cluster) -> None:
    ada, auditor = cluster.account("team-a", "ada"), cluster.account("team-a", "auditor")
    cluster.kubectl("create", "-f", "-", stdin=yaml.safe_dump(ROLE))
    cluster.kubectl("-n", "team-a", "create", "rolebinding", "ada", "--clusterrole=sees", "--serviceaccount=team-a:ada")
    cluster.kubectl("create", "clusterrolebinding", "auditor", "--clusterrole=sees", "--serviceaccount=team-a:auditor")
    nobody = cluster.account("team-b", "nobody")
    async with cluster.pages(cluster.token("kueue-system", "controlplane")) as access:
        for token, name, everywhere, seen in (
            (ada, "team-a:ada", False, {"team-a"}),
            (auditor, "team-a:auditor", True, set(TEAMS)),
            (nobody, "team-b:nobody", False, set[str]()),
        ):
            viewer = await access.viewer(asking(token))
            assert viewer.user.name == f"system:serviceaccount:{name}"
            assert await access.everywhere(viewer) is everywhere
            assert await access.namespaces(viewer, TEAMS) == seen


async def test_a_token_of_somebody_else_is_refused(cluster: Cluster) -> None:
    async with cluster.pages(cluster.token("kueue-system", "controlplane")) as access:
        for token in ("", "made.up.token", "x" * 3000):
            with pytest.raises(Unauthenticated):
                await access.viewer(asking(token))


async def test_without_its_right_the_service_says_what_to_bind(cluster: Cluster) -> None:
    other = cluster.account("kueue-system", "unbound")
    async with cluster.pages(other) as access:
        with pytest.raises(Unasked, match="system:auth-delegator"):
            await access.viewer(asking(cluster.token("kueue-system", "controlplane")))
