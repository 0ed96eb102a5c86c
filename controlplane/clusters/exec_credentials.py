"""Obtains credentials from an exec plugin: a command that prints an ExecCredential
(https://kubernetes.io/docs/reference/config-api/client-authentication.v1/).

In: the command of an access provider, and what it may be told of the cluster. Out: a token, or a client certificate
with its key, until they expire or a server refuses them. The command has no terminal, none of our own settings in its
environment, and a limit of time and of output; what it prints goes nowhere but into requests."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
import orjson

from controlplane.clock import Clock, SystemClock
from controlplane.kube.kinds import Json
from controlplane.settings.access_providers import ExecConfig

_SECONDS = 30.0
_MOST_BYTES = 1 << 20
_REST = 10.0  # seconds in which a command that failed is not run again
_OWN = "CONTROLPLANE_"  # our settings: the database's password is among them


class ExecFailed(Exception):  # noqa: N818 - what happened
    """The command gave no credentials. The message holds nothing that it printed."""


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


class KeyPair(NamedTuple):
    """A client certificate and its key, as PEM; empty if the command gives a token."""

    certificate: bytes = b""
    key: bytes = b""


class ExecCredentials:
    """See the module. One for each cluster: it outlives connections, so that a command is run when it must be and not
    for every attempt."""

    def __init__(
        self, config: ExecConfig, cluster: Json, *, clock: Clock | None = None, seconds: float = _SECONDS
    ) -> None:
        self._config, self._cluster, self._seconds = config, cluster, seconds
        self._clock = clock or SystemClock()
        self._lock = asyncio.Lock()
        self._status: _Status | None = None
        self._failed: tuple[float, ExecFailed] | None = None

    def __repr__(self) -> str:
        return f"ExecCredentials({self._config.command!r})"

    async def authorization(self) -> str:
        """Return the value of the Authorization header, "" if the command gives a certificate alone. Raises
        `ExecFailed`."""
        token = (await self._current()).token
        return f"Bearer {token}" if token else ""

    async def key_pair(self) -> KeyPair:
        """Return the client certificate that is good now. Raises `ExecFailed`."""
        status = await self._current()
        return KeyPair(status.client_certificate_data.encode(), status.client_key_data.encode())

    def rejected(self) -> None:
        """Run the command again next time."""
        self._status = None

    async def _current(self) -> _Status:
        async with self._lock:
            if self._status is not None and not self._expired(self._status):
                return self._status
            now = self._clock.monotonic()
            if self._failed is not None and now < self._failed[0]:
                raise self._failed[1]
            try:
                self._status = await self._obtained()
            except ExecFailed as error:
                self._status, self._failed = None, (self._clock.monotonic() + _REST, error)
                raise
            self._failed = None
            return self._status

    def _expired(self, status: _Status) -> bool:
        until = status.expiration_timestamp
        if until is None:
            return False
        return self._clock.now() >= (until if until.tzinfo else until.replace(tzinfo=UTC))

    async def _obtained(self) -> _Status:
        output = await self._run()
        wanted = self._config.api_version
        try:
            found = msgspec.json.decode(output, type=_ExecCredential)
        except msgspec.DecodeError:
            raise self._failure("printed no ExecCredential") from None
        if found.kind != "ExecCredential":
            raise self._failure("printed no ExecCredential")
        if found.api_version != wanted:
            raise self._failure(f"is configured to use {wanted} and returned another API version")
        status = found.status
        if status is None:
            raise self._failure("did not return a status field")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise self._failure("returned only certificate or key, not both")
        if not status.token and not status.client_certificate_data:
            raise self._failure("did not return a token or cert/key pair")
        if any(character in status.token for character in "\r\n\0"):
            raise self._failure("returned a token that no header can hold")
        if self._expired(status):
            raise self._failure("returned credentials that have expired")
        return status

    async def _run(self) -> bytes:
        """Return what the command prints. It is killed with all that it started once its time is over, or we are
        asked to stop."""
        config = self._config
        try:
            transport, output = await asyncio.get_running_loop().subprocess_exec(
                _Output,
                config.command,
                *config.args,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=self._environment(os.environ),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            why = error.strerror.lower() if isinstance(error, OSError) and error.strerror else "cannot be started"
            raise self._failure(f"cannot be run: {why}") from None
        try:
            async with asyncio.timeout(self._seconds):
                await output.complete.wait()
        except TimeoutError:
            raise self._failure(f"did not end within {self._seconds:g} seconds") from None
        finally:
            await _ended(transport, output)
        if output.size > _MOST_BYTES:
            raise self._failure(f"printed more than {_MOST_BYTES} bytes")
        if code := transport.get_returncode():
            raise self._failure(f"failed with exit code {code}")
        return bytes(output.printed)

    def _environment(self, ours: Mapping[str, str]) -> dict[str, str]:
        """Return our environment without our settings, with what the plugin is given."""
        config = self._config
        spec: Json = {"interactive": False}
        if config.provide_cluster_info:
            spec["cluster"] = self._cluster
        told = {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": spec}
        given = {name: value for name, value in ours.items() if not name.startswith(_OWN)}
        return given | dict(config.env) | {"KUBERNETES_EXEC_INFO": orjson.dumps(told).decode()}

    def _failure(self, why: str) -> ExecFailed:
        return ExecFailed(f"getting credentials: exec: executable {self._config.command} {why}")


class _Output(asyncio.SubprocessProtocol):
    """Keeps what a command prints, up to a byte more than is allowed.

    A stream would stop reading once its buffer is full, and asyncio tells the end of a process only after the end of
    its output: who waited for a killed command then waited for ever."""

    def __init__(self) -> None:
        self.printed = bytearray()
        self.exited, self.complete = asyncio.Event(), asyncio.Event()

    @property
    def size(self) -> int:
        return len(self.printed)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.printed += data[: _MOST_BYTES + 1 - self.size]
        if self.size > _MOST_BYTES:
            self.complete.set()

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.complete.set()


async def _ended(transport: asyncio.SubprocessTransport, output: _Output) -> None:
    """Kill a command that still runs, with its group, and close what it printed into: a process that left the group may
    hold that open for ever."""
    try:
        if transport.get_returncode() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(transport.get_pid(), signal.SIGKILL)
            await output.exited.wait()
    finally:
        transport.close()
