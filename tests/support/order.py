"""In which order the tests run, in how many processes at a time, and what a process is given at once.

In: the tests that were collected. Out: the modules whose tests mostly wait, spread among those that compute, so that
whenever one process waits another one has work; what is brief comes last, where it fills what is left of the time. Of
the brief modules each is given to a process as a whole: what it prepares is prepared once, and there is less to hand
out."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

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
    "tests/docs/test_past.py",
    "tests/docs/test_what_if.py",
    "tests/docs/test_without_kueue.py",
    "tests/log/dropped/",
)
#: Simulated time, generated examples, PostgreSQL.
COMPUTING = (
    "tests/dst/",
    "tests/interface/",
    "tests/observing/",
    "tests/scheduler/",
    "tests/log/",
    "tests/deploy/",
    "tests/house/test_packages.py",
    "tests/pages/",
    "tests/quota/",
    "tests/runtime/",
    "tests/whatif/",
    "tests/writes/",
    "tests/audit/test_estimate_error.py",
    "tests/audit/test_intervals.py",
    "tests/audit/test_read_models.py",
    "tests/multikueue/test_fleet_properties.py",
    "tests/candidates/test_gang_properties.py",
)
#: Of these, each module's tests need what the module prepares. (A mark `xdist_group` says nothing to pytest-xdist 3.8
#: where pytest is 9.2: it would be in a name of the test that pytest has no more.)
WHOLE = (
    "tests/audit/",
    "tests/cli/test_scheduler_history.py",
    "tests/cli/test_whatif.py",
    "tests/deploy/",
    "tests/dst/test_determinism.py",
    "tests/house/test_packages.py",
    "tests/pages/",
    "tests/whatif/",
)


def processes() -> int:
    """Return how many processes `--numprocesses auto` means: two a core, since many tests wait most of the time. Each
    more would import and collect everything once more.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 2 * cores


def arranged(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the tests in the order in which they are to run; those of a module stay together."""
    modules = [list(found) for _, found in groupby(items, lambda item: item.nodeid.partition("::")[0])]
    waiting = [module for module in modules if module[0].nodeid.startswith(WAITING)]
    computing = [module for module in modules if module[0].nodeid.startswith(COMPUTING)]
    brief = [module for module in modules if not module[0].nodeid.startswith((*WAITING, *COMPUTING))]
    spread = [((n + 0.5) / len(kind), module) for kind in (waiting, computing) for n, module in enumerate(kind)]
    spread.sort(key=lambda one: one[0])
    return [item for module in [*(module for _, module in spread), *brief] for item in module]


def unit(nodeid: str) -> str:
    """Return what is handed to a process together with a test: its module, or the test alone."""
    module = nodeid.partition("::")[0]
    return module if module.startswith(WHOLE) or not module.startswith((*WAITING, *COMPUTING)) else nodeid


class Sharing(LoadScopeScheduling):
    """Hands out the units, in the order of the collection."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)

    def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
        """Let go of the units that have ended. All that a process was ever given is counted after each of its tests:
        that took twenty seconds of a run.
        """
        for ended in [name for name, tests in workload.items() if all(tests.values())]:
            del workload[ended]
        return int(super()._pending_of(workload))
