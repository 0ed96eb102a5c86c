"""In which order the tests run, and in how many processes at a time.

In: the tests that were collected. Out: the modules whose tests mostly wait, spread among those that compute, so that
whenever one process waits another one has work; what is brief comes last, where it fills what is left of the time.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import groupby

import pytest

#: For processes that end, for clusters that are away, for leases: the scenes that are played in real time.
WAITING = (
    "tests/outages/",
    "tests/cli/",
    "tests/local/",
    "tests/support/",
    "tests/cancelling/",
    "tests/scheduling/",
    "tests/candidates/e2e/",
    "tests/coscheduling/e2e/",
    "tests/multikueue/kep693/",
    "tests/podgroups/e2e/",
)
#: Simulated time, generated examples, PostgreSQL.
COMPUTING = (
    "tests/dst/",
    "tests/interface/",
    "tests/observing/",
    "tests/scheduler/",
    "tests/log/",
    "tests/deploy/",
    "tests/multikueue/test_fleet_properties.py",
    "tests/candidates/test_gang_properties.py",
)


def processes() -> int:
    """Return how many processes `--numprocesses auto` means: two a core and one more, since most tests wait most of the
    time.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 2 * cores + 1


def arranged(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the tests in the order in which they are to run; those of a module stay together."""
    modules = [list(found) for _, found in groupby(items, lambda item: item.nodeid.partition("::")[0])]
    waiting = [module for module in modules if module[0].nodeid.startswith(WAITING)]
    computing = [module for module in modules if module[0].nodeid.startswith(COMPUTING)]
    brief = [module for module in modules if not module[0].nodeid.startswith((*WAITING, *COMPUTING))]
    spread = [((n + 0.5) / len(kind), module) for kind in (waiting, computing) for n, module in enumerate(kind)]
    spread.sort(key=lambda one: one[0])
    return [item for module in [*(module for _, module in spread), *brief] for item in module]
