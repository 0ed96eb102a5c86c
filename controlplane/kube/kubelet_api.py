"""What an API server asks a kubelet for about a pod, and what is asked of another cluster's API server in its stead.

In: method, path and query of a request to a kubelet. Out: what is meant, and the path of the pod's subresource that
says or does it. Source: kubernetes 1.36, pkg/kubelet/server (paths; `input`, `output` and `error` of streams) and
pkg/apis/core/types (`PodExecOptions`, `PodLogOptions`)."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, urlencode

from controlplane.values import Value

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_UID = re.compile(r"[-0-9A-Za-z]{1,128}")
_SUBRESOURCES = {"containerLogs": "log", "exec": "exec", "attach": "attach", "portForward": "portforward"}
_LOG_OPTIONS = frozenset(
    {"follow", "previous", "timestamps", "sinceSeconds", "sinceTime", "tailLines", "limitBytes", "stream"}
)
_STREAM_OPTIONS = {"input": "stdin", "output": "stdout", "error": "stderr", "tty": "tty"}


class KubeletRequest(Value):
    """What is asked about a pod: a subresource of it, with options. `uid` and `container` are "" where nothing is said
    of them."""

    subresource: str
    namespace: str
    pod: str
    uid: str = ""
    container: str = ""
    options: tuple[tuple[str, str], ...] = ()

    @property
    def streams(self) -> bool:
        """Whether it is a connection to a process, and no text."""
        return self.subresource != "log"

    def path_for(self, namespace: str, pod: str) -> str:
        """Return the path of the subresource of a pod in another cluster, with its query."""
        container = [("container", self.container)] if self.container else []
        query = urlencode([*container, *self.options])
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/{self.subresource}"
        return f"{path}?{query}" if query else path


def read(path: str, query: str) -> KubeletRequest | None:
    """Return what a path asks for about a pod; None if it is no such path."""
    first, *rest = path.strip("/").split("/")
    subresource, given = _SUBRESOURCES.get(first, ""), parse_qsl(query, keep_blank_values=True)
    parts = 2 if subresource == "portforward" else 3
    if not subresource or len(rest) not in ((3,) if subresource == "log" else (parts, parts + 1)):
        return None
    uid = rest[2] if len(rest) > parts else ""
    container = rest[-1] if parts == 3 else ""
    names = [name for name in (*rest[:2], container) if name]
    if not all(map(_NAME.fullmatch, names)) or (uid and not _UID.fullmatch(uid)):
        return None
    options = _options(subresource, given)
    return KubeletRequest(
        subresource=subresource, namespace=rest[0], pod=rest[1], uid=uid, container=container, options=options
    )


def _options(subresource: str, given: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    if subresource == "log":
        return tuple((key, value) for key, value in given if key in _LOG_OPTIONS)
    if subresource == "portforward":
        return tuple(("ports", value) for key, value in given if key in ("port", "ports"))
    streams = [
        (_STREAM_OPTIONS[key], "true") for key, value in given if key in _STREAM_OPTIONS and value in ("1", "true")
    ]
    return (*streams, *((key, value) for key, value in given if key == "command"))
