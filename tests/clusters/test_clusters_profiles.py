"""What a ClusterProfile comes to: where its cluster is, by which of our commands it is logged in to, and what is wrong
with it in Kueue's words."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from controlplane.clusters.cluster_profile import access_of, client_config
from controlplane.clusters.exec_credentials import ExecCredentials
from controlplane.clusters.kubeconfig import KubeconfigError
from controlplane.settings.access_providers import AccessProvider, ExecConfig
from tests.support.rows import each

V1 = "client.authentication.k8s.io/v1"
FIRST, SECOND = (AccessProvider(name, ExecConfig(f"/bin/{name}", V1)) for name in ("first", "second"))
CA = base64.b64encode(b"a certificate").decode()


def status(*providers: Any, before: tuple[Any, ...] = ()) -> bytes:
    return access_of({"status": {"accessProviders": list(providers), "credentialProviders": list(before)}})


def access(name: str, server: str = "https://worker.example:6443", **more: Any) -> dict[str, Any]:
    return {"name": name, "cluster": {"server": server, **more}}


def test_the_first_provider_of_the_settings_that_the_profile_names_counts() -> None:
    data = status(access("second", "https://b.example"), access("first", "https://a.example"), access("third"))
    found = client_config("p", data, [FIRST, SECOND])
    assert found.server == "https://a.example"
    assert repr(found.credentials) == "ExecCredentials('/bin/first')"
    assert client_config("p", status(access("second")), [FIRST, SECOND]).server == "https://worker.example:6443"


def test_where_the_cluster_is() -> None:
    more = {"certificate-authority-data": CA, "proxy-url": "http://proxy:1", "tls-server-name": "inside"}
    found = client_config("p", status(access("first", **more, extensions=None)), [FIRST])
    assert (found.ca_data, found.proxy_url, found.tls_server_name) == (b"a certificate", "http://proxy:1", "inside")
    assert isinstance(found.credentials, ExecCredentials)
    assert found.verify


def test_the_deprecated_list_counts_after_the_one_that_took_its_place() -> None:
    old = access("first", "https://old.example")
    assert client_config("p", status(before=(old,)), [FIRST]).server == "https://old.example"
    assert client_config("p", status(access("first"), before=(old,)), [FIRST]).server == "https://worker.example:6443"


BAD: dict[str, tuple[bytes, list[AccessProvider], str, str]] = {
    "nobody logs in": (status(access("first")), [], "BadClusterProfile", "no access provider configured"),
    "no status": (
        access_of({}),
        [FIRST],
        "BadClusterProfile",
        'no matching cluster accessor found for cluster profile "p"',
    ),
    "null": (
        access_of({"status": None}),
        [FIRST],
        "BadClusterProfile",
        'no matching cluster accessor found for cluster profile "p"',
    ),
    "another": (
        status(access("x")),
        [FIRST],
        "BadClusterProfile",
        'no matching cluster accessor found for cluster profile "p"',
    ),
    "no server": (status({"name": "first"}), [FIRST], "BadRestConfig", "untrusted server endpoint"),
    "a strange server": (
        status(access("first", "https://a_b/")),
        [FIRST],
        "BadRestConfig",
        "untrusted server endpoint",
    ),
    "a password": (
        status(access("first", "https://u:p@a.example")),
        [FIRST],
        "BadRestConfig",
        "basic auth is not allowed",
    ),
    "in the clear": (
        status(access("first", "http://a.example")),
        [FIRST],
        "BadRestConfig",
        "credentials are not sent over plain http to another machine, use an https server",
    ),
    "socks": (
        status(access("first", **{"proxy-url": "socks5://a"})),
        [FIRST],
        "BadRestConfig",
        "proxy-url must be an http or https URL",
    ),
    "no base64": (
        status(access("first", **{"certificate-authority-data": "?"})),
        [FIRST],
        "BadClusterProfile",
        "certificate-authority-data is no base64",
    ),
}


@each("case", BAD)
def test_what_is_wrong_is_said_in_the_condition(case: str) -> None:
    data, providers, reason, err = BAD[case]
    with pytest.raises(KubeconfigError) as error:
        client_config("p", data, providers)
    assert (error.value.reason, error.value.message) == (reason, f"load client config failed: {err}")


def test_a_status_that_is_none_is_said() -> None:
    with pytest.raises(KubeconfigError, match="status cannot be read"):
        client_config("p", access_of({"status": {"accessProviders": "x"}}), [FIRST])


def test_a_status_that_is_nested_too_deep_is_said() -> None:
    deep: list[Any] = []
    for _ in range(300):
        deep = [deep]
    data = status(access("first", extensions=[{"name": "a", "extension": deep}]))
    with pytest.raises(KubeconfigError, match="status cannot be read: it is nested too deep"):
        client_config("p", data, [FIRST])


@pytest.mark.parametrize("proxy", ["socks5://proxy", "http://[", "http://[zz]", "http://proxy:x", "http://"])
def test_a_proxy_that_is_none_is_said(proxy: str) -> None:
    with pytest.raises(KubeconfigError, match="proxy-url must be an http or https URL"):
        client_config("p", status(access("first", **{"proxy-url": proxy})), [FIRST])


def test_what_else_changes_in_a_profile_is_no_change() -> None:
    one = {"status": {"accessProviders": [access("first")], "conditions": [{"type": "A"}]}}
    two = {"status": {"accessProviders": [access("first")], "version": {"kubernetes": "1.34"}}}
    assert access_of(one) == access_of(two)
