"""Says which fold a snapshot is of: what the same events come to with other code or other settings is another state.

In: the settings of a process, and the names of its controllers. Out: a short text that is the same for two processes if
they fold alike. It is made of the source of this package, but for what stands above the controllers, which no fold can
ask (the import contracts in `pyproject.toml`). So nobody has to remember to raise it: a fold that means something else
is other source. That a change which alters no fold makes snapshots useless too costs one replay."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

import controlplane
from controlplane.settings import Settings

# How a process is reached, how much it may ask, what it shows, and where it writes: of two replicas these differ, as
# they do of a service and the command that archives its log, and no fold asks them.
_NOT_FOLDED = frozenset({"database", "management", "budgets", "http", "web", "tracing", "log", "leader"})
# What stands above the controllers, by the folder of the package.
_ABOVE = frozenset({"app", "audit", "cli", "clusters", "dst", "local", "simulation", "web"})


def fold_version(settings: Settings, controllers: Iterable[str]) -> str:
    """Return the version of the fold of these controllers under these settings."""
    said = {name: getattr(settings, name) for name in settings.__struct_fields__ if name not in _NOT_FOLDED}
    digest = hashlib.sha256(source_digest().encode())
    digest.update(msgspec.json.encode([said, list(controllers)], enc_hook=str, order="sorted"))
    return digest.hexdigest()[:32]


@functools.cache
def source_digest() -> str:
    """Return the SHA-256 of the source that a fold may ask, by the names of its files."""
    folder, digest = Path(controlplane.__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        name = path.relative_to(folder)
        if name.parts[0] not in _ABOVE:
            digest.update(f"{name.as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
