"""Every rule of Kueue's kubeconfig checks, its order and its messages; and that no value of the file gets into a
message.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.clusters.kubeconfig import KubeconfigError, parse_kubeconfig
from controlplane.clusters.sources import checked_path, kubeconfig_of_secret, read_path
from tests.support.rows import each

SECRET = "eyJhbGciOi-secret-token"
PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
PARSE = "failed to parse kubeconfig(apiconfig): "
CERTIFICATE_PATHS = (
    "client-certificate and client-key file paths are not allowed, "
    "use client-certificate-data and client-key-data for user u"
)
NO_CONFIGURATION = "no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
CLEAR = "a bearer token is not sent over plain http to another machine, use an https server"


def document() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "ctx",
        "contexts": [
            {"name": "ctx", "context": {"cluster": "c", "user": "u", "namespace": "x"}},
            {"name": "other", "context": None},
        ],
        "clusters": [
            {"name": "c", "cluster": {"server": "https://Worker.Example.com:6443", "certificate-authority-data": PEM}},
            {"name": "d", "cluster": {"server": "https://d"}},
        ],
        "users": [{"name": "u", "user": {"token": SECRET}}, {"name": "v", "user": {"exec": {"command": "x"}}}],
        "preferences": {},
    }


def refused(raw: bytes | dict[str, Any]) -> KubeconfigError:
    data = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
    with pytest.raises(KubeconfigError) as caught:
        parse_kubeconfig(data)
    assert SECRET not in str(caught.value) + repr(caught.value)
    return caught.value


def changed(path: str, value: Any) -> dict[str, Any]:
    """The good document with one value set (`clusters.1.server`), or removed (None)."""
    found = document()
    where: Any = found
    *steps, last = path.split(".")
    for step in steps:
        where = where[int(step)] if isinstance(where, list) else where[step]
        where = (
            where.get("cluster") or where.get("user") or where.get("context") or where
            if isinstance(where, dict)
            else where
        )
    if value is None:
        del where[last]
    else:
        where[last] = value
    return found


def test_good_kubeconfig_gives_what_a_client_needs() -> None:
    config = parse_kubeconfig(json.dumps(document()).encode())
    assert (config.server, config.token) == ("https://Worker.Example.com:6443", SECRET)
    assert config.ca_data == b"-----BEGIN CERTIFICATE-----"
    assert SECRET not in repr(config)
    assert "BEGIN" not in repr(config)


@each(
    ("path", "value", "err"),
    [
        ("users.1.tokenFile", "/run/token", "tokenFile is not allowed"),
        ("clusters.1.insecure-skip-tls-verify", True, "insecure TLS verification is not allowed for cluster d"),
        (
            "clusters.0.certificate-authority",
            "/ca.crt",
            "certificate-authority file paths are not allowed, use certificate-authority-data for cluster c",
        ),
        ("clusters.1.server", "", "server URL is required for cluster d"),
        ("clusters.1.server", None, "server URL is required for cluster d"),
        ("clusters.0.server", "https://under_score:6443", "untrusted server endpoint"),
        ("clusters.0.server", "10.0.0.1:6443", "untrusted server endpoint"),
        ("clusters.0.server", "https://", "untrusted server endpoint"),
        ("clusters.0.server", "https://a..b", "untrusted server endpoint"),
        ("clusters.0.server", "https://host:port", "untrusted server endpoint"),
        ("clusters.0.server", "https://[::1]", "untrusted server endpoint"),
        ("clusters.0.server", f"https://me:{SECRET}@host", "basic auth is not allowed"),
        ("users.0.username", "me", "basic auth is not allowed"),
        ("users.0.password", SECRET, "basic auth is not allowed"),
        ("users.0.exec", {"command": "x", "args": [SECRET]}, "exec plugins are not allowed"),
        ("users.0.auth-provider", {"name": "gcp"}, "auth providers are not allowed"),
        ("users.0.client-certificate", "/c", CERTIFICATE_PATHS),
        ("users.0.client-key", "/k", CERTIFICATE_PATHS),
        ("clusters.0.server", "http://worker:8080", CLEAR),
        ("current-context", "nowhere", "context was not found for specified context: nowhere"),
        (
            "current-context",
            None,
            f"invalid configuration: {NO_CONFIGURATION}",
        ),
        ("users.0.token", 7, PARSE + "Expected `str`, got `int` - at `$.users[0].user.token`"),
        ("kind", "Pod", PARSE + 'no kind "Pod" is registered for version "v1"'),
        ("clusters.1.name", "c", PARSE + 'duplicate name "c" in list'),
        ("users.0.client-key-data", SECRET + "!", PARSE + "illegal base64 data"),
    ],
)
def test_one_broken_rule(path: str, value: Any, err: str) -> None:
    found = document() if path != "clusters.1.name" else document() | {"clusters": [document()["clusters"][0]] * 2}
    error = refused(changed(path, value) if path != "clusters.1.name" else found)
    assert (error.reason, error.message) == ("InsecureKubeConfig", f"load client config failed: {err}")


@pytest.mark.parametrize(
    "proxy",
    [
        *("socks5://proxy", "http://[", "http://[fd00::1:3128", "http://[zz]", "http://\u2100", "http://proxy:x"),
        *("http://proxy:99999", "http://", "http://:80"),
    ],
)
def test_proxy_of_another_kind_is_bad_not_insecure(proxy: str) -> None:
    error = refused(changed("clusters.0.proxy-url", proxy))
    assert (error.reason, error.message) == (
        "BadKubeConfig",
        "load client config failed: proxy-url must be an http or https URL",
    )


BREAKING = [
    ("users.1.tokenFile", "/t", "tokenFile"),
    ("clusters.1.insecure-skip-tls-verify", True, "insecure TLS"),
    ("clusters.1.certificate-authority", "/c", "certificate-authority file"),
    ("clusters.0.server", "https://no_host", "untrusted server"),
    ("users.0.username", "me", "basic auth"),
    ("users.0.exec", {"command": "x"}, "exec plugins"),
    ("users.0.auth-provider", {"name": "x"}, "auth providers"),
    ("users.0.client-key", "/k", "client-certificate and client-key file"),
]


@each("first", range(len(BREAKING)))
def test_the_first_broken_rule_is_the_one_told(first: int) -> None:
    found = document()
    for path, value, _ in BREAKING[first:]:
        kind, index, key = path.split(".")
        found[kind][int(index)][kind[:-1]][key] = value
    assert refused(found).message.startswith("load client config failed: " + BREAKING[first][2])


@each(
    "raw",
    [
        f"users:\n- name: u\n  user: {{token: {SECRET}\n".encode(),
        f"{SECRET}: [".encode(),
        f"token: *{SECRET}".encode(),
        b"\xff\xfe\x00",
        b"a: &a {x: 1}\nb: {<<: *a}",
        b"[" * 100_000,
        b"clusters: !!int ",
        b"clusters: !!bool x",
        b"clusters: !!timestamp x",
        b"just text",
        b"- a list",
        b"x" * (2 << 20),
    ],
)
def test_what_cannot_be_parsed_says_so_without_quoting(raw: bytes) -> None:
    error = refused(raw)
    assert error.reason == "InsecureKubeConfig"
    assert error.message.startswith("load client config failed: " + PARSE)


def test_an_empty_file_is_no_configuration() -> None:
    assert "no configuration has been provided" in refused(b"").message


@pytest.mark.parametrize(
    "server",
    [
        "http://127.0.0.1:8001",
        "http://localhost:8001",
        "http://[::1]:8001",
        "https://10.0.0.1",
        "https://[fd00::1]:6443",
    ],
)
def test_servers_that_may_get_a_token(server: str) -> None:
    assert parse_kubeconfig(json.dumps(changed("clusters.0.server", server)).encode()).server == server


def test_a_token_for_a_loopback_server_does_not_travel_through_a_foreign_proxy() -> None:
    found = changed("clusters.0.server", "http://127.0.0.1:8001")
    found["clusters"][0]["cluster"]["proxy-url"] = "http://proxy.example.com:3128"
    assert refused(found).message.endswith(CLEAR)


def test_without_a_token_plain_http_is_allowed() -> None:
    found = changed("clusters.0.server", "http://worker:8080")
    found["users"][0]["user"] = {}
    assert parse_kubeconfig(json.dumps(found).encode()).token == ""


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_an_orderly_way(raw: bytes) -> None:
    with pytest.raises(KubeconfigError):
        parse_kubeconfig(raw)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda x: (
            st.lists(x, max_size=3)
            | st.dictionaries(
                st.sampled_from(["name", "user", "cluster", "server", "token", "exec", "context"]), x, max_size=3
            )
        ),
        max_leaves=10,
    ),
    st.sampled_from(["clusters", "users", "contexts", "current-context"]),
)
def test_any_shape_is_accepted_or_refused_in_an_orderly_way(shape: Any, key: str) -> None:
    with contextlib.suppress(KubeconfigError):
        parse_kubeconfig(json.dumps(copy.deepcopy(document()) | {key: shape}).encode())


def test_secret_sources() -> None:
    held = {"data": {"kubeconfig": base64.b64encode(b"bytes").decode()}}
    assert kubeconfig_of_secret("x", held) == b"bytes"
    for secret, err in [
        (None, 'Secret "x" not found'),
        ({"data": {}}, 'key "kubeconfig" not found in secret "x"'),
        ({}, 'key "kubeconfig" not found in secret "x"'),
        ({"data": {"kubeconfig": "%"}}, 'key "kubeconfig" of secret "x" is not base64'),
    ]:
        with pytest.raises(KubeconfigError) as caught:
            kubeconfig_of_secret("x", secret)
        assert (caught.value.reason, caught.value.message) == ("BadKubeConfig", f"load client config failed: {err}")


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "good").write_bytes(b"bytes")
    (tmp_path / "allowed-not").mkdir()
    (tmp_path / "allowed-not" / "file").write_bytes(b"other")
    (allowed / "inside").symlink_to(allowed / "good")
    (allowed / "outside").symlink_to(tmp_path / "allowed-not" / "file")
    (allowed / "loop").symlink_to(allowed / "loop")
    os.mkfifo(allowed / "pipe")
    return allowed


def test_path_below_the_prefix_is_read_also_through_links(prefix: Path) -> None:
    assert read_path(f"{prefix}/good", f"{prefix}/") == b"bytes"
    assert read_path(f"{prefix}/inside", str(prefix)) == b"bytes"
    assert read_path(f"{prefix}/x/../good", str(prefix)) == b"bytes"


@pytest.mark.parametrize(
    ("raw", "err"),
    [
        ("", "kubeconfig path must not be empty"),
        ("../x", 'kubeconfig path is not under the allowed prefix: path contains ".."'),
        ("a/../../x", 'kubeconfig path is not under the allowed prefix: path contains ".."'),
        ("relative", "kubeconfig path is not under the allowed prefix: path must be absolute"),
        (
            "{tmp}/allowed-not/file",
            'kubeconfig path is not under the allowed prefix: "{tmp}/allowed-not/file" is not under "{tmp}/allowed"',
        ),
        (
            "{tmp}/allowed/../allowed-not/file",
            'kubeconfig path is not under the allowed prefix: "{tmp}/allowed-not/file" is not under "{tmp}/allowed"',
        ),
        (
            "{tmp}/allowed/outside",
            'kubeconfig path is not under the allowed prefix: "{tmp}/allowed-not/file" is not under "{tmp}/allowed"',
        ),
        (
            "{tmp}/allowed/missing",
            "cannot resolve kubeconfig path symlinks: lstat {tmp}/allowed/missing: no such file or directory",
        ),
        ("{tmp}/allowed/pipe", "read {tmp}/allowed/pipe: not a regular file"),
        ("{tmp}/allowed", "read {tmp}/allowed: not a regular file"),
        ("{tmp}/a\0b", "kubeconfig path is not under the allowed prefix: path contains a NUL byte"),
    ],
)
def test_path_refused(prefix: Path, raw: str, err: str) -> None:
    with pytest.raises(KubeconfigError) as caught:
        read_path(raw.format(tmp=prefix.parent), f"{prefix}/")
    expected = err.format(tmp=prefix.parent)
    assert (caught.value.reason, caught.value.message) == ("BadKubeConfig", f"load client config failed: {expected}")


def test_where_every_path_is_allowed_a_missing_file_is_told_in_kueues_words(prefix: Path) -> None:
    with pytest.raises(KubeconfigError) as caught:
        read_path(f"{prefix}/missing", "/")
    assert caught.value.message == f"load client config failed: open {prefix}/missing: no such file or directory"


def test_path_loops_and_missing_prefix(prefix: Path) -> None:
    with pytest.raises(KubeconfigError, match="cannot resolve kubeconfig path symlinks"):
        checked_path(f"{prefix}/loop", str(prefix))
    with pytest.raises(KubeconfigError, match='"/etc/x" is not under "/nowhere/at/all"'):
        checked_path("/etc/x", "/nowhere/at/all/")
