"""The application: every page and the same answers as JSON, under the rules of who may see what.

In: settings, readers, a follower, the access rules. Out: an ASGI application that answers GET and HEAD, and changes
nothing."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import msgspec
import psycopg
import structlog
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from controlplane.audit.reads import Filter, LogReader
from controlplane.audit.svg import stylesheet
from controlplane.clock import Clock, SystemClock
from controlplane.kube.kinds import JSON_TYPE
from controlplane.log.connect import first_line
from controlplane.pages import download, live
from controlplane.pages.access import Access
from controlplane.pages.asking import Asked, BadQuestion, Parameter, go_back
from controlplane.pages.follower import READING, Follower
from controlplane.pages.problems import EXPECTED, Trouble, trouble
from controlplane.pages.readers import AbsentReader, Readers
from controlplane.pages.routes import API, PAGES, Page, Problem, openapi, path_parameters
from controlplane.pages.shielding import HEADERS, UNCACHED, Shield
from controlplane.pages.site import Site, allowed_for
from controlplane.pages.templating import address, count, environment
from controlplane.settings import Settings

_log = structlog.get_logger(__name__)
STATIC = Path(__file__).with_name("static")
_AGAIN = 5  # seconds after which a page that could not be answered asks again


class StillReading(Exception):  # noqa: N818
    """The log is being read for the first time."""


def create_app(
    settings: Settings, readers: Readers, follower: Follower, access: Access, clock: Clock | None = None
) -> Starlette:
    """Return the application; `app.state.site.closing` ends the streams of events."""
    site = Site(settings, readers, follower, access, clock or SystemClock(), environment(), asyncio.Event())
    routes: list[BaseRoute] = []
    for page in PAGES:
        routes.append(Route(f"{API}{page.api}", _api(site, page), name=f"api {page.name}"))
        if page.template:
            routes.append(Route(page.path, _html(site, page), name=page.name))
    version = metadata.version("controlplane")
    document = msgspec.json.encode(openapi(version))
    routes += [
        Route(f"{API}/openapi.json", lambda _: Response(document, media_type=JSON_TYPE)),
        Route("/workloads/{namespace}/{name}/evidence.jsonl", download.evidence(site, version)),
        Route("/clusters", lambda request: RedirectResponse(address("/", request.query_params.get("at", "")))),
        Route("/stream", live.stream(site)),
        Route("/healthz", lambda _: PlainTextResponse("ok\n")),
        Route("/static/lanes.css", lambda _: Response(stylesheet(), media_type="text/css")),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    handlers = dict.fromkeys((*EXPECTED, StillReading), _no_answer(site))
    handlers |= {HTTPException: _refused(site), Exception: _unexpected(site)}
    app = Starlette(routes=routes, exception_handlers=handlers)
    app.add_middleware(Shield, local=settings.web.authentication == "none")
    app.state.site = site
    return app


def _api(site: Site, page: Page) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        found, _ = await answered(site, page, request)
        return Response(msgspec.json.encode(found), media_type=JSON_TYPE)

    return answer


def _html(site: Site, page: Page) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        found, asked = await answered(site, page, request, remembered=page.follows)
        return await run_in_threadpool(_rendered, site, page, request, found, asked)

    return answer


async def answered(
    site: Site, page: Page, request: Request, *, remembered: bool = False
) -> tuple[msgspec.Struct, Asked]:
    """Return the answer of a page to a request, and what was asked. `remembered`: while the database is away, what was
    followed of the present is enough, for whoever is told so."""
    given = parameters(page.asks, request.query_params.multi_items())
    allowed = await allowed_for(site, request, given, everything=page.everything)
    at = given.pop("at", "")
    if page.follows and not site.follower.ready:
        raise StillReading

    def ask() -> tuple[msgspec.Struct, Asked]:
        def asked_of(reader: LogReader, now: datetime, then: datetime | None) -> tuple[msgspec.Struct, Asked]:
            asked = Asked(reader, site.follower, site.settings, now, request.path_params, given, allowed, then)
            return page.view(asked), asked

        try:
            with site.readers.reader() as reader:
                _note_beginning(site, reader)
                now = reader.clock()  # that of the events: this machine's may be another one
                return asked_of(reader, now, go_back(reader, at, now) if at else None)
        except psycopg.OperationalError as error:
            if at or not remembered:
                raise
            absent = cast("LogReader", AbsentReader(site.settings.database.log, error))
            return asked_of(absent, site.clock.now(), None)

    return await run_in_threadpool(ask)


def parameters(known: tuple[Parameter, ...], items: list[tuple[str, str]]) -> dict[str, str]:
    """Return the parameters of an address with the defaults of those that are not given. Raises `BadQuestion`."""
    names = {one.name: one for one in known}
    found = {one.name: one.default for one in known if one.default}
    for name, value in items:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names) or 'none here'}"
            raise BadQuestion(f'there is no parameter "{name}": {hint}')
        if value:
            found[name] = names[name].read(value)
    return found


def _note_beginning(site: Site, reader: LogReader) -> None:
    """Find out when the log begins, which does not change: the time control reaches back to it."""
    if site.begun is None:
        site.begun = next((one.recorded_at for one in reader.events(Filter(), limit=1)), None)


def _rendered(site: Site, page: Page, request: Request, found: msgspec.Struct, asked: Asked) -> Response:
    at = request.query_params.get("at", "")
    around = _around(site, request, at)
    if isinstance(asked.reader, AbsentReader):
        around["stale"] = around["stale"] or first_line(asked.reader.error)
    context = {
        **around,
        "page": page.name,
        "live": not at and not asked.given.get("after"),
        "past": page.past,
        "given": asked.given,
        "path": asked.path,
        "it": found,
        "now": asked.moment,
        "evidence": asked.allowed is None,
        "everything": asked.allowed is None,
    }
    return HTMLResponse(site.templates.get_template(page.template).render(context))


def _around(site: Site, request: Request, at: str) -> dict[str, Any]:
    """Return what every page shows beside its answer."""
    here = request.url.path

    def link(path: str, **given: Any) -> str:
        return address(path, at, **given)

    def other(**given: Any) -> str:
        kept = {name: value for name, value in request.query_params.items() if name not in ("after", "at")}
        return address(here, at, **{**kept, **given})

    follower = site.follower
    return {
        "link": link,
        "back": address(
            here, "", **{name: value for name, value in request.query_params.items() if name not in ("at", "after")}
        ),
        "other": other,
        "here": f"{here}?{request.url.query}" if request.url.query else here,
        "path_here": here,
        "at": at,
        "kept": [(name, value) for name, value in request.query_params.multi_items() if name not in ("at", "after")],
        "log": site.settings.database.log,
        "position": follower.position,
        "stale": follower.trouble if follower.ready else "",
        "unrecorded": follower.unrecorded if follower.ready and not at else "",
        "begun": site.begun,
    }


def _no_answer(site: Site) -> Callable[[Request, Exception], Response]:
    def answer(request: Request, error: Exception) -> Response:
        if not isinstance(error, StillReading):
            return _told(site, request, trouble(error, site.settings.web.patience))
        read, said = count(site.follower.read), site.follower.trouble
        why = f"The log is being read: {read} Workloads were read so far."
        if said != READING:
            why = f"The database cannot be read: {said}."
        return _told(site, request, Trouble(503, "One moment", why, passes=True))

    return answer


def _told(site: Site, request: Request, found: Trouble) -> Response:
    headers = {"Retry-After": str(_AGAIN)} if found.passes else {}
    if found.status == 401 and site.settings.web.authentication == "token":
        headers["WWW-Authenticate"] = "Bearer"
    if request.url.path.startswith(API):
        body = msgspec.json.encode(Problem(found.sentence, list(found.near)))
        return Response(body, found.status, headers, media_type=JSON_TYPE)
    at = request.query_params.get("at", "") if found.status != 400 else ""
    context = {**_around(site, request, at), "stale": "", "unrecorded": "", "trouble": found, "again": _AGAIN}
    context |= {"page": "", "live": False, "past": False, "everything": found.status != 401}
    return HTMLResponse(site.templates.get_template("trouble.html").render(context), found.status, headers)


def _refused(site: Site) -> Callable[[Request, Exception], Response]:
    def answer(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 405:
            found = Trouble(405, "Nothing can be changed here", "The pages only show: they answer GET and HEAD.")
        else:
            paths = [page.path for page in PAGES if page.template and not path_parameters(page.path)]
            near = difflib.get_close_matches(request.url.path, paths, n=3, cutoff=0.4)
            found = Trouble(error.status_code, "Not found", f"There is no page {request.url.path}.", tuple(near))
        response = _told(site, request, found)
        response.headers.update(error.headers or {})
        return response

    return answer


def _unexpected(site: Site) -> Callable[[Request, Exception], Response]:
    def answer(request: Request, error: Exception) -> Response:
        _log.error("a page could not be made", path=request.url.path, error=f"{type(error).__name__}: {error}")
        said = f"This page could not be made ({type(error).__name__}): the messages of this process say more."
        response = _told(site, request, Trouble(500, "That should not happen", said))
        response.headers.update({**HEADERS, **UNCACHED})  # Starlette makes this answer around all middleware
        return response

    return answer
