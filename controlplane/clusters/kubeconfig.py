"""Checks a worker's kubeconfig: bytes in, the few things that may come out of it as one frozen value.

A kubeconfig can run programs, read files of whoever loads it, and switch TLS off. So a worker's may only hold inline
material. The rules, their order and their messages are those of Kueue's `MultiKueueCluster` (reasons `BadKubeConfig`
and `InsecureKubeConfig`), so that what a user sees in the status does not change; three are ours and come last: no
credentials in the server's URL, no client certificate *paths*, and no token in the clear to another machine.

This module reads nothing; `sources.py` does. Nothing here puts a value of the file into a message, only names.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

import msgspec
import yaml

from controlplane.clusters.credentials import Credentials
from controlplane.kube.documents import UNREADABLE

Reason = Literal["BadKubeConfig", "InsecureKubeConfig", "BadClusterProfile", "BadRestConfig"]
BAD: Reason = "BadKubeConfig"
INSECURE: Reason = "InsecureKubeConfig"
BAD_PROFILE: Reason = "BadClusterProfile"
BAD_REST: Reason = "BadRestConfig"

_MAX_BYTES = 1 << 20  # what a Secret can hold
# A kubeconfig nests six deep; libyaml's composer recurses in C and overflows its stack on a hundred thousand brackets.
_MAX_DEPTH = 32
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_1123 = re.compile(rf"{_DNS_LABEL}(\.{_DNS_LABEL})*\Z")


class KubeconfigError(Exception):
    """The kubeconfig cannot be had or may not be used.

    `reason` is the condition's reason, `message` its message: `load client config failed: <err>`.
    """

    def __init__(self, reason: Reason, err: str) -> None:
        self.reason = reason
        self.message = f"load client config failed: {err}"
        super().__init__(self.message)


@contextmanager
def unforeseen_counts(reason: Reason) -> Iterator[None]:
    """Raise `KubeconfigError` for whatever nobody foresaw in what somebody wrote for one cluster: it must not end what
    serves all. Its message says where that was, and no value of the file."""
    try:
        yield
    except KubeconfigError:
        raise
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
        raise KubeconfigError(reason, f"it cannot be used, for a reason that was not foreseen ({where})") from error


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """All that is needed to reach one API server. PEM texts are bytes; empty means absent. The repr shows no
    secret. `credentials` take the place of token and certificate, on the way over a ClusterProfile alone.
    """

    server: str
    token: str = field(default="", repr=False)
    ca_data: bytes = field(default=b"", repr=False)
    client_certificate_data: bytes = field(default=b"", repr=False)
    client_key_data: bytes = field(default=b"", repr=False)
    proxy_url: str = field(default="", repr=False)
    tls_server_name: str = ""
    credentials: Credentials | None = field(default=None, repr=False, compare=False)
    verify: bool = True  # only a person's own kubeconfig for the management cluster can switch it off

    @property
    def may_carry_token(self) -> bool:
        """Whether a token sent to this server stays unread on the way: TLS, or a server (and proxy) on this very
        machine.
        """
        if urlsplit(self.server).scheme == "https":
            return True
        return is_loopback(self.server) and (not self.proxy_url or is_loopback(self.proxy_url))


class _Fields(msgspec.Struct, rename="kebab"):
    """Keys of a kubeconfig are kebab-case where they are not given by name; unknown ones are ignored, as client-go
    does.
    """


class _Cluster(_Fields):
    server: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    tls_server_name: str = ""


class _User(_Fields):
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    username: str = ""
    password: str = ""
    exec: Any = None
    auth_provider: Any = None


class _Context(_Fields):
    cluster: str = ""
    user: str = ""


class _NamedCluster(_Fields):
    name: str = ""
    cluster: _Cluster | None = None


class _NamedUser(_Fields):
    name: str = ""
    user: _User | None = None


class _NamedContext(_Fields):
    name: str = ""
    context: _Context | None = None


class _File(_Fields):
    api_version: str | None = msgspec.field(default=None, name="apiVersion")
    kind: str | None = None
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None
    current_context: str | None = None


@unforeseen_counts(BAD)
def parse_kubeconfig(data: bytes) -> ClientConfig:
    """Return the effective, checked client configuration of a worker's kubeconfig.

    Raises `KubeconfigError` with the first rule that is broken, in Kueue's order: parse; every user's tokenFile; every
    cluster's TLS and server; then the effective configuration of the current context.
    """
    file = _parse(data)
    users, clusters, contexts = _named(file)
    if any(user.token_file for user in users.values()):
        raise KubeconfigError(INSECURE, "tokenFile is not allowed")
    for name, cluster in clusters.items():
        _check_cluster(name, cluster)
    current = file.current_context or ""
    if current and current not in contexts:
        raise KubeconfigError(INSECURE, f"context was not found for specified context: {current}")
    context = contexts.get(current, _Context())
    if context.cluster not in clusters:
        err = "no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
        raise KubeconfigError(INSECURE, f"invalid configuration: {err}")
    cluster, user = clusters[context.cluster], users.get(context.user, _User())
    _check_user(context.user, user, cluster)
    config = ClientConfig(
        server=cluster.server.rstrip("/"),
        token=user.token,
        ca_data=_decoded(cluster.certificate_authority_data),
        client_certificate_data=_decoded(user.client_certificate_data),
        client_key_data=_decoded(user.client_key_data),
        proxy_url=cluster.proxy_url,
        tls_server_name=cluster.tls_server_name,
    )
    _check_transport(config)
    return config


def _named(file: _File) -> tuple[dict[str, _User], dict[str, _Cluster], dict[str, _Context]]:
    """Return the file's users, clusters and contexts by name."""
    return (
        _by_name((u.name, u.user or _User()) for u in file.users or []),
        _by_name((c.name, c.cluster or _Cluster()) for c in file.clusters or []),
        _by_name((c.name, c.context or _Context()) for c in file.contexts or []),
    )


