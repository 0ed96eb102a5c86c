"""A database with the stories in it, made once for all tests that only read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from tests.audit.script import write
from tests.audit.stories import everything
from tests.support import postgres


def with_stories(server: postgres.Server, template: str) -> Iterator[str]:
    """Yield the URL of a database whose log `main` holds the five stories."""
    name = postgres.new_name("stories")
    url = server.create(name, template)
    try:
        asyncio.run(write(url, everything().appended))
        yield url
    finally:
        server.drop(name)
