"""Says where the chain of a log stood, to be kept where nobody can change it who can change the log.

In: the head of a log, and a key. Out: a checkpoint, as one line of JSON, and whether one that was kept is of that key.
Who owns the database can make all hashes anew; a checkpoint that was written down before then has another one.

The signature is an HMAC-SHA256: the standard library has no asymmetric one. Whoever may check it has the key, and could
have made it: keep the key from those who own the database."""

from __future__ import annotations

import hashlib
import hmac
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from controlplane.log.event import canonical

FORMAT, VERSION, ALGORITHM = "controlplane-checkpoint", 1, "HMAC-SHA256"
_SHORTEST = 16
"""Bytes that a key has at least."""


class CheckpointError(Exception):
    """A checkpoint, or a key, cannot be used; the message says why and what to do."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The hash of the batch that ends at a position. The chain begins at `chained_from`; `sealed` is the hash of the
    last batch before that, if the part before was sealed."""

    format: str = FORMAT
    version: int = VERSION
    log: str
    log_id: uuid.UUID
    position: int
    hash: str
    chained_from: int
    sealed: str | None
    at: datetime
    algorithm: str | None = None
    signature: str | None = None

    def signed(self, key: bytes) -> Checkpoint:
        """Return it with a signature."""
        named = msgspec.structs.replace(self, algorithm=ALGORITHM, signature=None)
        return msgspec.structs.replace(named, signature=named._mac(key))

    def check(self, key: bytes) -> None:
        """Raise `CheckpointError` if it was not signed with a key."""
        if self.signature is None:
            raise CheckpointError("the checkpoint has no signature: check it without --key, or take one that is signed")
        if self.algorithm != ALGORITHM:
            raise CheckpointError(f"the checkpoint is signed with {self.algorithm}: this version checks {ALGORITHM}")
        unsigned = msgspec.structs.replace(self, signature=None)
        if not hmac.compare_digest(unsigned._mac(key), self.signature):
            raise CheckpointError("the checkpoint was changed after it was signed, or was signed with another key")

    def _mac(self, key: bytes) -> str:
        return hmac.new(key, canonical(self), hashlib.sha256).hexdigest()


def read_checkpoint(path: Path) -> Checkpoint:
    """Return the checkpoint that a file has. Raises `CheckpointError`, and OSError."""
    try:
        found: Checkpoint = msgspec.json.decode(path.read_bytes(), type=Checkpoint)
    except msgspec.MsgspecError as error:
        raise CheckpointError(f"{path} is no checkpoint of `controlplane log checkpoint`: {error}") from None
    if (found.format, found.version) != (FORMAT, VERSION):
        wrong: Any = f"{found.format} {found.version}"
        raise CheckpointError(f"{path} has the format {wrong}: this version reads {FORMAT} {VERSION}")
    return found


def read_key(path: Path) -> bytes:
    """Return the key that a file has, without a line's end. Raises `CheckpointError`, and OSError."""
    key = path.read_bytes().rstrip(b"\r\n")
    if len(key) < _SHORTEST:
        raise CheckpointError(
            f"the key in {path} has {len(key)} bytes: it needs at least {_SHORTEST}; `openssl rand -hex 32` makes one"
        )
    return key