class _KubeconfigLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as kubeconfigs use it: plain values, and no merge keys, whose expansion can be made to fill the memory."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        if any(key.tag == "tag:yaml.org,2002:merge" for key, _ in node.value):
            raise yaml.constructor.ConstructorError(problem="merge keys are not allowed", problem_mark=node.start_mark)


def _parse(data: bytes) -> _File:
    """Return the file's typed tree. Messages tell the place, never the text: the text may be a token."""
    tree = _tree(data)
    try:
        file = msgspec.convert({} if tree is None else tree, _File, str_keys=False)
    except msgspec.ValidationError as error:
        raise _unparseable(str(error)) from None
    if file.kind not in (None, "", "Config") or file.api_version not in (None, "", "v1"):
        raise _unparseable(f'no kind "{file.kind or ""}" is registered for version "{file.api_version or ""}"')
    _check_encoding(file)
    return file


def _check_encoding(file: _File) -> None:
    for cluster in file.clusters or []:
        _decoded(cluster.cluster.certificate_authority_data if cluster.cluster else "")
    for user in file.users or []:
        _decoded(user.user.client_certificate_data if user.user else "")
        _decoded(user.user.client_key_data if user.user else "")


def _tree(data: bytes) -> object:
    """Return the file's YAML as plain values."""
    if len(data) > _MAX_BYTES:
        raise _unparseable(f"{len(data)} bytes are more than {_MAX_BYTES}")
    try:
        if not _is_shallow(data):
            raise _unparseable("yaml: nested too deeply")
        tree: object = yaml.load(data, Loader=_KubeconfigLoader)  # noqa: S506 - a safe loader
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}:" if error.problem_mark else ""
        raise _unparseable(f"yaml:{line} not valid YAML") from None
    except UNREADABLE:
        raise _unparseable("yaml: not valid YAML") from None
    return tree


