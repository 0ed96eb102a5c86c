"""What `log archive --drop` says: what left the log, or why nothing did."""

from __future__ import annotations

from controlplane.cli.log_archive import dropped_line
from controlplane.log.archive.dropping import DropResult
from tests.support.rows import each

WHY = "the newest snapshot that a process can start from is of position 30"


@each(
    ("found", "said"),
    [
        (DropResult(why=WHY), f"Nothing was dropped from the log main: {WHY}."),
        (
            DropResult(60, 40, 3, 20, ""),
            (
                "40 events of 3 streams that are over left the log main; of what it had up to position 60, 20 events "
                "stayed."
            ),
        ),
        (
            DropResult(60, 0, 0, 60, WHY),
            (
                "Nothing that the log main had up to position 60 is over, so all of it stayed: Workloads that are "
                "there stay, and those that have been gone for less than an hour (the setting scoring.window). Behind "
                f"it nothing may leave yet: {WHY}."
            ),
        ),
    ],
)
def test_what_left_or_why_nothing_did(found: DropResult, said: str) -> None:
    assert dropped_line("main", found) == said
