"""The way to the management cluster: a pod's service account, and kubeconfigs with all that kubectl accepts."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
from pathlib import Path
from typing import Any

import pytest

from controlplane.clusters.credentials import TokenFile, load
from controlplane.clusters.kubeconfig import KubeconfigError
from controlplane.clusters.management_access import from_kubeconfig, in_cluster
from controlplane.clusters.plain_kubeconfig import read_plain
from controlplane.clusters.protocol import ApiError, Unreachable
from tests.clusters import pki
from tests.clusters.clocks import ManualClock
from tests.clusters.miniapi import TOKEN, MiniApi, kubeconfig, serving


def with_user(server: str, user: dict[str, Any]) -> bytes:
    document = json.loads(kubeconfig(server))
    document["users"][0]["user"] = user
    return json.dumps(document).encode()


async def test_in_a_pod(tmp_path: Path) -> None:
    made = pki.make(tmp_path, "IP:127.0.0.1")
    made.server_context.verify_mode = ssl.CERT_NONE
    (tmp_path / "token").write_text(TOKEN + "\n")
    clock = ManualClock()
    async with serving(MiniApi(), made.server_context) as api:
        port = api.url.rsplit(":", 1)[1]
        environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
        transport = in_cluster("m", environ=environ, service_account=tmp_path, clock=clock)
        assert (await transport.version(5.0))["gitVersion"] == "v1.34.2"
        await transport.close()


def test_outside_a_pod(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="not in a pod"):
        in_cluster("m", environ={})
    environ = {"KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(KubeconfigError, match="no service account"):
        in_cluster("m", environ=environ, service_account=tmp_path)


async def test_a_projected_token_is_read_again(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", ManualClock()
    credentials = TokenFile(path, clock)
    with pytest.raises(FileNotFoundError):
        await credentials.authorization()
    path.write_text("one\n")
    assert await credentials.authorization() == "Bearer one"
    path.write_text("two")
    assert await credentials.authorization() == "Bearer one"
    clock.seconds += 61
    assert await credentials.authorization() == "Bearer two"
    path.write_text("three")
    credentials.rejected()
    assert await credentials.authorization() == "Bearer three"
    path.unlink()
    credentials.rejected()
    assert await credentials.authorization() == "Bearer three"


async def test_a_kubeconfig_with_a_token(api: MiniApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "config"
    path.write_bytes(kubeconfig(api.url))
    monkeypatch.setenv("KUBECONFIG", str(path))
    transport = await from_kubeconfig("m")
    assert (await transport.version(5.0))["gitVersion"] == "v1.34.2"
    assert TOKEN not in repr(transport)
    await transport.close()


async def test_a_token_file_is_followed(api: MiniApi, tmp_path: Path) -> None:
    token, path, clock = tmp_path / "token", tmp_path / "config", ManualClock()
    token.write_text(TOKEN)
    path.write_bytes(with_user(api.url, {"tokenFile": str(token)}))
    transport = await from_kubeconfig("m", str(path), clock=clock)
    await transport.version(5.0)
    api.token = "renewed"
    token.write_text("renewed")
    with pytest.raises(ApiError):
        await transport.version(5.0)
    await transport.version(5.0)
    await transport.close()


async def test_an_exec_plugin_is_run(api: MiniApi, tmp_path: Path) -> None:
    plugin, path = tmp_path / "plugin", tmp_path / "config"
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": TOKEN, "expirationTimestamp": "2001-01-01T00:00:00Z"},
    }
    plugin.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\nprintf '%s' '{json.dumps(credential)}'\n")
    plugin.chmod(0o700)
    command = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
    path.write_bytes(with_user(api.url, {"exec": command}))
    clock = ManualClock()
    transport = await from_kubeconfig("m", str(path), clock=clock)
    await transport.version(5.0)
    await transport.version(5.0)
    assert (tmp_path / "runs").read_text() == "run\n"
    clock.seconds += 61
    await transport.version(5.0)
    assert (tmp_path / "runs").read_text() == "run\nrun\n"
    plugin.unlink()
    clock.seconds += 61
    with pytest.raises(Unreachable, match="no credentials"):
        await transport.version(5.0)
    await transport.close()


async def test_inline_certificates_leave_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    made = pki.make(tmp_path)
    async with serving(MiniApi(), made.server_context) as api:
        document = json.loads(kubeconfig(api.url))
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        cluster |= {
            "certificate-authority-data": base64.b64encode(made.ca).decode(),
            "tls-server-name": "worker.example",
        }
        user["client-certificate-data"] = base64.b64encode(made.client_certificate).decode()
        user["client-key-data"] = base64.b64encode(made.client_key).decode()
        (tmp_path / "config").write_text(json.dumps(document))
        for _ in range(2):
            transport = await from_kubeconfig("m", str(tmp_path / "config"))
            assert (await transport.version(5.0))["gitVersion"] == "v1.34.2"
            await transport.close()
    assert list(temporary.iterdir()) == []


async def test_a_context_that_is_not_there_is_said_with_those_that_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config"
    path.write_bytes(kubeconfig("http://127.0.0.1:1"))
    monkeypatch.setenv("KUBECONFIG", str(path))
    with pytest.raises(KubeconfigError, match=rf"there is no context nowhere in {path}, only c\)"):
        await from_kubeconfig("m", None, "nowhere")
    for text in ("clusters: !!int ", "[" * 3000):
        path.write_text(text)
        with pytest.raises(KubeconfigError, match="the kubeconfig cannot be loaded"):
            await from_kubeconfig("m", None, "nowhere")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(KubeconfigError, match=f"there is no such file: {tmp_path / 'none'}"):
        await from_kubeconfig("m", None, "nowhere")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "there is no such file"),
        (b"", "it has not the form of a kubeconfig"),
        (b"{", "it is not a YAML document"),
        (b"a: 1\n---\nb: 2", "it is not a YAML document"),
        (b"a: 1", "Expected key current-context in "),
        (b"current-context: a\ncontexts: [{name: b, context: {user: hunter2}}]", "Expected object with name a in "),
        (b"users: 7", "it has not the form of a kubeconfig"),
        (kubeconfig("http://127.0.0.1:1").replace(b'"c"', b'"d"', 1), "Expected object with name d in "),
    ],
)
async def test_a_kubeconfig_that_cannot_be_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes | None, why: str
) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(KubeconfigError, match="cannot be loaded") as raised:
        await from_kubeconfig("m", str(path))
    assert why in raised.value.message
    assert "hunter2" not in raised.value.message
    assert caplog.text == ""


PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()


@pytest.mark.parametrize("server", ["https://h:6443/", "http://127.0.0.1:8080", "HTTPS://h"])
@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({}, {"token": "secret"}),
        ({}, {"token": ""}),
        ({"insecure-skip-tls-verify": True}, {"token": "secret"}),
        ({"certificate-authority-data": PEM}, {"client-certificate-data": PEM, "client-key-data": PEM}),
        ({"certificate-authority": "ca.pem"}, {"client-certificate": "ca.pem", "client-key": "ca.pem"}),
        ({"certificate-authority": "ca.pem", "certificate-authority-data": PEM}, {"token": "secret"}),
        ({"tls-server-name": "other", "proxy-url": "http://proxy"}, {"token": "secret"}),
        ({"extensions": [{"name": "cluster_info"}]}, {"token": "secret"}),
    ],
)
async def test_a_plain_kubeconfig_reads_as_the_loader_reads_it(
    tmp_path: Path, server: str, cluster: dict[str, Any], user: dict[str, Any]
) -> None:
    from kubernetes_asyncio import client
    from kubernetes_asyncio.config import kube_config

    (tmp_path / "ca.pem").write_bytes(b"a certificate")
    document = json.loads(with_user(server, user))
    document["clusters"][0]["cluster"] = {"server": server, **cluster}
    path = tmp_path / "config"
    path.write_text(json.dumps(document))
    read = read_plain(str(path), None)
    assert read is not None
    configuration = client.Configuration()
    keys = await load(kube_config._get_kube_config_loader_for_yaml_file(str(path)), configuration)
    assert read.server == configuration.host
    assert (f"Bearer {read.token}" if read.token else "") == configuration.api_key.get("BearerToken", "")
    assert (read.ca_data, read.client_certificate_data, read.client_key_data) == tuple(keys)
    assert read.proxy_url == (configuration.proxy or "")
    if read.server.startswith("https"):
        assert read.verify == configuration.verify_ssl
        assert read.tls_server_name == (configuration.tls_server_name or "")


@pytest.mark.parametrize(
    "user",
    [
        {"exec": {"command": "x"}},
        {"auth-provider": {"name": "oidc"}},
        {"tokenFile": "token"},
        {"username": "u", "password": "p"},
        {"token": "t", "as": "somebody"},
        {"token": 3},
        {"client-certificate": "not-there.pem"},
        {"client-certificate-data": "abc", "client-key-data": PEM},
    ],
)
def test_what_is_not_plain_is_the_loader_s(tmp_path: Path, user: dict[str, Any]) -> None:
    path = tmp_path / "config"
    path.write_bytes(with_user("https://h", user))
    assert read_plain(str(path), None) is None
    assert read_plain(f"{path}:{path}", None) is None
    path.write_bytes(with_user("https://h", {"token": "t"}))
    assert read_plain(str(path), None) is not None
    assert read_plain(str(path), "another context") is None
    path.write_text("clusters: [")
    assert read_plain(str(path), None) is None
    assert read_plain(str(tmp_path / "nothing"), None) is None


@pytest.mark.parametrize("user", [{"token": TOKEN}, {"username": "a", "password": "b"}])
async def test_a_server_that_is_no_url_is_said(tmp_path: Path, user: dict[str, Any]) -> None:
    path = tmp_path / "kubeconfig"
    path.write_bytes(with_user("https://[::1", user))
    with pytest.raises(KubeconfigError, match="its server is no URL"):
        await from_kubeconfig("m", str(path))
