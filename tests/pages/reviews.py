"""An API server that answers TokenReviews and SubjectAccessReviews over HTTP, by a table of who may what."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from controlplane.clusters.kubeconfig import ClientConfig
from controlplane.clusters.transport import Transport

TOKENS: Mapping[str, tuple[str, list[str]]] = {
    "t-auditor": ("auditor", ["auditors"]),
    "t-ada": ("ada", ["team-a"]),
    "t-grace": ("grace", ["team-a", "team-b"]),
    "t-nobody": ("nobody", []),
    "t-scoped": ("auditor", ["auditors"]),
}
"""Tokens with the user and the groups that each is of."""


SCOPED = {"scopes.authorization.openshift.io": ["user:info"]}
"""What is said beside of the token `t-scoped`, which may do less than its user."""


def may(user: str, groups: list[str], verb: str, namespace: str) -> bool:
    """The rights: auditors see all, a team its namespace."""
    return "auditors" in groups or (verb == "get" and namespace != "" and namespace in groups)


def _of_workloads(spec: dict[str, Any]) -> bool:
    wants = spec["resourceAttributes"]
    assert (wants["group"], wants["resource"]) == ("kueue.x-k8s.io", "workloads")
    return may(spec["user"], spec.get("groups", []), wants["verb"], wants.get("namespace", ""))


class Reviews:
    """What was asked, and the answers."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.forbidden = False
        self.credentials = ""  # whose own token the questions need, "" for none
        self.revoked: set[str] = set()
        self.allows: Callable[[dict[str, Any]], bool] = _of_workloads

    async def token(self, request: web.Request) -> web.Response:
        body = await self._taken(request)
        token = body["spec"]["token"]
        known = TOKENS.get(token) if token not in self.revoked else None
        if known is None:
            return web.json_response({**body, "status": {"authenticated": False, "error": "unknown"}}, status=201)
        user = {"username": known[0], "groups": known[1], "uid": f"uid of {known[0]}"}
        if token == "t-scoped":
            user["extra"] = SCOPED
        return web.json_response({**body, "status": {"authenticated": True, "user": user}}, status=201)

    async def access(self, request: web.Request) -> web.Response:
        spec = (await self._taken(request))["spec"]
        allowed = not spec.get("extra") and self.allows(spec)
        return web.json_response({"spec": spec, "status": {"allowed": allowed}}, status=201)

    async def _taken(self, request: web.Request) -> dict[str, Any]:
        if self.credentials and request.headers.get("Authorization") != f"Bearer {self.credentials}":
            said = {"kind": "Status", "status": "Failure", "reason": "Unauthorized", "code": 401}
            raise web.HTTPUnauthorized(text=str(said).replace("'", '"'), content_type="application/json")
        if self.forbidden:
            said = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "no", "code": 403}
            raise web.HTTPForbidden(text=str(said).replace("'", '"'), content_type="application/json")
        body: dict[str, Any] = await request.json()
        self.asked.append((body["kind"], body["spec"]))
        return body


@asynccontextmanager
async def reviewing() -> AsyncIterator[tuple[Reviews, Transport]]:
    """Serve them; give out what was asked, and a client."""
    reviews, app = Reviews(), web.Application()
    app.router.add_post("/apis/authentication.k8s.io/v1/tokenreviews", reviews.token)
    app.router.add_post("/apis/authorization.k8s.io/v1/subjectaccessreviews", reviews.access)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    client = Transport("management", ClientConfig(server=f"http://127.0.0.1:{port}"))
    try:
        yield reviews, client
    finally:
        await client.close()
        await runner.cleanup()