def _is_shallow(data: bytes) -> bool:
    depth = 0
    for event in yaml.parse(data, Loader=_KubeconfigLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            return False
    return True


def _unparseable(err: str) -> KubeconfigError:
    return KubeconfigError(INSECURE, f"failed to parse kubeconfig(apiconfig): {err}")


_Entry = TypeVar("_Entry")


def _by_name(entries: Iterable[tuple[str, _Entry]]) -> dict[str, _Entry]:
    """Return the entries as a map; a name that comes twice makes the file ambiguous and so unparseable."""
    found: dict[str, _Entry] = {}
    for name, entry in entries:
        if name in found:
            raise _unparseable(f'duplicate name "{name}" in list')
        found[name] = entry
    return found


def decoded(text: str, failure: Callable[[], KubeconfigError]) -> bytes:
    """Return what a text in base64 holds; raises the failure if it is none."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise failure() from None


def _decoded(text: str) -> bytes:
    return decoded(text, lambda: _unparseable("illegal base64 data"))


def _check_cluster(name: str, cluster: _Cluster) -> None:
    if cluster.insecure_skip_tls_verify:
        raise KubeconfigError(INSECURE, f"insecure TLS verification is not allowed for cluster {name}")
    if cluster.certificate_authority:
        err = "certificate-authority file paths are not allowed, use certificate-authority-data for cluster"
        raise KubeconfigError(INSECURE, f"{err} {name}")
    if not cluster.server:
        raise KubeconfigError(INSECURE, f"server URL is required for cluster {name}")


def _check_user(name: str, user: _User, cluster: _Cluster) -> None:
    """Check the effective user and server: Kueue's rules on the rest config, in its order, then ours."""
    if not _valid_host(cluster.server):
        raise KubeconfigError(INSECURE, "untrusted server endpoint")
    if user.username or user.password or "@" in urlsplit(cluster.server).netloc:
        raise KubeconfigError(INSECURE, "basic auth is not allowed")
    if user.exec is not None:
        raise KubeconfigError(INSECURE, "exec plugins are not allowed")
    if user.auth_provider is not None:
        raise KubeconfigError(INSECURE, "auth providers are not allowed")
    if user.client_certificate or user.client_key:
        err = (
            "client-certificate and client-key file paths are not allowed, "
            "use client-certificate-data and client-key-data for user"
        )
        raise KubeconfigError(INSECURE, f"{err} {name}")


def check_rest_config(config: ClientConfig) -> None:
    """Check what a ClusterProfile came to, whose credentials are not in it: `BadRestConfig`, with Kueue's messages.

    Ours come last: no credentials in the URL, and none sent in the clear to another machine."""
    if not _valid_host(config.server):
        raise KubeconfigError(BAD_REST, "untrusted server endpoint")
    if "@" in urlsplit(config.server).netloc:
        raise KubeconfigError(BAD_REST, "basic auth is not allowed")
    if not _valid_proxy(config.proxy_url):
        raise KubeconfigError(BAD_REST, "proxy-url must be an http or https URL")
    if not config.may_carry_token:
        raise KubeconfigError(
            BAD_REST, "credentials are not sent over plain http to another machine, use an https server"
        )


def _valid_host(server: str) -> bool:
    """Say whether the server's host is an IP address or a DNS-1123 subdomain, read as Go's net/url and net read it."""
    try:
        parts = urlsplit(server.lower())
        port = parts.port
    except ValueError:
        return False
    host = parts.hostname or ""
    if ":" in host and port is None:
        return False  # Go sees the brackets of a port-less IPv6 host and takes it for neither
    return _is_ip(host) or (len(host) <= 253 and _DNS_1123.match(host) is not None)


def _valid_proxy(url: str) -> bool:
    """Say whether there is no proxy, or one that requests can go through."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    return not url or (parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0)


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host


def is_loopback(url: str) -> bool:
    """Say whether a URL's host is this machine by its very spelling (no name is looked up)."""
    host = urlsplit(url).hostname or ""
    return host == "localhost" or (_is_ip(host) and ipaddress.ip_address(host).is_loopback)


def _check_transport(config: ClientConfig) -> None:
    """Refuse what this client does not support; Kueue has no rule for it, so after all of Kueue's rules."""
    if not _valid_proxy(config.proxy_url):
        raise KubeconfigError(BAD, "proxy-url must be an http or https URL")
    if config.token and not config.may_carry_token:
        raise KubeconfigError(
            INSECURE, "a bearer token is not sent over plain http to another machine, use an https server"
        )
