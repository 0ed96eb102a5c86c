"""Reads a person's kubeconfig that holds nothing but a server and a token or a certificate.

In: where the file lies, and a context. Out: what it says, or None, and then kubernetes-asyncio's loader has to read it:
several files, an exec plugin, an auth provider, a token file, a password, anything unusual and anything wrong, so that
what is supported and what is said of a fault are that loader's. It costs 0.4 seconds of processor time to import, and
most kubeconfigs do not need it."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import msgspec
import yaml

from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.kube.documents import UNREADABLE


class _PlainCluster(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    server: str
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: Any = None  # minikube's notes


class _PlainUser(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    token: str = ""
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""


class _PlainContext(msgspec.Struct):
    cluster: str
    user: str


class _Named(msgspec.Struct):
    name: str
    cluster: Any = None
    user: Any = None
    context: Any = None


class _PlainFile(msgspec.Struct, rename="kebab"):
    clusters: list[_Named]
    users: list[_Named]
    contexts: list[_Named]
    current_context: str = ""


def read_plain(location: str, context: str | None) -> ClientConfig | None:
    """Return what the kubeconfig says, None if it is not of the plain kind."""
    path = Path(location).expanduser()
    if os.pathsep in location:
        return None
    try:
        file = msgspec.convert(yaml.load(path.read_bytes(), Loader=_LOADER), _PlainFile)  # noqa: S506 - a safe loader
        chosen = msgspec.convert(_only(file.contexts, context or file.current_context).context, _PlainContext)
        cluster = msgspec.convert(_only(file.clusters, chosen.cluster).cluster, _PlainCluster)
        user = msgspec.convert(_only(file.users, chosen.user).user, _PlainUser)
        return _config(path.absolute().parent, cluster, user)
    except (OSError, LookupError, *UNREADABLE):
        return None


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _only(entries: list[_Named], name: str) -> _Named:
    """Return the entry of a name; `LookupError` if there is none, or more than one."""
    found = [entry for entry in entries if entry.name == name]
    if len(found) != 1:
        raise LookupError(name)
    return found[0]


def _config(folder: Path, cluster: _PlainCluster, user: _PlainUser) -> ClientConfig:
    server = cluster.server.rstrip("/")
    if not server.startswith("https"):  # the loader leaves certificates out then
        return ClientConfig(server, token=user.token, proxy_url=cluster.proxy_url)
    return ClientConfig(
        server=server,
        token=user.token,
        ca_data=_material(folder, cluster.certificate_authority_data, cluster.certificate_authority),
        client_certificate_data=_material(folder, user.client_certificate_data, user.client_certificate),
        client_key_data=_material(folder, user.client_key_data, user.client_key),
        proxy_url=cluster.proxy_url,
        tls_server_name=cluster.tls_server_name,
        verify=not cluster.insecure_skip_tls_verify,
    )


def _material(folder: Path, data: str, path: str) -> bytes:
    if data:
        return base64.standard_b64decode(data)
    return (folder / path).read_bytes() if path else b""
