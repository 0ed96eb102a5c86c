"""What the pages say of a cluster that the log of the cookbook has none of."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from controlplane.app.hosted import TYPES
from controlplane.pages.routes import API
from tests.audit.script import Script, write
from tests.pages.serving import served


@pytest.fixture
def shared(database_url: str) -> Iterator[TestClient]:
    """The pages of a log that has copies on a worker of which nobody knows whose they are."""
    script = Script("a", "b")
    script.workload("w-0a1b2").runs("a", "a", "b")
    for number in range(6):
        script.workload(f"theirs-{number}").clone("a", unmarked=True)
    asyncio.run(write(database_url, script.appended, types=TYPES))
    with served(database_url) as client:
        yield client


def test_a_cluster_names_the_copies_that_are_left_alone(shared: TestClient) -> None:
    names = [f"default/theirs-{number}" for number in range(6)]
    told = {name: shared.get(f"{API}/clusters/{name}").json()["cluster"]["unknown_copies"] for name in "ab"}
    assert told == {"a": names, "b": []}
    page = shared.get("/clusters/a").text
    assert "6: it has copies with our origin of which this log knows nothing, and which do not say" in page
    assert f"{', '.join(names[:5])} and 1 more. They are left alone." in page
    assert "Unknown copies" not in shared.get("/clusters/b").text
