"""Plans written by hand, for tests of one thing."""

from __future__ import annotations

import re
from dataclasses import replace

from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.run import Outcome
from controlplane.dst.engine.steps import Step
from controlplane.dst.play import play


def plan(*steps: Step, seed: int = 1, replicas: int = 1, w1: int = 6) -> Plan:
    """Return a plan of these steps, numbered in their order; two of the workers have 3 CPUs, so what asks for more goes
    to `w1`.
    """
    numbered = tuple(replace(step, number=number) for number, step in enumerate(steps, start=1))
    return Plan(seed, {"management": 12, "w1": w1, "w2": 3, "w3": 3}, replicas, numbered, len(numbered))


def step(at: float, kind: str, where: str = "", seconds: float = 0.0, value: int = 0) -> Step:
    """Return a step without a number."""
    return Step(0, at, kind, where, seconds, value)


def held(outcome: Outcome) -> bool:
    """Whether no rule was broken; says which one, and how it came to it, if one was."""
    assert outcome.violation is None, "\n".join([*map(str, outcome.lines[-60:]), str(outcome.violation)])
    return True


def told(outcome: Outcome, *words: str) -> list[str]:
    """Return the lines of a run that have all these words."""
    return [text for text in map(str, outcome.lines) if all(word in text for word in words)]


def ended(outcome: Outcome, *words: str) -> list[str]:
    """Return the lines in which the copies of a Workload that has finished are taken away. Who wrote Finished, the
    management cluster's Kueue or we, does not matter."""
    return told(outcome, "RemovalDecided", "because Finished", *words)


def submitted(name: str) -> Step:
    return step(5, "submit", name, 400, 2)


def cluster_of(name: str) -> str:
    """Where a job goes; whatever happens to it later, it goes there again."""
    (line,) = told(play(plan(submitted(name))), "JobCreationDecided")
    found = re.search(r"\((w\d)\)", line)
    assert found is not None
    return found[1]


def log_put_back(*trouble: Step, seed: int = 1) -> Plan:
    """Return a plan in which the log goes back to after a Workload and before its nomination; that it runs on w1 is
    never written to it.
    """
    log, home = step(5.017, "restore-log", "", 1.5), step(5.047, "refuse", "management", 8)
    return plan(step(5, "submit", "once-1", 100, 2), log, home, *trouble, step(299, "cut", "w3"), seed=seed)


ASKED_AND_AWAY = log_put_back(step(5.0585, "refuse", "w1", 150))
"""The same, and w1 is away."""
BOUND_UNSEEN = log_put_back(step(5.0585, "kind-off", "w1", 100, 1), step(10, "throttle", "w1", 30, 2))
"""The same, and of w1 Workloads are seen, but no Jobs."""
EVICTED_ON_ITS_WAY = plan(
    step(5, "submit", "once-1", 100, 2),
    *(step(5.04, "slow", name, seconds, 300) for name, seconds in (("w1", 60), ("w3", 60), ("w2", 20))),
    step(6.637, "preempt-copy", "w3"),
    seed=222,
)
"""The winner's copy is evicted while the creation of its job takes longer than any news, and another one is made
anew."""
UNSEEN_AND_SLOW = plan(
    step(5, "submit", "once-1", 300, 2),
    step(5.04563, "mute", "w2", 3, 30),
    step(5.071, "slow", "w2", 120, 100),
    step(5.568, "preempt-copy", "w2"),
    step(8.11, "suspend", "once-1", 3),
    seed=154,
)
"""A copy is there, and what becomes of it is seen late; the Workload is suspended, and another cluster admits it
then."""
OUTGROWN_UNSEEN = plan(
    step(5, "submit-elastic", "once-1", 20, 1),
    *(step(21, "partition", name, 60) for name in ("w1", "w2", "w3")),
    step(37, "resize", "once-1", value=2),
    step(57.3, "resize", "once-1", value=3),
)
"""A job ends where nobody sees it, and is made larger twice before its end is seen."""
PREEMPTED_EVERYWHERE = plan(
    step(5, "submit", "job-1", 5, 2),
    step(5.014, "slow", "w1", 40, 10),
    step(5.0212, "mute", "w2", 15),
    step(5.0214, "mute", "w3", 3),
    *(step(at, "preempt-copy", name) for at, name in ((5.776, "w1"), (7.273, "w3"), (7.464, "w2"))),
    seed=227,
)
"""All copies are preempted by their workers before one is seen to be admitted."""
TAKEN_BACK_ON_ITS_WAY = plan(
    step(5, "submit", "job-1", 20, 2),
    step(5.045, "slow", "w3", 40, 30),
    step(5.08, "slow", "w1", 40, 4),
    step(9.315195848562595, "suspend", "job-1", 3),
    seed=456,
)
"""The Workload is suspended while the creation of its job is on its way for longer than ten seconds."""
