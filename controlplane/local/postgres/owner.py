"""As whom PostgreSQL runs: it refuses root, so root has to become somebody else for it.

In: who we are, and whose the data is if there is any. Out: an `ServerUser`, with answers to "can it get there?" from
the folders' own bits."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from controlplane.local.postgres.errors import EmbeddedError


@dataclass(frozen=True, slots=True)
class ServerUser:
    """The user of the server's processes and files. `drops` says that we are root and have to become it."""

    uid: int
    gid: int
    name: str
    drops: bool

    def can_enter(self, folder: Path) -> bool:
        """Whether this user can reach what is in the folder: it may pass through every folder on the way."""
        return not self.blocked(folder)

    def blocked(self, folder: Path) -> Path | None:
        """Return the first folder, from the root down, through which this user may not pass; None if there is none."""
        resolved = folder.resolve()
        return next((step for step in (*reversed(resolved.parents), resolved) if not self._may(step, 0o1)), None)

    def can_run(self, program: Path) -> bool:
        """Whether this user may read and execute the file itself."""
        return self._may(program, 0o5)

    def _may(self, path: Path, bits: int) -> bool:
        if not path.exists():
            return False
        if not self.drops:
            return os.access(path, (os.R_OK if bits & 0o4 else 0) | os.X_OK)
        status = path.stat()
        shift = 6 if status.st_uid == self.uid else 3 if status.st_gid == self.gid else 0
        return (status.st_mode >> shift) & bits == bits


def choose(data: Path) -> ServerUser:
    """Return the user as whom the server of this data folder runs.

    Not root: ourselves. Root: the owner of the data, and for new data `postgres` or, without one, `nobody`.
    """
    uid = os.geteuid()
    if uid != 0:
        return ServerUser(uid, os.getegid(), _name(uid), drops=False)
    if data.exists():
        owner = data.stat().st_uid
        if owner == 0:
            raise EmbeddedError(
                f"{data} belongs to root, as whom PostgreSQL does not run: give it to another user or remove it"
            )
        try:
            found = pwd.getpwuid(owner)
        except KeyError:
            raise EmbeddedError(f"{data} belongs to the user id {owner}, which has no name on this machine") from None
        return ServerUser(found.pw_uid, found.pw_gid, found.pw_name, drops=True)
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return ServerUser(found.pw_uid, found.pw_gid, name, drops=True)
    raise EmbeddedError("PostgreSQL does not run as root, and there is no user postgres or nobody: run as another user")


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        # initdb asks for the name too, and says so less clearly.
        raise EmbeddedError(
            f"the user id {uid} has no name on this machine, which PostgreSQL needs: run as a user that has one, "
            "or use a server of your own with --database-url"
        ) from None
