"""The application with all its parts, in the process of the test: only the sockets of a server are missing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any

import msgspec
from starlette.testclient import TestClient

from controlplane.clusters.protocol import ClusterPort
from controlplane.pages.access import Access
from controlplane.pages.app import create_app
from controlplane.pages.follower import Follower
from controlplane.pages.readers import Readers, connector
from controlplane.settings import Settings
from controlplane.settings.web import WebSettings
from tests.support.waiting import PATIENCE

HERE = "http://127.0.0.1"


def until_ready(follower: Follower) -> None:
    """Wait until it has read the log."""
    began = time.monotonic()
    while not follower.ready:
        assert time.monotonic() - began < PATIENCE
        time.sleep(0.01)


def wait_for_hours(follower: Follower) -> None:
    """Wait until the hours of all that the log has are added up."""
    began = time.monotonic()
    while not follower.usage.found(date(1970, 1, 1), date(2100, 1, 1), None).complete:
        assert time.monotonic() - began < PATIENCE
        time.sleep(0.01)


@contextmanager
def served(
    url: str, *, cluster: ClusterPort | None = None, ready: bool = True, client: str = "127.0.0.1", **web: Any
) -> Iterator[TestClient]:
    """Serve the pages of a database; `web` are settings, `client` is from where it is asked."""
    settings = msgspec.structs.replace(Settings(), web=msgspec.structs.replace(WebSettings(), **web))
    follower = Follower(connector(settings, url), settings)
    readers = Readers(connector(settings, url, settings.web.patience))
    app = create_app(settings, readers, follower, Access(settings.web, cluster))
    follower.start()
    try:
        if ready:
            until_ready(follower)
            wait_for_hours(follower)
        with TestClient(app, base_url=HERE, client=(client, 1234), raise_server_exceptions=False) as asked:
            yield asked
    finally:
        follower.stop()
        readers.close()
