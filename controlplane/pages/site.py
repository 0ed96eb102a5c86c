"""What all addresses of the pages share: the parts of their process, and who may see what of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import jinja2
from starlette.requests import Request

from controlplane.clock import Clock
from controlplane.pages.access import Access
from controlplane.pages.asking import NotFound
from controlplane.pages.follower import Follower
from controlplane.pages.readers import Readers
from controlplane.settings import Settings


@dataclass
class Site:
    """What the pages of one process share. `closing` is set when it ends."""

    settings: Settings
    readers: Readers
    follower: Follower
    access: Access
    clock: Clock
    templates: jinja2.Environment
    closing: asyncio.Event
    begun: datetime | None = None


async def allowed_for(
    site: Site, request: Request, given: Mapping[str, str], *, everything: bool
) -> frozenset[str] | None:
    """Return the namespaces that whoever asks may see, None for all. Raises `NotFound` for who may not see a page."""
    viewer = await site.access.viewer(request)
    if any("\0" in value for value in request.path_params.values()):
        raise NotFound("there is nothing with such a name")  # and PostgreSQL could not even be asked
    if await site.access.everywhere(viewer):
        return None
    if everything:
        raise NotFound(f"there is no page {request.url.path}")
    with site.follower.lock:
        known = set(site.follower.directory.namespaces())
    if named := given.get("namespace"):
        return await site.access.namespaces(viewer, {named})
    # What a page tells of an object may name those of other namespaces.
    named = request.path_params.get("namespace")
    return await site.access.namespaces(viewer, known | {named} if named else known)
