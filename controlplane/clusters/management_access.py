"""Opens the management cluster: by a pod's service account, or by a person's kubeconfig.

Unlike a worker's, these credentials are the operator's own, so everything that kubectl accepts is accepted: exec
plugins, token files, OIDC, files beside the kubeconfig. A plain one is read here, any other one by kubernetes-asyncio's
loader. Tokens are renewed as they age; a client certificate from an exec plugin is read once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from controlplane.clock import Clock, SystemClock
from controlplane.clusters.credentials import Credentials, LoaderToken, StaticToken, TokenFile, load
from controlplane.clusters.kubeconfig import BAD, ClientConfig, KubeconfigError
from controlplane.clusters.plain_kubeconfig import read_plain
from controlplane.clusters.transport import Transport
from controlplane.kube.documents import UNREADABLE

KUBECONFIG = "~/.kube/config"
_KEYS = "Invalid kube-config file. "  # with which the loader begins what it says of the keys
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster(
    name: str = "",
    *,
    identity: str = "",
    clock: Clock | None = None,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Transport:
    """Return the transport of a pod to its own API server. Raises `KubeconfigError` outside a pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise KubeconfigError(BAD, "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: not in a pod")
    try:
        ca_data = (service_account / "ca.crt").read_bytes()
    except OSError as error:
        raise KubeconfigError(BAD, f"no service account: {error.strerror}") from None
    address = f"[{host}]" if ":" in host else host
    config = ClientConfig(server=f"https://{address}:{port}", ca_data=ca_data)
    credentials = TokenFile(service_account / "token", clock or SystemClock())
    return Transport(name, config, identity=identity, credentials=credentials)


async def from_kubeconfig(
    name: str = "",
    path: str | None = None,
    context: str | None = None,
    *,
    identity: str = "",
    clock: Clock | None = None,
) -> Transport:
    """Return the transport that a kubeconfig describes: `path`, else `$KUBECONFIG`, else `~/.kube/config`.

    Raises `KubeconfigError` for one that cannot be loaded.
    """
    plain = read_plain(path or os.environ.get("KUBECONFIG") or KUBECONFIG, context)
    if plain is not None:
        return _transport(name, plain, identity)
    from kubernetes_asyncio import client
    from kubernetes_asyncio.config import kube_config

    configuration = client.Configuration()
    location = path or os.environ.get("KUBECONFIG") or kube_config.KUBE_CONFIG_DEFAULT_LOCATION
    if _is_missing(location):  # which the loader would log as well
        raise KubeconfigError(BAD, f"the kubeconfig cannot be loaded (there is no such file: {location})")
    try:
        loader = kube_config._get_kube_config_loader_for_yaml_file(location, active_context=context)
        keys = await load(loader, configuration)
    except Exception as error:  # the loader raises whatever its parts raise
        raise KubeconfigError(BAD, f"the kubeconfig cannot be loaded ({_why(error, location, context)})") from None
    config = ClientConfig(
        server=str(configuration.host).rstrip("/"),
        ca_data=keys.ca_data,
        client_certificate_data=keys.client_certificate_data,
        client_key_data=keys.client_key_data,
        proxy_url=configuration.proxy or "",
        tls_server_name=configuration.tls_server_name or "",
        verify=configuration.verify_ssl,
    )
    credentials = _credentials(loader, configuration, clock or SystemClock())
    return _transport(name, config, identity, credentials)


def _transport(name: str, config: ClientConfig, identity: str, credentials: Credentials | None = None) -> Transport:
    try:
        urlsplit(config.server)
    except ValueError as error:
        raise KubeconfigError(BAD, f"the kubeconfig cannot be loaded (its server is no URL: {error})") from None
    return Transport(name, config, identity=identity, credentials=credentials)


def _credentials(loader: Any, configuration: Any, clock: Clock) -> Credentials:
    header = str(configuration.api_key.get("BearerToken", ""))
    bearer = header.removeprefix("Bearer ")
    if not _renewable(loader) and (not header or bearer != header):
        return StaticToken(bearer)
    return LoaderToken(loader, configuration, clock)


def _is_missing(path: str) -> bool:
    return os.pathsep not in path and not Path(path).expanduser().exists()


def _other_contexts(location: str, context: str | None) -> str:
    """Return that there is no such context, and which there are; "" if there is, if none is asked for, or nobody
    knows."""
    known: list[str] = []
    for path in location.split(os.pathsep):
        try:
            found = yaml.safe_load(Path(path).expanduser().read_text())
            known += [str(one["name"]) for one in found["contexts"]]
        except (OSError, *UNREADABLE):
            continue
    if not (known and context) or context in known:
        return ""
    return f"there is no context {context} in {location}, only {', '.join(sorted(known))}"


def _why(error: Exception, location: str, context: str | None) -> str:
    """Return what is wrong with a kubeconfig, as far as that names keys and objects only: other texts may quote it."""
    from kubernetes_asyncio.config import ConfigException

    if other := _other_contexts(location, context):
        return other
    said = str(error)
    if isinstance(error, ConfigException) and said.startswith(_KEYS):
        return said.removeprefix(_KEYS)
    if isinstance(error, TypeError):
        return "it has not the form of a kubeconfig"
    return "it is not a YAML document" if isinstance(error, yaml.YAMLError) else type(error).__name__


def _renewable(loader: object) -> bool:
    """Say whether the current user's credentials can change under us: an exec plugin, an auth provider or a token
    file.
    """
    user = getattr(loader, "_user", None)
    return user is not None and any(key in user for key in ("exec", "auth-provider", "tokenFile"))
