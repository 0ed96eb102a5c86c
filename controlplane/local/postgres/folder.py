"""The folder of one embedded server: who holds it, and what lies in it.

    lock          held (flock) by the one process that runs the server; released by the kernel when that process ends
    password      of the user `controlplane` over TCP; ours alone
    pgdata/       PostgreSQL's data, belonging to the server's user
    socket/       the unix socket, 0700, belonging to the server's user
    server.log    what the server said

The folder itself stays ours: as root we never open files in a folder that a lesser user could fill with links.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from pathlib import Path
from typing import IO

from controlplane.local.postgres.errors import EmbeddedError
from controlplane.local.postgres.holding import NotHeldError, hold
from controlplane.local.postgres.owner import ServerUser

_LONGEST_SOCKET = 107 - len("/.s.PGSQL.65535")
_LOG_LIMIT = 4 * 2**20


class Folder:
    """The folder `root` with its parts. `lock` before anything else."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.abspath(root))  # noqa: PTH100 - links in it stay as the user wrote them
        self.pgdata = self.root / "pgdata"
        self.draft = self.root / "pgdata.new"
        self.log = self.root / "server.log"
        self._lock: int | None = None

    def lock(self) -> None:
        """Create the folder if need be and take it for this process; `EmbeddedError` if another one has it, or it is
        not one of ours.
        """
        try:
            self._lock = hold(self.root, 0o700)
        except NotHeldError as no:
            raise EmbeddedError(
                {
                    "other": f"{no.path} holds other things: choose an empty or new folder for the database",
                    "process": f"{no.path} is in use by another process ({no.detail}): stop that one first, or choose "
                    "another folder",
                    "system": f"{no.path} cannot be used for the database: {no.detail}",
                }[no.why]
            ) from None

    def unlock(self) -> None:
        """Let other processes have the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def open_to(self, owner: ServerUser) -> None:
        """Let the server's user pass through this folder, but not list it; `EmbeddedError` if it cannot even get
        here.
        """
        if not owner.drops:
            return
        self.root.chmod(0o711)
        blocked = owner.blocked(self.root)
        if blocked is not None:
            raise EmbeddedError(
                f"{owner.name}, as whom PostgreSQL runs because it refuses root, may not pass through {blocked}: "
                "choose a folder elsewhere for the database, such as /var/lib/controlplane, or run as another user"
            )

    @property
    def major(self) -> int | None:
        """The major version of PostgreSQL that made the data; None if there is none yet."""
        try:
            return int((self.pgdata / "PG_VERSION").read_text(encoding="ascii"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            raise EmbeddedError(f"{self.pgdata} holds no readable PostgreSQL data: restore or remove it") from None

    def password(self) -> str:
        """Return the password for TCP, made at the first call."""
        path = self.root / "password"
        if not path.exists():
            write_private(path, secrets.token_urlsafe(24))
        return path.read_text(encoding="ascii").strip()

    def new_draft(self, owner: ServerUser) -> None:
        """Make an empty folder for initdb, without what a killed one has left."""
        if self.draft.exists():
            shutil.rmtree(self.draft)
        _make_private(self.draft, owner)

    def socket(self, owner: ServerUser) -> Path:
        """Return an empty folder for the socket: in here, or in the temporary folder if the path is too long or odd for
        a socket.
        """
        folder = self.root / "socket"
        if len(os.fsencode(folder)) > _LONGEST_SOCKET or re.search(r'[,"\s]', str(folder)):
            key = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]
            temporary = Path(tempfile.gettempdir())
            folder = (temporary if len(os.fsencode(temporary)) < 64 else Path("/tmp")) / f"controlplane-{key}"  # noqa: S108
        if folder.is_symlink() or (folder.exists() and folder.lstat().st_uid not in {os.geteuid(), owner.uid}):
            raise EmbeddedError(
                f"{folder} belongs to somebody else: remove it, or choose another folder for the database"
            )
        if folder.exists():
            shutil.rmtree(folder)
        _make_private(folder, owner)
        return folder

    def open_log(self) -> IO[bytes]:
        """Return the log, for appending; a long one is set aside first."""
        if self.log.exists() and self.log.stat().st_size > _LOG_LIMIT:
            self.log.rename(self.log.with_suffix(".log.1"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(self.log, flags, 0o600), "ab")


def write_private(path: Path, text: str, owner: ServerUser | None = None) -> None:
    """Write a new file that only we (or that owner) can read."""
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        if owner is not None and owner.drops:
            os.fchown(handle, owner.uid, owner.gid)
        file.write(text + "\n")


def _make_private(folder: Path, owner: ServerUser) -> None:
    folder.mkdir(mode=0o700)
    if stat.S_IMODE(folder.stat().st_mode) != 0o700:  # a default ACL or an odd umask
        folder.chmod(0o700)
    if owner.drops:
        os.chown(folder, owner.uid, owner.gid, follow_symlinks=False)
