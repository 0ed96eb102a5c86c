"""When a token ends, by what it says itself; and who hears of it."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.clusters.sources import SecretSource
from controlplane.kube.expiry import certificate_expiry, credentials_expiry, token_expiry
from controlplane.telemetry import Metrics
from tests.clusters.fleet import fleet
from tests.clusters.miniapi import MiniApi, kubeconfig, until
from tests.clusters.pki import make
from tests.support.rows import each

NAME = "controlplane_kubeconfig_expires_timestamp_seconds"


def token(claims: Any) -> str:
    def part(value: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'RS256'})}.{part(claims)}.c2lnbmF0dXJl"


@pytest.mark.parametrize("padding", range(4))
def test_a_service_account_s_token_says_when_it_ends(padding: int) -> None:
    claims = {"exp": 1793000000, "iat": 1792000000, "iss": "https://kubernetes.default.svc" + "x" * padding}
    assert token_expiry(token(claims)) == datetime.fromtimestamp(1793000000, UTC)


@each(
    "given_token",
    [
        "",
        "abcdef0123456789",
        "a.b",
        "a.b.c",
        "a.b.c.d",
        "....",
        token([]),
        token({"exp": "soon"}),
        token({"exp": -1}),
        token({"exp": 1e300}),
        token({"iss": "kubernetes/serviceaccount"}),
        "a." + base64.urlsafe_b64encode(b'{"x": ' + b"[" * 9_000).decode() + ".c",
    ],
)
def test_another_token_says_nothing(given_token: str) -> None:
    assert token_expiry(given_token) is None


@given(st.text())
def test_nothing_that_a_kubeconfig_holds_is_an_error(text: str) -> None:
    token_expiry(f"{text}.{text}.{text}")
    token_expiry(text)


def test_the_metric_is_that_of_the_kubeconfig_that_was_read_last() -> None:
    metrics = Metrics()
    metrics.kubeconfig_read("a", datetime.fromtimestamp(1793000000, UTC))
    metrics.kubeconfig_read("b", None)
    assert metrics.registry.get_sample_value(NAME, {"cluster": "a"}) == 1793000000
    assert metrics.registry.get_sample_value(NAME, {"cluster": "b"}) is None
    metrics.kubeconfig_read("a", None)
    assert metrics.registry.get_sample_value(NAME, {"cluster": "a"}) is None


async def test_each_kubeconfig_that_is_read_tells(api: MiniApi) -> None:
    told: list[tuple[str, datetime | None]] = []
    async with fleet(on_expiry=lambda *what: told.append(what)) as f:
        f.secrets["s"] = kubeconfig(api.url, token({"exp": 1793000000}))
        f.connections.set("w", SecretSource("s"))
        await until(lambda: bool(told))
        f.secrets["s"] = kubeconfig(api.url)
        f.connections.secret_changed("s")
        await until(lambda: len(told) == 2)
    assert told == [("w", datetime.fromtimestamp(1793000000, UTC)), ("w", None)]


def end_as_openssl_reads_it(file: Path) -> datetime:
    command = ["openssl", "x509", "-in", str(file), "-noout", "-enddate"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(said.strip().partition("=")[2]), UTC)


def test_a_certificate_says_when_it_ends(tmp_path: Path) -> None:
    pki = make(tmp_path)
    ends = end_as_openssl_reads_it(tmp_path / "client.crt")
    assert certificate_expiry(pki.client_certificate) == ends
    # The authority's may have been made a second before.
    chain = b"some text\n" + pki.client_certificate + pki.ca
    assert certificate_expiry(chain) == min(ends, end_as_openssl_reads_it(tmp_path / "ca.crt"))
    assert credentials_expiry("no token", pki.client_certificate) == ends
    before = ends - timedelta(days=1)
    assert credentials_expiry(token({"exp": before.timestamp()}), pki.client_certificate) == before


@given(st.binary(max_size=80))
def test_what_is_no_certificate_says_nothing(garbage: bytes) -> None:
    begin, end = b"-----BEGIN CERTIFICATE-----\n", b"\n-----END CERTIFICATE-----\n"
    assert certificate_expiry(garbage) is None
    assert certificate_expiry(begin + garbage + end) is None
    assert certificate_expiry(begin + base64.b64encode(garbage) + end) is None
