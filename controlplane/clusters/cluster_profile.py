"""Reads the way to a cluster out of a ClusterProfile, as kubernetes-sigs/cluster-inventory-api pkg/access does
(vendored by kubernetes-sigs/kueue ff69552e).

In: the status of a ClusterProfile as bytes, and the access providers of the settings. Out: the configuration of a
client, whose credentials come from the provider's command. The profile says where the cluster is, and no more: its
extensions for further arguments and variables of the command are not followed, as Kueue's settings do not allow
them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import orjson

from controlplane.clusters.exec_credentials import ExecCredentials
from controlplane.clusters.kubeconfig import (
    BAD_PROFILE,
    ClientConfig,
    KubeconfigError,
    check_rest_config,
    decoded,
    unforeseen_counts,
)
from controlplane.kube.kinds import Json
from controlplane.settings.access_providers import AccessProvider

_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class _Extension(msgspec.Struct):
    name: str = ""
    extension: Any = None


class _ProfileCluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    certificate_authority_data: str | None = ""
    proxy_url: str | None = ""
    tls_server_name: str | None = ""
    extensions: list[_Extension] | None = None


class _Access(msgspec.Struct):
    name: str = ""
    cluster: _ProfileCluster = msgspec.field(default_factory=_ProfileCluster)


class _ProfileStatus(msgspec.Struct, rename="camel"):
    access_providers: list[_Access] | None = None
    credential_providers: list[_Access] | None = None


def not_found(name: str) -> KubeconfigError:
    """Return the error for a ClusterProfile that does not exist (yet)."""
    return KubeconfigError(BAD_PROFILE, f'ClusterProfile.multicluster.x-k8s.io "{name}" not found')


def access_of(profile: Json) -> bytes:
    """Return what a ClusterProfile says of the way to its cluster; the rest of it may change as it likes. Nothing, if
    that is nested too deep."""
    status = profile.get("status")
    named = status if isinstance(status, dict) else {}
    kept = {key: named.get(key) for key in ("accessProviders", "credentialProviders") if named.get(key)}
    try:
        return orjson.dumps(kept, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        return b""


@unforeseen_counts(BAD_PROFILE)
def client_config(name: str, access: bytes, providers: Sequence[AccessProvider]) -> ClientConfig:
    """Return how to reach the cluster of a profile; `KubeconfigError` (`BadClusterProfile`, `BadRestConfig`) if it
    does not say, or nobody here knows how to log in there.

    The first provider of the settings counts that the profile names too."""
    if not providers:
        raise KubeconfigError(BAD_PROFILE, "no access provider configured")
    if not access:
        raise KubeconfigError(BAD_PROFILE, "status cannot be read: it is nested too deep")
    try:
        status = msgspec.json.decode(access, type=_ProfileStatus)
    except msgspec.DecodeError as error:
        raise KubeconfigError(BAD_PROFILE, f"status cannot be read: {error}") from None
    # One that is in both lists counts as the list says that took the other's place.
    offered = {
        one.name: one.cluster for one in [*(status.credential_providers or []), *(status.access_providers or [])]
    }
    provider = next((one for one in providers if one.name in offered), None)
    if provider is None:
        raise KubeconfigError(BAD_PROFILE, f'no matching cluster accessor found for cluster profile "{name}"')
    cluster = offered[provider.name]
    ca_data = decoded(cluster.certificate_authority_data or "", _bad_authority)
    config = ClientConfig(
        server=cluster.server.rstrip("/"),
        ca_data=ca_data,
        proxy_url=cluster.proxy_url or "",
        tls_server_name=cluster.tls_server_name or "",
        credentials=ExecCredentials(provider.exec_config, _cluster_info(cluster)),
    )
    check_rest_config(config)
    return config


def _bad_authority() -> KubeconfigError:
    return KubeconfigError(BAD_PROFILE, "certificate-authority-data is no base64")


def _cluster_info(cluster: _ProfileCluster) -> Json:
    """Return what a command that asks for it is told of the cluster."""
    extension = next((one.extension for one in cluster.extensions or [] if one.name == _EXEC_EXTENSION), None)
    told = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "certificate-authority-data": cluster.certificate_authority_data,
        "proxy-url": cluster.proxy_url,
        "config": extension,
    }
    return {key: value for key, value in told.items() if value}
