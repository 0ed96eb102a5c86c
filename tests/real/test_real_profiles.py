"""A real kube-apiserver is reached by what a ClusterProfile says, with the token that a real command prints; it refuses
what that command printed before.

Runs where `KUBEBUILDER_ASSETS` names kube-apiserver and etcd."""

from __future__ import annotations

import base64
import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.clusters.cluster_profile import access_of, client_config
from controlplane.clusters.incarnation import incarnation_of
from controlplane.clusters.protocol import ApiError, Unreachable
from controlplane.clusters.transport import Transport
from controlplane.kube.kinds import NAMESPACES
from controlplane.settings.access_providers import AccessProvider, ExecConfig
from tests.simulation.contract import realserver

pytestmark = pytest.mark.skipif(bool(realserver.missing()), reason=realserver.missing() or "")
V1 = "client.authentication.k8s.io/v1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[realserver.RealServer, Path]]:
    folder = tmp_path_factory.mktemp("profiles")
    with realserver.running(folder) as found:
        yield found, folder


def plugin(folder: Path, token: str) -> AccessProvider:
    """A command that prints a token, and the URL that it was told."""
    path = folder / "login"
    printed = json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": {"token": token}})
    path.write_text(f"#!/bin/sh\necho \"$KUBERNETES_EXEC_INFO\" > {folder}/told\necho '{printed}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return AccessProvider("real", ExecConfig(str(path), V1, provide_cluster_info=True))


async def test_a_command_logs_in(server: tuple[realserver.RealServer, Path], tmp_path: Path) -> None:
    real, folder = server
    authority = base64.b64encode((folder / "certs" / "apiserver.crt").read_bytes()).decode()
    cluster = {"server": real.url, "certificate-authority-data": authority}
    access = access_of({"status": {"accessProviders": [{"name": "real", "cluster": cluster}]}})
    transport = Transport("w", client_config("p", access, [plugin(tmp_path, "wrong")]))
    try:
        with pytest.raises(ApiError) as refused:
            await transport.get(NAMESPACES, "", "kube-system")
        assert refused.value.status == 401
        plugin(tmp_path, real.token)  # a 401 has the command run again
        assert await incarnation_of(transport)
        told = json.loads((tmp_path / "told").read_text())["spec"]
        assert (told["interactive"], told["cluster"]["server"]) == (False, real.url)
    finally:
        await transport.close()
    stranger = access_of({"status": {"accessProviders": [{"name": "real", "cluster": {"server": real.url}}]}})
    unknown = Transport("w", client_config("p", stranger, [plugin(tmp_path, real.token)]))
    try:
        with pytest.raises(Unreachable):
            await unknown.version(5)
    finally:
        await unknown.close()
