"""What the local scene has found, by seed: what is mended, and what is not yet.

`MENDED`: the smallest forms that were found, as (seed, `--steps`, what it was). `KNOWN`: seeds of the ordinary run that
fail, with the reason; whoever mends one moves it."""

from __future__ import annotations

MENDED: list[tuple[int, str, str]] = [
    (40, "2-4", "the end of a PodGroup that came and went within one batch of the scheduler's watch was not recorded"),
    (
        163,
        "2,4",
        "a PodGroup's stream lost its version with the group, and what was decided on it later was refused for ever",
    ),
    (224, "5-6,9,11-14,19", "a write that was done although its answer was a 500 was repeated every five minutes"),
    (255627121920, "3-4,6-12", "a member that went while its gang was let go did not turn the others back"),
    (222157768608, "12,15,22-23", "a conflict after a row of refusals waited for minutes, as if it were another one"),
    (
        910176,
        "1-4,6,8-10",
        "a TaskRun that was seen before its run was forgotten, and a task that never fits did not end",
    ),
    (
        900150,
        "1-2,4-6,21-25",
        "none of the product's: a watch whose lines were lost was opened anew in what had to be quiet",
    ),
    (
        930105,
        "5,8,15",
        "a run's mode was pinned by a flag that was not in view any more and had changed: its tasks never ran",
    ),
    (930206, "", "a gang of which some have to be where another one is was turned back for ever, for they were older"),
    (930042, "", "none of the product's: a group that had not started in time fell back in what had to be quiet"),
]

KNOWN: dict[int, str] = {}
