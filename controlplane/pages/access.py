"""Who asks, and what they may see: the management cluster says it, as it says it of kubectl.

In: a request, and a way to the management cluster. Out: a `Viewer`; whether he may list Workloads everywhere, or get
them in a namespace. Answers are kept for a minute. Raises `Unauthenticated` for whom nobody vouches for, `Unasked` if
the cluster does not answer: then nothing is shown."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, TypeVar, cast

from starlette.requests import HTTPConnection

from controlplane.clusters.protocol import ApiError, ClusterError, ClusterPort
from controlplane.kube.access import (
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    AccessRight,
    is_allowed,
    review_of,
    token_review,
    user_of,
)
from controlplane.kube.front_proxy import UserInfo, known_groups
from controlplane.kube.kinds import WORKLOADS, Json, Kind
from controlplane.settings.web import NONE, PROXY, WebSettings
from controlplane.values import Value

_KEPT = 60.0  # seconds for which an answer holds
_AT_ONCE = 16  # questions to the cluster
_MOST = 10_000  # answers that are kept
T = TypeVar("T")


class Unauthenticated(Exception):  # noqa: N818
    """It is not known who asks; the message says what is missing."""


class Unasked(Exception):  # noqa: N818
    """The management cluster could not be asked who may see what."""


class Viewer(Value):
    """Who asks. `everything`: nobody has to be asked about him."""

    user: UserInfo = UserInfo(name="")
    everything: bool = False


class Access:
    """The questions to the management cluster. `cluster` is None where nobody is asked who he is."""

    def __init__(
        self, web: WebSettings, cluster: ClusterPort | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._web, self._cluster, self._clock = web, cluster, clock
        self._trusted = tuple(ipaddress.ip_network(network) for network in web.trusted_proxies)
        self._answers: dict[Hashable, tuple[float, Any]] = {}

    async def viewer(self, request: HTTPConnection) -> Viewer:
        """Return who asks."""
        if self._web.authentication == NONE:
            return Viewer(everything=True)
        if self._web.authentication == PROXY:
            return self._behind_proxy(request)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthenticated(
                "a bearer token of the management cluster is needed: send Authorization: Bearer TOKEN"
            )
        return await self._of_token(token.strip())

    def _behind_proxy(self, request: HTTPConnection) -> Viewer:
        host = request.client.host if request.client is not None else ""
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            raise Unauthenticated("the address of whoever asks is not known") from None
        # A socket that listens on :: has the addresses of IPv4 so.
        address = getattr(address, "ipv4_mapped", None) or address
        if not any(address in network for network in self._trusted):
            raise Unauthenticated(f"{address} is none of the proxies of web.trustedProxies")
        users = request.headers.getlist(self._web.user_header)
        if len(users) != 1 or not users[0].strip():
            raise Unauthenticated(f"the proxy has to name one user in {self._web.user_header}")
        named = ",".join(request.headers.getlist(self._web.groups_header)).split(",")
        user, groups = users[0].strip(), tuple(group.strip() for group in named if group.strip())
        return Viewer(user=UserInfo(name=user, groups=known_groups(user, groups)))

    async def _of_token(self, token: str) -> Viewer:
        async def ask() -> Viewer | None:
            user = user_of(await self._ask(TOKEN_REVIEWS, token_review(token)))
            return Viewer(user=user) if user is not None else None

        found = await self._kept(("token", hashlib.sha256(token.encode()).digest()), ask)
        if found is None:
            raise Unauthenticated("the management cluster does not know that token")
        return found

    async def everywhere(self, viewer: Viewer) -> bool:
        """Whether somebody may see what belongs to no namespace, and all namespaces: who may list Workloads in all."""
        return viewer.everything or await self._may(viewer, "list", "")

    async def namespaces(self, viewer: Viewer, known: Iterable[str]) -> frozenset[str]:
        """Return those of some namespaces of which somebody may see the Workloads."""
        if viewer.everything:
            return frozenset(known)
        turn = asyncio.Semaphore(_AT_ONCE)

        async def seen(name: str) -> str:
            async with turn:
                return name if await self._may(viewer, "get", name) else ""

        return frozenset(filter(None, await asyncio.gather(*map(seen, known))))

    async def _may(self, viewer: Viewer, verb: str, namespace: str) -> bool:
        async def ask() -> bool:
            right = AccessRight(group=WORKLOADS.group, resource=WORKLOADS.plural, verb=verb, namespace=namespace)
            answered = await self._ask(SUBJECT_ACCESS_REVIEWS, review_of(viewer.user, right))
            try:
                return is_allowed(answered)
            except ValueError:
                return False  # what does not say yes is a no

        return await self._kept((viewer, verb, namespace), ask)

    async def _ask(self, kind: Kind, review: Json) -> Json:
        if self._cluster is None:
            raise Unasked("there is no management cluster to ask")
        try:
            return await self._cluster.create(kind, "", review)
        except ApiError as error:
            hint = ": bind the ClusterRole system:auth-delegator to this service account" if error.status == 403 else ""
            raise Unasked(f"the management cluster refuses a {kind.kind} ({error.message}){hint}") from None
        except ClusterError as error:
            raise Unasked(f"the management cluster does not answer ({error})") from None

    async def _kept(self, key: Hashable, ask: Callable[[], Awaitable[T]]) -> T:
        now = self._clock()
        until, known = self._answers.get(key, (0.0, None))
        if until > now:
            return cast("T", known)
        answered = await ask()
        while len(self._answers) >= _MOST:
            self._answers.pop(next(iter(self._answers)))
        self._answers.pop(key, None)
        self._answers[key] = (now + _KEPT, answered)
        return answered
