"""Reads a worker's kubeconfig: from a Secret beside the control plane, or from a file below one allowed directory.

Reading only; what the bytes may contain is checked in `kubeconfig.py`. Messages are those that Kueue writes into the
`MultiKueueCluster` status, all with reason `BadKubeConfig`.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.clusters.kubeconfig import BAD, KubeconfigError
from controlplane.clusters.protocol import ApiError

SECRET_KEY = "kubeconfig"  # noqa: S105 - the name of a key
DEFAULT_PREFIX = "/etc/multikueue/kubeconfigs/"
_MAX_BYTES = 1 << 20
_ROOT = Path("/")
_NOT_ALLOWED = "kubeconfig path is not under the allowed prefix"


@dataclass(frozen=True, slots=True)
class SecretSource:
    """`locationType: Secret`: the name of a Secret in the control plane's own namespace."""

    name: str


@dataclass(frozen=True, slots=True)
class PathSource:
    """`locationType: Path`: a file below the allowed prefix."""

    path: str


@dataclass(frozen=True, slots=True)
class ProfileSource:
    """`clusterProfileRef`: the name of a ClusterProfile in the control plane's own namespace."""

    name: str


Source = SecretSource | PathSource | ProfileSource


def secret_not_found(name: str) -> KubeconfigError:
    """Return the error for a Secret that does not exist (yet)."""
    return KubeconfigError(BAD, f'Secret "{name}" not found')


def kubeconfig_of_secret(name: str, secret: Mapping[str, Any] | None) -> bytes:
    """Return the kubeconfig held by a Secret object (as the API serves it, data in base64), or None for one that is
    absent.
    """
    if secret is None:
        raise secret_not_found(name)
    data = secret.get("data")
    if not isinstance(data, Mapping) or SECRET_KEY not in data:
        raise KubeconfigError(BAD, f'key "{SECRET_KEY}" not found in secret "{name}"')
    try:
        return base64.b64decode(str(data[SECRET_KEY]), validate=True)
    except (binascii.Error, ValueError):
        raise KubeconfigError(BAD, f'key "{SECRET_KEY}" of secret "{name}" is not base64') from None


def checked_path(raw: str, prefix: str = DEFAULT_PREFIX) -> str:
    """Return the resolved path of a kubeconfig, which lies below `prefix` after all symbolic links; else
    `KubeconfigError`.
    """
    if not raw:
        raise KubeconfigError(BAD, "kubeconfig path must not be empty")
    if "\0" in raw:
        raise KubeconfigError(BAD, f"{_NOT_ALLOWED}: path contains a NUL byte")
    cleaned = os.path.normpath(raw)
    if ".." in Path(cleaned).parts:
        raise KubeconfigError(BAD, f'{_NOT_ALLOWED}: path contains ".."')
    if not Path(cleaned).is_absolute():
        raise KubeconfigError(BAD, f"{_NOT_ALLOWED}: path must be absolute")
    try:
        allowed = Path(prefix).resolve(strict=True)
    except (OSError, RuntimeError):
        raise KubeconfigError(BAD, f'{_NOT_ALLOWED}: "{cleaned}" is not under "{os.path.normpath(prefix)}"') from None
    try:
        resolved = Path(cleaned).resolve(strict=True)
    except (OSError, RuntimeError) as error:
        # Where every path is allowed nothing is looked at before the file is opened, and the words are those of opening
        # it.
        how = "open" if allowed == _ROOT else "cannot resolve kubeconfig path symlinks: lstat"
        err = f"{how} {cleaned}: {_go_words(error)}"
        raise KubeconfigError(BAD, err) from None
    if not resolved.is_relative_to(allowed):
        raise KubeconfigError(BAD, f'{_NOT_ALLOWED}: "{resolved}" is not under "{allowed}"')
    return str(resolved)


def read_path(raw: str, prefix: str = DEFAULT_PREFIX) -> bytes:
    """Return the bytes of a kubeconfig file below `prefix`. Blocks shortly; a pipe or device in its place is refused,
    not waited for.
    """
    path = checked_path(raw, prefix)
    try:
        # No link is followed at the last step: it was resolved, so a link there now was put there in between.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise KubeconfigError(BAD, f"read {path}: not a regular file")
            return os.read(
                descriptor, _MAX_BYTES + 1
            )  # one more than allowed, so that parsing sees that it is too long
        finally:
            os.close(descriptor)
    except OSError as error:
        raise KubeconfigError(BAD, f"open {path}: {_go_words(error)}") from None


async def load(source: SecretSource | PathSource, prefix: str, read_secret: Callable[[str], Awaitable[bytes]]) -> bytes:
    """Return the bytes that a source holds now; `KubeconfigError` if it is not there, or what `read_secret` raises."""
    if isinstance(source, PathSource):
        return read_path(source.path, prefix)
    try:
        return await read_secret(source.name)
    except ApiError as error:
        if error.status == 404:
            raise secret_not_found(source.name) from None
        raise


def _go_words(error: Exception) -> str:
    """Return an OS error as Go spells it: lower-case, without number and path."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "too many links"
