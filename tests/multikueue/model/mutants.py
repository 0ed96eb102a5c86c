"""Deliberate bugs, each in a rule of the code, which the exploration has to find when it is gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec
import pytest

from controlplane.controllers.multikueue import (
    decide,
    decision_pass,
    dispatch,
    draining,
    ended,
    nominate,
    preemption,
    render,
    running,
    state,
)
from controlplane.controllers.multikueue.context import NEVER_TWICE, WorkloadContext
from controlplane.controllers.multikueue.decision_pass import WorkloadPass
from controlplane.kube.kinds import Request
from tests.multikueue.model import process
from tests.multikueue.model.configs import NONE
from tests.multikueue.model.dispatchers import ANOTHER
from tests.multikueue.model.world import Config, Faults


@dataclass(frozen=True)
class Mutant:
    """A bug: its name, what it is, how it is put in, where it shows, and which rules it breaks."""

    name: str
    what: str
    patch: Callable[[pytest.MonkeyPatch], None]
    config: Config
    rules: tuple[str, ...]


def _no(*_args: Any, **_more: Any) -> bool:
    return False


def _nothing(*_args: Any, **_more: Any) -> None:
    return None


def _nowhere(*_args: Any, **_more: Any) -> dict[str, datetime | None]:
    return {}


def _one(*kinds: str, **more: Any) -> Config:
    return Config(f"{'-'.join(kinds)}-bug", 2, faults=_faults(*kinds), together=True, prompt=True, **more)


def _plain(name: str, **more: Any) -> Config:
    return Config(name, 2, faults=NONE, together=True, **more)


def _faults(*kinds: str) -> Faults:
    return Faults(total=len(kinds), **{kind: int(kind in kinds) for kind in vars(Faults()) if kind != "total"})


def _set(where: Any, name: str, to: Any) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(where, name, to)


def _unpinned(patch: pytest.MonkeyPatch) -> None:
    fold = state._fold_choice

    def forgetful(before: Any, event: Any) -> Any:
        after = fold(before, event)
        return msgspec.structs.replace(after, winner="")

    patch.setattr(state, "_fold_choice", forgetful)


def _always_in_view(patch: pytest.MonkeyPatch) -> None:
    """Take what was seen last of a worker that is away for what is there."""
    patch.setattr(WorkloadContext, "in_view", lambda self, cluster: cluster in self.connections)


def _no_grace(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        WorkloadContext,
        "lost_until",
        lambda self, cluster, default, kind="": default.min.replace(tzinfo=default.tzinfo),
    )


def _never_twice_is_no_policy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WorkloadContext, "grace_ends", lambda self, since: since + self.policy.worker_lost_timeout)


def _by_name(patch: pytest.MonkeyPatch) -> None:
    made = render._removal

    def unnamed(*args: Any) -> Request:
        return replace(made(*args), uid="")

    patch.setattr(render, "_removal", unnamed)


def _unlabelled(patch: pytest.MonkeyPatch) -> None:
    made = render._job_clone

    def anybodys(*args: Any) -> Request:
        return replace(made(*args), owner_label=None)

    patch.setattr(render, "_job_clone", anybodys)


def _any_version(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decision_pass, "_version", lambda *_args: "")


def _any_failure_is_a_no(patch: pytest.MonkeyPatch) -> None:
    def failed(self: WorkloadPass, cluster: str) -> bool:
        return any(f"{cluster}/{where}" in self.state.trouble for where in ("Workload", "Job"))

    patch.setattr(WorkloadPass, "removal_failed", failed)


def _out_of_sync_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(running, "_out_of_sync", _nothing)


def _slice_begun_while_another_is(patch: pytest.MonkeyPatch) -> None:
    """Look for creations that have not shown on the Workload's own stream only."""
    own = decision_pass.unshown

    def alone(one: Any, context: WorkloadContext, *args: Any) -> dict[str, datetime | None]:
        return own(one, msgspec.structs.replace(context, slices=()), *args)

    patch.setattr(decision_pass, "unshown", alone)


def _replaced_is_removed(patch: pytest.MonkeyPatch) -> None:
    """Remove the copies of a slice as soon as another one has its place."""

    def removed(pass_: WorkloadPass, reason: Any) -> None:
        pass_.remove_everywhere(reason)

    patch.setattr(decide, "outlast", removed)


def _all_in_the_first_round(patch: pytest.MonkeyPatch) -> None:
    """Ask all clusters at once where they are asked in rounds."""
    patch.setattr(
        nominate, "_a_few_more", lambda pass_, local, eligible: nominate.Nominated(eligible, nominate._FIRST, 1)
    )


def _one_round_only(patch: pytest.MonkeyPatch) -> None:
    """Ask nobody else when a round is over."""
    more = nominate._a_few_more

    def first(pass_: WorkloadPass, local: Any, eligible: Any) -> nominate.Nominated:
        found = more(pass_, local, eligible)
        return found._replace(clusters=found.clusters[: pass_.context.policy.step_size], round=1)

    patch.setattr(nominate, "_a_few_more", first)


def _nominated_by_both(patch: pytest.MonkeyPatch) -> None:
    """Nominate although somebody else's dispatcher does."""
    patch.setattr(dispatch, "OWN", (*nominate.OWN, ANOTHER))


def _waits_for_kueue(pass_: WorkloadPass, _local: Any, cluster: str) -> bool:
    """Leave what has finished out of view to the finishing of the Workload, whichever cluster was chosen."""
    remote = pass_.state.remote(cluster)
    if not pass_.context.in_view(cluster):
        return remote.finished is None
    return remote.job is None or remote.job.deleting or remote.clone is None or remote.clone.deleting


