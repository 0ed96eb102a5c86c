"""What the whole suite has: a PostgreSQL server, a fresh migrated database for each test that asks for one, examples
without a clock.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support import bytecode, cache, deep, integration, order, postgres

_run = ExitStack()
_said: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    """Start the container of the run, where Docker is the way, before any of its processes asks for a server."""
    bytecode.keep(config)  # before Hypothesis is imported, which takes seconds where nothing of it is kept
    from hypothesis import settings

    cache.keep(config)
    integration.choose(config)
    deep.choose(config.option.markexpr)
    # How long an example takes says more about the machine than about the code: `benchmarks/` measures.
    before = settings.get_profile(settings.get_current_profile_name())
    settings.register_profile("here", before, deadline=None, max_examples=deep.examples(20, 100))
    settings.load_profile("here")
    if hasattr(config, "workerinput") or config.option.collectonly:
        return
    if config.getvalue("dist") != "no":
        bytecode.compile_program()
    try:
        _said.append(postgres.share(_run))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_xdist_auto_num_workers() -> int | None:
    """How many processes `--numprocesses auto` means, unless the environment says it."""
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else order.processes()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> order.Sharing | None:
    """Who hands the tests out to the processes."""
    return order.Sharing(config, log) if config.getvalue("dist") == "loadscope" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import and collect without the collector of cycles: of what is made then, nothing goes."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the modules none of whose tests the run selects: importing them takes longer than the rest of it."""
    if collection_path.suffix != ".py" or not collection_path.is_relative_to(config.rootpath):
        return None
    path = collection_path.relative_to(config.rootpath).as_posix()
    return integration.leaves_out(config.option.markexpr, path) or None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let `make test-deep` try every property with many examples: `generated` says so of those of Hypothesis."""
    from hypothesis import is_hypothesis_test

    if integration.is_integration(item.nodeid.partition("::")[0]):
        item.add_marker(integration.MARK)
    if isinstance(item, pytest.Function) and is_hypothesis_test(item.obj):
        item.add_marker("generated")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests run in the order that leaves no core without work."""
    for item in items if postgres.chosen() == "citus" else ():
        if (mark := item.get_closest_marker("undistributed")) is not None:
            item.add_marker(pytest.mark.skip(reason=f"on a distributed log: {mark.args[0]}"))
    items[:] = order.arranged(items)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Let a report be sent without the words that tests are selected by: what reads reports does not ask for them, and
    in a run of several processes they were most of what is written and read.
    """
    report.keywords = {}


def pytest_collection_finish() -> None:
    """Let the collector of cycles look no more through what stays until the end, the tests and all that they import;
    and look less often through what is new, which is a tenth of the time of a simulated fleet.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Say what is not as one might expect, under -q too."""
    for said in filter(None, _said):
        session.config.get_terminal_writer().line(said)


def pytest_unconfigure() -> None:
    """Stop what was started for the run."""
    _run.close()


def pytest_report_header() -> str:
    try:
        return postgres.header()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    """A server on which databases may be created; `.url` is one of its databases."""
    with postgres.server() as server:
        yield server
        server.hang_up()


@pytest.fixture(scope="session")
def migrated_template(postgres_server: postgres.Server) -> Iterator[str]:
    """The name of a database with the newest schema, made once a session."""
    from controlplane.log import schema

    name = postgres.new_name("template")
    schema.upgrade(postgres_server.create(name))
    postgres_server.seal(name)
    yield name
    postgres_server.drop(name)


@pytest.fixture
def database_url(postgres_server: postgres.Server, migrated_template: str) -> Iterator[str]:
    """The URL of a database of this test's own, with the newest schema and nothing in it."""
    name = postgres.new_name("test")
    yield postgres_server.create(name, migrated_template)
    postgres_server.drop(name)


@pytest.fixture
def empty_database_url(postgres_server: postgres.Server) -> Iterator[str]:
    """The URL of a database of this test's own, without any schema."""
    name = postgres.new_name("empty")
    yield postgres_server.create(name)
    postgres_server.drop(name)
