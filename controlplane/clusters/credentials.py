"""Keeps the value of the Authorization header for one API server fresh.

A worker's kubeconfig holds a token and that is all. The management cluster may also be reached with a service account's
projected token, which the kubelet renews in place, or through whatever a person's kubeconfig says (exec plugin, token
file, OIDC), which kubernetes-asyncio's loader knows how to renew. That library takes long to import, so it is imported
only where it is needed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from controlplane.clock import Clock

_FRESH_SECONDS = 60.0


class Credentials(Protocol):
    """A source of Authorization headers."""

    async def authorization(self) -> str:
        """Return the header's value; empty sends none."""

    def rejected(self) -> None:
        """Note that the server answered 401: the next call must not return a remembered value."""


class StaticToken:
    """A bearer token that never changes; empty for none (client certificates, or an open server)."""

    def __init__(self, token: str) -> None:
        self._header = f"Bearer {token}" if token else ""

    async def authorization(self) -> str:
        """Return the same value every time."""
        return self._header

    def rejected(self) -> None:
        """Do nothing: there is no other token."""


class TokenFile:
    """A service account's projected token, read again every minute as client-go does, and after a 401."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path, self._clock = path, clock
        self._header, self._fresh_until = "", float("-inf")

    async def authorization(self) -> str:
        """Return the file's present token. Raises `OSError` if there never was one to read."""
        if self._clock.monotonic() >= self._fresh_until:
            try:
                self._header = f"Bearer {self._path.read_text().strip()}"
            except OSError:
                if not self._header:
                    raise
            self._fresh_until = self._clock.monotonic() + _FRESH_SECONDS
        return self._header

    def rejected(self) -> None:
        """Read the file again next time."""
        self._fresh_until = float("-inf")


class LoaderToken:
    """Whatever a person's kubeconfig says, through kubernetes-asyncio's `KubeConfigLoader` (which runs an exec plugin
    only when its token has expired). One refresh at a time; the loader's temporary files are removed after each."""

    def __init__(self, loader: Any, configuration: Any, clock: Clock) -> None:
        self._loader, self._configuration, self._clock = loader, configuration, clock
        self._lock = asyncio.Lock()
        self._fresh_until = clock.monotonic() + _FRESH_SECONDS

    async def authorization(self) -> str:
        """Return the loader's present token. Raises whatever an exec plugin that fails raises."""
        async with self._lock:
            if self._clock.monotonic() >= self._fresh_until:
                await load(self._loader, self._configuration)
                self._fresh_until = self._clock.monotonic() + _FRESH_SECONDS
        return str(self._configuration.api_key.get("BearerToken", ""))

    def rejected(self) -> None:
        """Ask the loader again next time."""
        self._fresh_until = float("-inf")


class KeyMaterial(NamedTuple):
    """The PEM texts that a loaded configuration names; empty where it names none."""

    ca_data: bytes
    client_certificate_data: bytes
    client_key_data: bytes


async def load(loader: Any, configuration: Any) -> KeyMaterial:
    """Let the loader fill the configuration, and return the key material it names.

    The loader writes inline certificates into temporary files that live as long as the process; they are read here and
    removed."""
    from kubernetes_asyncio.config import kube_config

    try:
        await loader.load_and_set(configuration)
        paths = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        return KeyMaterial(*(_contents(path) for path in paths))
    finally:
        kube_config._cleanup_temp_files()


def _contents(path: str | None) -> bytes:
    return Path(path).read_bytes() if path else b""
