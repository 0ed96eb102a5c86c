"""The explorations."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any

from controlplane.controllers.multikueue.context import NEVER_TWICE
from controlplane.controllers.multikueue.nominate import INCREMENTAL
from tests.multikueue.model.dispatchers import ANOTHER
from tests.multikueue.model.world import KINDS, Config, Faults

NONE = Faults(total=0)
# The others are for elastic jobs, and for another dispatcher.
_COMMON = tuple(kind for kind in KINDS if kind not in ("resized", "withdrawn"))


def _each(clusters: int, suffix: str = "", **more: Any) -> list[Config]:
    """Return a configuration for each kind of fault."""
    return [Config(f"{kind}-{clusters}{suffix}", clusters, faults=Faults.only(kind), **more) for kind in _COMMON]


_PROMPT = {"together": True, "prompt": True}
_NEVER = {"execution": NEVER_TWICE}


def _both(one: str, other: str) -> Faults:
    """Return two faults of these kinds."""
    return Faults.only(one, total=2) if one == other else replace(Faults.only(one, other), total=2)


def _pair(one: str, other: str) -> Config:
    """Return a configuration with two faults, under never-twice."""
    return Config(f"{one}-{other}-2-running-never", 2, faults=_both(one, other), running=True, **_PROMPT, **_NEVER)


_PAIRS = (
    ("cut", "cut"),
    ("cut", "restarted"),
    ("cut", "paused"),
    ("cut", "delayed"),
    ("cut", "failed"),
    ("cut", "forgot"),
    ("cut", "evicted"),
    ("lost", "restarted"),
    ("swapped", "restarted"),
)
# Two faults under at-least-once: in the first attempt, and at any time.
ATTEMPT = tuple(
    Config(
        f"{one}-{other}-2-{suffix}", 2, faults=_both(one, other), running=True, attempt=suffix == "attempt", **_PROMPT
    )
    for suffix in ("attempt", "running")
    for one, other in combinations_with_replacement(_COMMON, 2)
)
GATED = (
    Config("gates-2", 2, faults=NONE, together=True, gates=True, alike=False),
    *(
        Config(f"gates-2-{kind}", 2, faults=Faults.only(kind), gates=True, alike=False, **_PROMPT)
        for kind in ("restarted", "delayed", "deleted")
    ),
)
ELASTIC = (
    Config("elastic-1-together", 1, faults=Faults.each("resized"), elastic=True, together=True),
    Config("elastic-2-together", 2, faults=Faults.each("resized"), elastic=True, together=True),
    Config("elastic-2", 2, faults=Faults.each("resized"), elastic=True),
    *(
        Config(
            f"elastic-{kind}-2-sending-never",
            2,
            faults=Faults.each("resized", kind),
            elastic=True,
            sending=True,
            **_PROMPT,
            **_NEVER,
        )
        for kind in ("cut", "lost", "paused")
    ),
    Config("elastic-2-running", 2, faults=Faults.each("resized"), elastic=True, running=True),
    *(
        Config(
            f"elastic-{kind}-2-running", 2, faults=Faults.each("resized", kind), elastic=True, running=True, **_PROMPT
        )
        for kind in ("restarted", "cut", "paused", "delayed", "failed", "deleted", "evicted", "forgot", "lost")
    ),
    *(
        Config(
            f"elastic-{kind}-2-running-never",
            2,
            faults=Faults.each("resized", kind),
            elastic=True,
            running=True,
            **_PROMPT,
            **_NEVER,
        )
        for kind in ("cut", "lost")
    ),
    *(
        Config(f"elastic-{kind}-2-prompt", 2, faults=Faults.each("resized", kind), elastic=True, **_PROMPT)
        for kind in ("restarted", "cut", "delayed", "deleted")
    ),
)
_ROUNDS: dict[str, Any] = {"dispatcher": INCREMENTAL, "step_size": 1, "held": 1, "alike": False}
_OTHERS: dict[str, Any] = {"dispatcher": ANOTHER}
DISPATCHED = (
    Config("rounds-2", 2, faults=NONE, together=True, **_ROUNDS),
    Config("rounds-3", 3, faults=NONE, together=True, **{**_ROUNDS, "held": 2}),
    *(
        Config(f"rounds-2-{kind}", 2, faults=Faults.only(kind), **_PROMPT, **_ROUNDS)
        for kind in ("restarted", "cut", "delayed", "evicted")
    ),
    Config("others-1", 1, faults=NONE, together=True, **_OTHERS),
    Config("others-2", 2, faults=NONE, together=True, **_OTHERS),
    Config("others-1-withdrawn", 1, faults=Faults.only("withdrawn"), **_PROMPT, **_OTHERS),
    *(
        Config(f"others-2-{kind}", 2, faults=Faults.only(kind), **_PROMPT, **_OTHERS)
        for kind in ("withdrawn", "restarted", "cut", "delayed", "evicted")
    ),
)
_SMALL = ("lost", "failed", "restarted", "paused", "evicted", "deleted", "restored", "reconfigured", "forgot")
CI = (
    Config("plain-2", 2, faults=NONE),
    Config("plain-2-together", 2, faults=NONE, together=True),
    Config("delayed-2-together", 2, faults=Faults.only("delayed"), together=True),
    *(one for one in _each(2, "-running", running=True, **_PROMPT) if one.name.split("-")[0] in _SMALL),
    GATED[0],
    *(one for one in DISPATCHED if one.name in ("rounds-2", "rounds-3", "others-1", "others-2", "others-2-restarted")),
    *(
        one
        for one in ELASTIC
        if one.name
        in ("elastic-1-together", "elastic-2-running", "elastic-restarted-2-running", "elastic-cut-2-running-never")
    ),
)
_ALL = (
    *CI,
    Config("foreign-2", 2, foreign=1, faults=NONE),
    Config("plain-3-together", 3, faults=NONE, together=True),
    Config("plain-3", 3, faults=NONE),
    *_each(2, "-prompt", **_PROMPT),
    *_each(2, "-never-prompt", **_PROMPT, **_NEVER),
    *_each(2, "-together", together=True),
    *_each(2, "-never-together", together=True, **_NEVER),
    *_each(2),
    *_each(2, "-never", **_NEVER),
    *_each(3, "-prompt", **_PROMPT),
    *_each(3, "-never-prompt", **_PROMPT, **_NEVER),
    *_each(2, "-running", running=True, **_PROMPT),
    *_each(2, "-running-never", running=True, **_PROMPT, **_NEVER),
    *_each(2, "-running-apart", running=True),
    *_each(3, "-running", running=True, **_PROMPT),
    *_each(3, "-running-never", running=True, **_PROMPT, **_NEVER),
    *(_pair(*kinds) for kinds in _PAIRS),
    *ATTEMPT,
    *GATED,
    *ELASTIC,
    *DISPATCHED,
    Config("two-2-running", 2, faults=Faults(total=2), running=True, **_PROMPT),
    Config("two-2-running-never", 2, faults=Faults(total=2), running=True, **_PROMPT, **_NEVER),
    Config("two-2-prompt", 2, faults=Faults(total=2), **_PROMPT),
    Config("two-2-never-prompt", 2, faults=Faults(total=2), **_PROMPT, **_NEVER),
)
ALL = tuple({config.name: config for config in _ALL}.values())
