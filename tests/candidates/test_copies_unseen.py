"""Where a copy may be that nobody has seen, its namespace is watched on, also when no pod is there any more."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controlplane.controllers.candidates.references.target_namespace import TargetNamespace
from controlplane.runtime.writes import WriteFailure


@pytest.mark.parametrize(
    ("code", "error", "watched"),
    [(409, "Conflict", True), (503, "Unclear", True), (403, "Forbidden", False), (409, "Foreign", False)],
)
def test_a_write_that_failed_without_a_no_may_have_been_carried_out(code: int, error: str, watched: bool) -> None:
    failure = WriteFailure(1, code, error, "", datetime(2026, 1, 1, tzinfo=UTC), "CopyDecided")
    assert TargetNamespace(trouble={"ConfigMap/settings": failure}).may_hold_copies is watched
    assert not TargetNamespace().may_hold_copies
