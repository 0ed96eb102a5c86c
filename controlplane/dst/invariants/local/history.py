"""What the logs say was seen was there: each observation is of a version that was committed, once, in order; at the end
all of it is known.

In: the commits of the cluster, the observations as they reach either log. Out: a violation.
"""

from __future__ import annotations

from controlplane.app.hosted import HostedControllers
from controlplane.app.scheduler_controllers import SchedulerControllers
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.dst.engine.trace import Trace
from controlplane.dst.scenes.local.environment import OwnClusterEnvironment
from controlplane.dst.scenes.local.hosted import groups_in, is_placeholder, run_in, runs_in
from controlplane.dst.scenes.local.manifests import GANGS
from controlplane.kube.kinds import NODES, PIPELINE_RUNS, PODS, Kind
from controlplane.log.event import Recorded, Unknown
from controlplane.simulation.apiserver.history import Commit, Record
from controlplane.simulation.kinds.own_cluster import DEPLOYMENTS, POD_GROUPS, REPLICA_SETS, STATEFUL_SETS, TASK_RUNS

TOLD = "the log holds what was committed"
_GONE = ("Gone", "Deleted", "Vanished")


class LocalHistoryRules:
    """Every version that was committed, and the newest that each log was told of each object."""

    def __init__(self, trace: Trace, environment: OwnClusterEnvironment) -> None:
        self._trace, self._environment = trace, environment
        self._committed: set[tuple[str, int]] = {(record.uid, record.version) for record in environment.everything()}
        self._last: dict[str, int] = {}

    def on_commit(self, commit: Commit) -> None:
        """Take note of a version."""
        self._committed.add((commit.record.uid, commit.record.version))

    def before_fold(self, sort: str, recorded: Recorded, source: str, mark: int) -> None:
        """Look at an observation."""
        if not source or isinstance(recorded.event, Unknown):
            return
        name = type(recorded.event).__name__
        uid, key = source.rpartition("/")[2], f"{sort} {source}"
        what = f"{name} on {recorded.stream} at {mark}"
        if not name.endswith(_GONE) and (uid, mark) not in self._committed:
            self._trace.violate(TOLD, f"{what}: it was never committed")
        if mark <= self._last.get(key, -1):
            self._trace.violate(TOLD, f"{what}: after {self._last[key]}")
        self._last[key] = mark

    def unlike(self, shadow: HostedControllers, placed: SchedulerControllers) -> str:
        """Return what the logs believe of the cluster that is not so, "" if all is."""
        groups, runs = groups_in(shadow), runs_in(shadow)
        exact: list[tuple[Kind, dict[str, tuple[str, str, str]], list[Record]]] = [
            (POD_GROUPS, groups.known(MANAGEMENT, POD_GROUPS.name), self._environment.records(POD_GROUPS)),
            (
                PIPELINE_RUNS,
                runs.places.known(MANAGEMENT, PIPELINE_RUNS.name),
                self._environment.records(PIPELINE_RUNS),
            ),
            (
                PODS,
                groups.known(MANAGEMENT, PODS.name),
                [one for one in self._environment.records(PODS) if _member(one)],
            ),
            (STATEFUL_SETS, runs.places.known(MANAGEMENT, STATEFUL_SETS.name), self._made(STATEFUL_SETS)),
        ]
        by_uid: list[tuple[Kind, set[str], list[Record]]] = [
            (NODES, set(runs.places.known(MANAGEMENT, NODES.name)), self._environment.records(NODES)),
            (TASK_RUNS, set(runs.places.known(MANAGEMENT, TASK_RUNS.name)), self._environment.records(TASK_RUNS)),
            (DEPLOYMENTS, set(groups.known(MANAGEMENT, DEPLOYMENTS.name)), self._environment.records(DEPLOYMENTS)),
            (REPLICA_SETS, set(groups.known(MANAGEMENT, REPLICA_SETS.name)), self._environment.records(REPLICA_SETS)),
            (POD_GROUPS, set(placed.pod_group_conditions.known()), self._environment.records(POD_GROUPS)),
        ]
        for kind, known, records in exact:
            versions = {uid: version for uid, (_, _, version) in known.items()}
            there = {record.uid: str(record.version) for record in records}
            if wrong := _unlike(kind, versions, there):
                return wrong
        for kind, uids, records in by_uid:
            if wrong := _unlike(kind, dict.fromkeys(uids, ""), {record.uid: "" for record in records}):
                return wrong
        return ""

    def _made(self, kind: Kind) -> list[Record]:
        return [one for one in self._environment.records(kind) if is_placeholder(one.labels) and run_in(one.labels)]


def _unlike(kind: Kind, known: dict[str, str], there: dict[str, str]) -> str:
    odd = next((uid for uid in {**known, **there} if known.get(uid) != there.get(uid)), None)
    if odd is None:
        return ""
    return f"{kind.kind} {odd}: the log says {known.get(odd, 'none')!r}, there is {there.get(odd, 'none')!r}"


def _member(record: Record) -> bool:
    return bool(record.obj["spec"].get("schedulerName") == GANGS)
