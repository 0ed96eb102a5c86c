"""The ports of a process on a machine: its log in PostgreSQL, its version from what is installed.

In: a database. Out: `controlplane.runtime.lifecycle.Ports`.
"""

from __future__ import annotations

import contextlib
import functools
from importlib import metadata

from controlplane.log.appender import LINGER
from controlplane.log.codec import Codec
from controlplane.log.connect import Database
from controlplane.log.port import Log
from controlplane.log.postgres import PostgresLog
from controlplane.log.read_models import PostgresReadModels
from controlplane.log.snapshots import PostgresSnapshots
from controlplane.runtime.lifecycle import OnBatch, OnState, Ports

CLAIM = 30.0  # seconds


def ports_of(database: Database, *, linger: float = LINGER) -> Ports:
    """Return the ports of a process whose log is in a database; for `linger` seconds a few observations wait for
    others."""

    def open_log(name: str, codec: Codec, on_state: OnState, on_batch: OnBatch) -> Log:
        return PostgresLog(database, codec, log=name, linger=linger, on_state=on_state, on_batch=on_batch)

    def snapshots(log: Log) -> PostgresSnapshots | None:
        return PostgresSnapshots(database, log) if isinstance(log, PostgresLog) else None

    def read_models(log: Log) -> PostgresReadModels | None:
        return PostgresReadModels(database, log.name) if isinstance(log, PostgresLog) else None

    return Ports(open_log=open_log, version=version(), claim=CLAIM, snapshots=snapshots, read_models=read_models)


@functools.cache
def version() -> str:
    """Return the version of this program."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version("controlplane")
    return "unknown"
