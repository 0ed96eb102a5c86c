"""The folder of one local fleet: who holds it, what lies in it, and how large the fleet is.

    lock                     held (flock) by the one process that runs the fleet; the kernel releases it when that ends
    fleet.json               the size of the fleet and the last ports, so that a second start finds the same
    outages.json             which clusters are cut off (`controlplane.local.outages`)
    database/                the embedded PostgreSQL
    clusters/                what the simulated clusters remember
    management.kubeconfig, worker-1.kubeconfig …

As root the folder is open to pass through, because the embedded server runs as another user; what is secret in it is
closed by itself."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

import msgspec

from controlplane.local.postgres.holding import NotHeldError, hold
from controlplane.values import Value

_FLEET = "fleet.json"
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?m?")
MOST_WORKERS = 100
_LAST_PORT = 65_535


class LocalError(Exception):
    """The local fleet cannot be had; the message is one sentence that says which thing and what to do."""


class PortError(LocalError):
    """A port that was asked for is taken."""


class InUse(LocalError):  # noqa: N818
    """Another process runs the fleet of the folder."""


class LocalFleet(Value):
    """How large a local fleet is: the number of workers and the CPUs that each lets Kueue give away.

    Ports are those that were asked for, 0 for any free one; `last_database_port` is tried first then, and so are the
    last ports of the metrics and the pages. `cluster_ports` is the management cluster's, and the workers have the next
    ones; `address` is where the clusters' API servers listen."""

    workers: int = 3
    cpu: str = "4"
    management_port: int = 0
    cluster_ports: int = 0
    address: str = "127.0.0.1"
    database_port: int = 0
    last_database_port: int = 0
    last_http_port: int = 0
    last_web_port: int = 0

    @property
    def names(self) -> list[str]:
        """The names of the workers."""
        return [f"worker-{number}" for number in range(1, self.workers + 1)]

    @property
    def ports(self) -> list[int]:
        """The ports that were asked for: the management cluster's, and each worker's; 0 for any free one."""
        first = self.cluster_ports
        workers = range(first + 1, first + 1 + self.workers) if first else [0] * self.workers
        return [self.management_port or first, *workers]


class DataFolder:
    """The folder `root`, held by this process between `with` and its end. Raises `LocalError` if it cannot be."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.abspath(root.expanduser()))  # noqa: PTH100 - links in it stay as the user wrote them
        self.database = self.root / "database"
        self.clusters = self.root / "clusters"
        self._lock: int | None = None

    def kubeconfig(self, cluster: str) -> Path:
        """Return the file with which kubectl reaches a cluster."""
        return self.root / f"{cluster}.kubeconfig"

    def __enter__(self) -> DataFolder:
        try:
            self._lock = hold(self.root, 0o711 if os.geteuid() == 0 else 0o700)
        except NotHeldError as no:
            raise (InUse if no.why == "process" else LocalError)(
                {
                    "other": f"{no.path} holds other things: choose an empty or new folder with --data",
                    "process": f"{no.path} is in use by another process ({no.detail}): stop that one first, "
                    "or choose another folder with --data",
                    "system": f"{no.path} cannot be used for data ({no.detail}): choose another folder with --data",
                }[no.why]
            ) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def used(self) -> bool:
        """Whether a fleet has lived here before."""
        return (self.root / _FLEET).exists()

    def fleet(self, asked: Mapping[str, int | str]) -> LocalFleet:
        """Return the fleet of this folder: the remembered one, or a new one as asked; `LocalError` if the two disagree.

        Worker clusters cannot be added or resized from outside afterwards: people do that with kubectl, and it is
        remembered."""
        if not self.used:
            return _checked(msgspec.convert({**asked}, LocalFleet))
        try:
            known = msgspec.json.decode((self.root / _FLEET).read_bytes(), type=LocalFleet)
        except (msgspec.MsgspecError, OSError) as error:
            raise LocalError(
                f"{self.root / _FLEET} cannot be read ({error}): remove {self.root} to begin anew"
            ) from None
        for name in ("workers", "cpu"):
            if name in asked and asked[name] != getattr(known, name):
                raise LocalError(
                    f"the fleet in {self.root} was made with --{name} {getattr(known, name)}: leave --{name} out, "
                    "or choose another folder with --data"
                )
        places = {name: value for name, value in asked.items() if name not in ("workers", "cpu")}
        places.setdefault(
            "address", LocalFleet().address
        )  # to be reached from elsewhere has to be asked for at each start
        return _checked(msgspec.structs.replace(known, **places))

    def remember(self, fleet: LocalFleet) -> None:
        """Write the fleet down for the next start."""
        path = self.root / _FLEET
        partial = path.with_suffix(".partial")
        partial.write_bytes(msgspec.json.encode(fleet))
        partial.replace(path)


def _checked(fleet: LocalFleet) -> LocalFleet:
    if not 1 <= fleet.workers <= MOST_WORKERS:
        raise LocalError(f"--workers must be a number from 1 to {MOST_WORKERS}, not {fleet.workers}")
    if not _QUANTITY.fullmatch(fleet.cpu) or not fleet.cpu.strip("0.m"):
        raise LocalError(f'--cpu must be an amount of CPUs such as 4, 0.5 or 500m, not "{fleet.cpu}"')
    if fleet.ports[-1] > _LAST_PORT:
        raise LocalError(f"--cluster-ports {fleet.cluster_ports} leaves no ports for {fleet.workers} workers")
    return fleet


def default_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return where `up` keeps its data if nobody says: root's home is closed to the user as whom PostgreSQL has to
    run.
    """
    if os.geteuid() == 0:
        return Path("/var/lib/controlplane")
    return Path(env.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "controlplane"
