"""The application with all its parts, in the process of the test: only the sockets of a server are missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import msgspec
from starlette.testclient import TestClient

from controlplane.clusters.protocol import ClusterPort
from controlplane.pages.access import Access
from controlplane.pages.app import create_app
from controlplane.pages.follower import Follower, wait_until_ready
from controlplane.pages.readers import Readers, connector
from controlplane.settings import Settings
from controlplane.settings.web import WebSettings
from tests.support.waiting import PATIENCE

HERE = "http://127.0.0.1"


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
            assert wait_until_ready(follower, timedelta(seconds=PATIENCE))
        with TestClient(app, base_url=HERE, client=(client, 1234), raise_server_exceptions=False) as asked:
            yield asked
    finally:
        follower.stop()
        readers.close()
