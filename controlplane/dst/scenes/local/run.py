"""One run of the scene: the environment set, the plan played, the rules watched, and the end waited for.

In: a plan. Out: what `simulate` makes an `Outcome` of. Every commit, every write, every event of either log and every
batch that a process folds is looked at as it happens. When the plan is over all trouble ends at once, and nodes are
added so that all that waits for room fits: within an hour of virtual time everything must have settled, and then
nothing may be written any more."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, cast

from controlplane.app.hosted import TYPES
from controlplane.clusters.pace import Pace
from controlplane.clusters.protocol import ApiError
from controlplane.clusters.streams import ApiServer
from controlplane.controllers.connectivity.events import MANAGEMENT
from controlplane.dst.engine.database import SimulatedDatabase
from controlplane.dst.engine.plan import Plan
from controlplane.dst.engine.process import ReplicaEnvironment, SimulatedReplica
from controlplane.dst.engine.run import SceneRun
from controlplane.dst.engine.server import SimulatedServer, Written
from controlplane.dst.engine.steps import Step
from controlplane.dst.engine.trace_text import line_of, topic
from controlplane.dst.invariants.local.watchers import Watchers
from controlplane.dst.scenes.local import disruptions, manifests, people
from controlplane.dst.scenes.local.ending import SOON, unfinished
from controlplane.dst.scenes.local.environment import BIG, NAMESPACE, OwnClusterEnvironment
from controlplane.dst.scenes.local.hosted import runs_in
from controlplane.dst.scenes.local.processes import (
    CONTROLLERS,
    SCHEDULER,
    hosted,
    scheduler_controllers,
    settings_of,
    setup,
)
from controlplane.dst.scenes.local.trace_text import DECISIONS, about
from controlplane.dst.scenes.processes import HOME_TOKEN, scheduler, service
from controlplane.dst.scenes.workloads import acts
from controlplane.dst.scenes.workloads.processes import SNAPSHOTS, ahead_of
from controlplane.kube.kinds import NODES, PIPELINE_RUNS, Json, Kind, meta
from controlplane.log.codec import Codec
from controlplane.log.event import NewEvent
from controlplane.simulation.apiserver.history import Commit, Record
from controlplane.simulation.kinds.own_cluster import CLAIMS

MOST_EVENTS = 20_000  # several times what a plan of this size needs
_WRONG = frozenset({"withdraw", "compact"})  # what people do that breaks things
_AFTERMATH = 60.0  # seconds after which a process is back, watches are cut and begun again
_SILENT = frozenset({"Event", "Namespace"})


class LocalRun(SceneRun):
    """A run under way; it is what its acts act on."""

    one_cluster = True
    rest = 80.0  # a kind that was forbidden is asked for again within it

    def __init__(self, plan: Plan) -> None:
        seed = f"local {plan.seed}"
        super().__init__(plan, seed)
        if any(step.kind in ("mute", "partition") for step in plan.steps):
            self.rest = Pace().idle_timeout + LocalRun.rest  # a watch whose lines were lost is opened anew so late
        self.shadow, self.placed = hosted(), scheduler_controllers("shadow")
        codecs = {CONTROLLERS: Codec(TYPES), SCHEDULER: Codec(self.placed.router.types)}
        self.databases = {sort: SimulatedDatabase(self.loop, f"{sort} {seed}", codec) for sort, codec in codecs.items()}
        for sort, database in self.databases.items():
            database.on_append = partial(self._on_append, sort)
            database.keeps_snapshots = SNAPSHOTS in plan.traits
        self._wrong_until, self._soon = 0.0, SOON
        self.cpus = dict(plan.quotas)
        self.claims: set[str] = set()
        self.stranded: set[str] = set()  # UIDs of runs whose flag changed before anybody had noted their mode
        self.big: set[str] = set()  # UIDs of runs with a task that no node can ever take
        self.watchers: Watchers | None = None
        self.environment = OwnClusterEnvironment(self.loop, seed, plan.quotas, self._on_commit)
        self.environment.rules(manifests.BY_ALL)
        self.environment.flag(manifests.MODES[0])
        self.watchers = Watchers(self.trace, self.environment, self.shadow, self.placed)
        self.replicas: dict[str, SimulatedReplica] = {}
        ahead = ahead_of(plan.traits)
        for number in range(1, plan.replicas + 1):
            for sort, database in self.databases.items():
                place = ReplicaEnvironment(self.loop, seed, database, self.trace, self.watchers.folded[sort], ahead)
                self.replicas[f"{sort}-{number}"] = self._process(f"{sort}-{number}", sort, place)

    def _process(self, name: str, sort: str, place: ReplicaEnvironment) -> SimulatedReplica:
        opened, settings = partial(self._open_server, sort), settings_of(self.plan.traits)
        if sort == CONTROLLERS:
            return service(name, settings, place, opened)

        def opened_here(process: str) -> ApiServer:
            return opened(MANAGEMENT, process, HOME_TOKEN)

        return scheduler(name, settings, setup(), place, opened_here, lambda replica, _: replica.clock.monotonic)

    # --- the run -----------------------------------------------------------------------------------------------------

    @property
    def events(self) -> int:
        """How many events both logs have."""
        return sum(len(database.store.rows) for database in self.databases.values())

    @property
    def database(self) -> Any:
        """Both logs, as the acts know them: they are in one database."""
        return self

    @property
    def away(self) -> bool:
        """Whether the database is away."""
        return any(database.away for database in self.databases.values())

    @away.setter
    def away(self, value: bool) -> None:
        for database in self.databases.values():
            database.away = value

    def close(self) -> None:
        """Let nothing of the run live on."""
        self.environment.close()
        self.loop.finish()

    def perform(self, step: Step) -> None:
        """Carry a step out."""
        if step.kind not in people.ACTS or step.kind in _WRONG:
            self._wrong_until = max(self._wrong_until, self.loop.time() + step.seconds + _AFTERMATH)
        with suppress(ApiError):
            act = disruptions.ACTS.get(step.kind) or people.ACTS.get(step.kind)
            if act is not None:
                act(self, step)
            else:
                acts.ACTS[step.kind](cast("Any", self), step)

    def heal(self) -> None:
        """Let networks and the database be well again."""
        for network in self.environment.ways.values():
            network.heal()
        for database in self.databases.values():
            database.heal()

    def mend(self) -> None:
        """Put back nodes that were lost or closed."""
        for name in self.cpus:
            self.give_node(name)
            with suppress(ApiError):
                self.environment.store.patch(NODES, "", name, {"spec": {"unschedulable": None}})
        for name in BIG:
            self.environment.node(name, 16)

    def left(self) -> str:
        """Return what is not settled yet."""
        for sort in (CONTROLLERS, SCHEDULER):
            if not any(one.leading for name, one in self.replicas.items() if name.startswith(sort)):
                return f"nobody leads the {sort}"
        assert self.watchers is not None
        modes, now = self.watchers.placeholders.modes, self.databases[CONTROLLERS].clock.now()
        # Where no placeholder says where a task has to be, one that fits nowhere waits as any pod does.
        waiting = {uid for uid in self.big if modes.get(uid) == "disabled"}
        stranded = self.stranded | waiting
        left = unfinished(self.environment, self.shadow, self.placed, stranded, modes, now, self._soon)
        return left or self.watchers.unlike()

    def pause(self) -> None:
        """Let a while go by. No group falls back in it, nor has to: that one will soon after it is no news."""
        self._soon = timedelta()
        super().pause()

    def at_the_end(self) -> None:
        """Compare what is in the logs with what was seen."""
        assert self.watchers is not None
        self.watchers.finish({sort: database.read(0, 10**9) for sort, database in self.databases.items()})

    def look(self) -> None:
        """Look at what has to be done in time."""
        assert self.watchers is not None
        self.watchers.look(self.loop.time() - self._wrong_until)

    # --- what acts ask -----------------------------------------------------------------------------------------------

    def foreign(self, obj: Json) -> None:
        """Take note of what is somebody else's."""
        assert self.watchers is not None
        self.watchers.ownership.foreign[meta(obj)["uid"]] = ""

    def foreign_group(self, obj: Json) -> None:
        """Take note of somebody else's PodGroup."""
        assert self.watchers is not None
        self.watchers.ownership.foreign[meta(obj)["uid"]] = "status"

    def take_back(self, kind: Kind, obj: Json) -> None:
        """Delete what is somebody else's, on their behalf."""
        assert self.watchers is not None
        self.watchers.ownership.foreign.pop(meta(obj)["uid"], None)
        self.environment.store.delete(kind, meta(obj)["namespace"], meta(obj)["name"], uid=meta(obj)["uid"])

    def is_placeholder(self, record: Record) -> bool:
        """Whether an object was made for a run."""
        return "app.kubernetes.io/component" in record.labels

    def late_claim(self, name: str) -> None:
        """Create a claim that a run waits for."""
        self.environment.make(CLAIMS, name, spec=manifests.TEMPLATE["spec"])

    def too_big(self, obj: Json) -> None:
        """Take note of a run with a task that no node can ever take."""
        self.big.add(meta(obj)["uid"])

    def is_too_big(self, obj: Json) -> bool:
        """Whether a run has such a task."""
        return meta(obj)["uid"] in self.big

    def tries_again(self) -> bool:
        """Whether a pod is there that no node can ever take: its scheduler tries it every five minutes."""
        return bool(self.big & {record.uid for record in self.environment.records(PIPELINE_RUNS)})

    def give_node(self, name: str) -> None:
        """Put a node back that was lost."""
        if self.environment.find(NODES, name, "") is None:
            self.environment.node(name, self.cpus[name])

    def flag(self, mode: str) -> None:
        """Set Tekton's flag. A run whose mode nobody has noted yet may be stranded: Tekton and we may see it under two
        flags.
        """
        runs = runs_in(self.shadow)
        for record in self.environment.records(PIPELINE_RUNS):
            if not runs.is_pinned(NAMESPACE, record.name, record.uid):
                self.stranded.add(record.uid)
        self.environment.flag(mode)

    # --- what is heard -----------------------------------------------------------------------------------------------

    def _open_server(self, sort: str, cluster: str, process: str, token: str) -> ApiServer:
        assert self.watchers is not None
        return SimulatedServer(
            MANAGEMENT,
            process,
            self.environment.ways[sort],
            self.environment,
            token=token,
            written=self._on_written,
            asked=self.asked,
            listed=lambda name, kind, version: None,
        )

    def _on_commit(self, commit: Commit) -> None:
        record = commit.record
        if record.kind.kind not in _SILENT:
            self.trace.note("store", NAMESPACE, f"{commit.type} {record.kind.kind} {record.name} {record.version}")
        if self.watchers is not None:
            self.watchers.on_commit(commit)

    def _on_written(self, write: Written) -> None:
        assert self.watchers is not None
        self.writes += 1
        where = f"/{write.subresource}" if write.subresource else ""
        self.trace.note("request", write.process, f"{write.verb} {write.kind.plural}{where} {write.name}")
        self.watchers.on_written(write)

    def _on_append(self, sort: str, before: int, writer: str, events: Sequence[NewEvent]) -> None:
        assert self.watchers is not None
        controller = (self.shadow if sort == CONTROLLERS else self.placed).router
        for new, found in zip(events, self.databases[sort].read(before, len(events)), strict=True):
            self.trace.note(topic(found.event, DECISIONS), writer, line_of(found, DECISIONS, about(found.event)))
            self.watchers.before_fold(sort, found, new, writer)
            controller.fold(found)
        if before > MOST_EVENTS:
            self.trace.violate("nothing is repeated for ever", f"{before} events at {self.loop.time():.0f} s")
