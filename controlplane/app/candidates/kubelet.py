"""Answers for the kubelets of virtual Nodes, with what this process has folded and the clusters that it is connected
to.

In: the service, the way to the source's API server. Out: who may ask (by certificate or TokenReview, and
SubjectAccessReview of `nodes/proxy`), which pods there are, and connections to where they run. The process that leads
answers: virtual Nodes give its address, and nobody else is connected to the targets."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from controlplane.app.visibility import AccessReviews
from controlplane.clusters.protocol import ClusterError, ClusterPort
from controlplane.clusters.reopened import reopened
from controlplane.clusters.streams import ApiServer
from controlplane.clusters.tunnel import Stream, Tunnels
from controlplane.controllers.candidates.source.observations import CandidateBound
from controlplane.controllers.candidates.source.state import SourceState, source_stream
from controlplane.kube.access import TOKEN_REVIEWS, token_review, user_of
from controlplane.kube.api_requests import RequestAttributes
from controlplane.kube.front_proxy import UserInfo
from controlplane.kube.kinds import Json
from controlplane.kube.kubelet_api import KubeletRequest
from controlplane.settings.candidates import VirtualNodeSettings
from controlplane.web.aggregated import Unavailable
from controlplane.web.client_authority import ClientAuthority
from controlplane.web.kubelet import KubeletRefusal, KubeletServer
from controlplane.web.webhook import Certificate, CertificateError

if TYPE_CHECKING:
    from controlplane.app.service import Service

_log = structlog.get_logger(__name__)

SECTION = "candidates.virtualNodes"
_KEPT = 10.0  # seconds for which the answer about a token holds
_MOST_KEPT = 1000


class VirtualKubelet:
    """See the module."""

    def __init__(self, service: Service, cluster: ClusterPort, clock: Callable[[], float] = time.monotonic) -> None:
        self._service, self._cluster, self._clock = service, cluster, clock
        self._reviews = AccessReviews(cluster)
        self._users: dict[bytes, tuple[float, UserInfo | None]] = {}

    # --- who asks ----------------------------------------------------------------------------------------------------

    async def user(self, shown: tuple[str, tuple[str, ...]] | None, token: str) -> UserInfo | None:
        """Return who asks; None if that is nobody known. A certificate counts before a token."""
        if shown is not None and shown[0]:
            return UserInfo(name=shown[0], groups=(*shown[1], "system:authenticated"))
        if not token:
            return None
        key, now = hashlib.sha256(token.encode()).digest(), self._clock()
        until, found = self._users.get(key, (now, None))
        if until <= now:
            found = await self._of_token(token)
            while len(self._users) >= _MOST_KEPT:
                self._users.pop(next(iter(self._users)))
            self._users[key] = (now + _KEPT, found)
        return found

    async def _of_token(self, token: str) -> UserInfo | None:
        try:
            answer = await self._cluster.create(TOKEN_REVIEWS, "", token_review(token))
        except ClusterError as error:
            _log.warning("a TokenReview was not answered", error=str(error))
            raise KubeletRefusal(503, "the management cluster does not say whose token that is; ask again") from None
        return user_of(answer)

    async def allows(self, user: UserInfo, verb: str, node: str) -> bool:
        """Whether somebody may use `nodes/proxy` of a Node."""
        asked = RequestAttributes(verb=verb, path="", version="v1", resource="nodes", subresource="proxy", name=node)
        try:
            return await self._reviews(user, asked)
        except Unavailable as error:
            raise KubeletRefusal(503, str(error)) from None

    # --- what there is -----------------------------------------------------------------------------------------------

    def _state(self, namespace: str, pod: str) -> SourceState | None:
        sources = self._service.sources
        state = sources.sources.get(source_stream(namespace, pod)) if sources is not None else None
        return state if state is not None and state.pod is not None and state.pod.node else None

    def node_of(self, namespace: str, pod: str) -> str:
        """Return the virtual Node that a pod is bound to, "" if it is bound to none."""
        state = self._state(namespace, pod)
        return state.pod.node if state is not None and state.pod is not None else ""

    def pods(self) -> Json:
        """Return the pods that are bound to virtual Nodes, by what is known of them."""
        sources = self._service.sources
        known = [state.pod for state in sources.sources.values() if state.pod] if sources is not None else []
        items = [
            {
                "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
                "spec": {"nodeName": pod.node, "containers": []},
                "status": {"phase": pod.phase},
            }
            for pod in known
            if pod.node
        ]
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}

    async def open(self, asked: KubeletRequest, method: str, headers: list[tuple[str, str]]) -> Stream:
        """Hand a request on to the API server of the target in which the pod's delegate is."""
        if not self._service.leads:
            raise KubeletRefusal(503, "another replica leads and answers: its address is that of the Node; ask again")
        state = self._state(asked.namespace, asked.pod)
        if state is None or state.pod is None or (asked.uid and asked.uid != state.pod.uid):
            raise KubeletRefusal(404, f'pod "{asked.namespace}/{asked.pod}" is on no virtual Node')
        chosen = state.chosen
        if chosen is None or not isinstance(chosen.seen, CandidateBound) or not chosen.seen.pod:
            raise KubeletRefusal(404, f'pod "{asked.namespace}/{asked.pod}" has no delegate any more')
        server = self._service.server(chosen.cluster)
        if not isinstance(server, Tunnels):
            raise KubeletRefusal(502, f'cluster "{chosen.cluster}", in which the pod runs, cannot be reached now')
        path = asked.path_for(chosen.seen.namespace, chosen.seen.pod)
        try:
            return await server.tunnel(method, path, headers)
        except ClusterError as error:
            _log.warning("a stream to a target could not be opened", cluster=chosen.cluster, error=str(error))
            text = f'cluster "{chosen.cluster}", in which the pod runs, cannot be reached now ({error})'
            raise KubeletRefusal(502, text) from None


def trusting(certificate: Certificate, client_authority: str) -> ClientAuthority:
    """Return the side of TLS that knows clients by an authority in a file; `CertificateError` if it cannot be used."""
    authority = ClientAuthority(certificate)
    try:
        authority.trust(Path(client_authority).expanduser().read_bytes().decode("ascii", "ignore"))
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        said = getattr(error, "strerror", None) or error
        raise CertificateError(f"{client_authority} holds no authority in PEM ({said})") from None
    return authority


@asynccontextmanager
async def serving(
    chosen: VirtualNodeSettings,
    authority: ClientAuthority,
    service: Service,
    open_server: Callable[[], Awaitable[ApiServer]],
) -> AsyncIterator[KubeletServer]:
    """Serve the kubelet API while the block runs. Raises `ListenError`."""
    cluster = await reopened(open_server)
    try:
        server = KubeletServer(VirtualKubelet(service, cluster), authority)
        await server.listen(chosen.address, chosen.port, SECTION)
        try:
            yield server
        finally:
            await server.stop()
    finally:
        await cluster.close()
