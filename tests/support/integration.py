"""Which tests are for `make test-integration`: those that play the whole service, in processes of its own, through its
commands, or over a simulated fleet. They are a tenth of the tests and most of the time of all of them.

In: the path of a module, and the marks that a run selects by. Out: whether its tests are marked `integration`, and
whether the run leaves the module out, which then need not be imported. Of each scene of the simulation, `make test` has
a seed."""

from __future__ import annotations

import pytest

MARK = "integration"
WITHOUT = f"not deep and not {MARK}"
"""The marks by which `make test` selects."""

MODULES = (
    "tests/audit/test_estimate_error.py",
    "tests/audit/test_simulated.py",
    "tests/cancelling/",
    "tests/candidates/e2e/",
    "tests/candidates/test_gang_properties.py",
    "tests/cli/test_demo.py",
    "tests/cli/test_diff_decisions.py",
    "tests/cli/test_inspect.py",
    "tests/cli/test_scheduler_plugins.py",
    "tests/cli/test_up.py",
    "tests/cli/test_watch.py",
    "tests/cli/test_whatif.py",
    "tests/cli/test_whatif_settings.py",
    "tests/coscheduling/e2e/",
    "tests/dst/",
    "tests/interface/test_digests.py",
    "tests/local/",
    "tests/log/dropped/",
    "tests/log/test_log_replication.py",
    "tests/multikueue/kep693/",
    "tests/outages/",
    "tests/podgroups/e2e/",
    "tests/runtime/test_folded.py",
    "tests/scheduling/",
    "tests/whatif/",
)
"""Folders, and modules."""
ORDINARY = (
    "tests/dst/admission/test_seeds.py",
    "tests/dst/local/test_seeds.py",
    "tests/dst/test_candidates_seeds.py",
    "tests/dst/test_seeds.py",
)
"""Modules of these folders that `make test` has."""


def is_integration(path: str) -> bool:
    """Return whether the tests of a module are marked; the path begins with `tests/`."""
    return path.startswith(MODULES) and path not in ORDINARY


def leaves_out(marks: str, path: str) -> bool:
    """Return whether a run that selects by these marks has no test of a module."""
    if is_integration(path):
        return f"not {MARK}" in marks
    return marks.startswith(f"{MARK} and ")


def choose(config: pytest.Config) -> None:
    """Let `make test ARGS=PATH` run what is at the path, whatever it is."""
    if config.args_source is pytest.Config.ArgsSource.ARGS and config.option.markexpr == WITHOUT:
        config.option.markexpr = "not deep"