def _slices(name: str, *kinds: str, **more: Any) -> Config:
    return Config(name, 2, faults=Faults.each("resized", *kinds), elastic=True, **more)


MUTANTS = (
    Mutant("end", "an end is forgotten with its copy", _set(decide, "report_end", _no), _one("removed"), ("S4",)),
    Mutant(
        "losers",
        "the losers stay",
        _set(WorkloadPass, "remove_everywhere", _no),
        _plain("losers"),
        ("S1", "S2", "S4", "L1", "L2", "L"),
    ),
    Mutant("pinned", "the winner is not kept", _unpinned, _plain("pinned"), ("quiet",)),
    Mutant(
        "in-view",
        "what is not seen is gone, or as it was",
        _always_in_view,
        _one("lost", running=True),
        ("L", "L1"),
    ),
    Mutant("grace", "a lost worker is not waited for", _no_grace, _one("cut"), ("S1", "S2")),
    Mutant(
        "never",
        "never-twice ends with the grace",
        _never_twice_is_no_policy,
        _one("cut", execution=NEVER_TWICE),
        ("S1", "S2"),
    ),
    Mutant("uid", "removals name no object", _by_name, _plain("uid"), ("S5",)),
    Mutant(
        "label",
        "a job of somebody else's is taken for ours",
        _unlabelled,
        Config("label", 2, foreign=1, faults=NONE, together=True),
        ("L", "L1", "S3"),
    ),
    Mutant(
        "version",
        "a copy is removed whatever has become of it",
        _any_version,
        _one("reconfigured", running=True),
        ("S4", "L1"),
    ),
    Mutant(
        "others",
        "losers may run while the winner starts",
        _set(WorkloadPass, "others_may_run", _no),
        _one("evicted"),
        ("S1", "S2"),
    ),
    Mutant(
        "unseen",
        "a job that is out of view is forgotten",
        _set(decision_pass, "unseen", _nowhere),
        _one("cut", "evicted", execution=NEVER_TWICE, running=True),
        ("S1", "S2"),
    ),
    Mutant(
        "unshown",
        "a creation that has not shown is forgotten with its attempt",
        _set(decision_pass, "unshown", _nowhere),
        Config("unshown", 2, faults=_faults("evicted"), sending=True, prompt=True),
        ("S1", "S2"),
    ),
    Mutant(
        "anew",
        "a copy that was evicted before it had a job is left as it is",
        _set(dispatch, "_evicted_without_job", _no),
        Config("anew", 1, faults=_faults("preempted"), together=True),
        ("L", "L1"),
    ),
    Mutant(
        "ending",
        "a copy that is being removed or stopped is chosen",
        _set(WorkloadPass, "is_ending", _no),
        _one("removed", running=True),
        ("S11",),
    ),
    Mutant(
        "meanwhile",
        "an end out of view is forgotten once another cluster is chosen",
        _set(ended, "_goes", _waits_for_kueue),
        _one("cut", "lost", running=True),
        ("S4",),
    ),
    Mutant(
        "gates",
        "a gate that was opened is forgotten",
        _set(preemption, "_opened", lambda pass_: iter(())),
        Config("gates", 2, faults=NONE, together=True, gates=True, alike=False),
        ("S7",),
    ),
    Mutant(
        "no",
        "a removal that failed once is one that was refused",
        _any_failure_is_a_no,
        _one("preempted", "failed", sending=True),
        ("S1", "S2"),
    ),
    Mutant(
        "asked",
        "a stored nomination says nothing",
        _set(dispatch, "_asked_before", _no),
        _one("forgot", "cut"),
        ("S1", "S2"),
    ),
    Mutant(
        "rest",
        "nobody says that nothing runs",
        _set(draining, "_write_rest", _nothing),
        _one("removed", running=True),
        ("L", "L1"),
    ),
    Mutant(
        "orphans", "copies of what was deleted stay", _set(decide, "_orphan", _nothing), _one("deleted"), ("L", "L2")
    ),
    Mutant("sync", "a copy that is out of sync is waited for", _out_of_sync_counts, _one("unsynced"), ("L", "L1")),
    Mutant(
        "swapped",
        "another cluster is used at once",
        _set(process, "rests_on", _no),
        _one("swapped", execution=NEVER_TWICE),
        ("S1", "S2"),
    ),
    Mutant(
        "begun",
        "the next slice begins while the job of the one before is being created",
        _slice_begun_while_another_is,
        _slices("begun", sending=True, together=True),
        ("S1", "S2"),
    ),
    Mutant(
        "early",
        "the copies of a slice are removed once another one has its place",
        _replaced_is_removed,
        _slices("early", running=True, together=True),
        ("S8",),
    ),
    Mutant(
        "rounds",
        "all clusters are asked in the first round",
        _all_in_the_first_round,
        Config(
            "rounds", 2, faults=NONE, together=True, dispatcher=nominate.INCREMENTAL, step_size=1, held=1, alike=False
        ),
        ("S9",),
    ),
    Mutant(
        "round",
        "nobody is asked after the first round",
        _one_round_only,
        Config(
            "round", 2, faults=NONE, together=True, dispatcher=nominate.INCREMENTAL, step_size=1, held=1, alike=False
        ),
        ("L", "L1"),
    ),
    Mutant(
        "another",
        "clusters are nominated that another dispatcher never named",
        _nominated_by_both,
        Config("another", 2, faults=NONE, together=True, dispatcher=ANOTHER),
        ("S10",),
    ),
)
