"""The clusters of one run, and everybody who acts in them without being asked: Kueue, the job controllers, etcd.

In: the sizes that a plan gives, virtual time. Out: stores that change by themselves, a network to each, and the
accidents that befall a cluster as a whole: its history compacted, its etcd put back to an earlier state, the cluster
built anew under the old name."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import orjson

from controlplane.controllers.connectivity.state import Connection
from controlplane.dst.engine.loop import VirtualClock, VirtualLoop
from controlplane.dst.engine.network import Network
from controlplane.kube.kinds import SECRETS, Json, Kind
from controlplane.simulation.apiserver.history import Commit
from controlplane.simulation.apiserver.store import Store
from controlplane.simulation.controllers.behaviour import Behaviour
from controlplane.simulation.controllers.jobs import JobPace
from controlplane.simulation.kueue.common import Gates
from controlplane.simulation.seeding import ensure
from controlplane.simulation.world import KUEUE_NAMESPACE, MANAGEMENT, ClusterSpec, SimulatedCluster, World, secret_name

OnCommit = Callable[[str, Commit], None]
ClusterSetup = Callable[[str, ClusterSpec], ClusterSpec]
"""What else a cluster of some name is made of."""


@dataclass(slots=True)
class JobWebhook:
    """Our webhook of jobs: whether it is `away`, the jobs that were created meanwhile, which it has not seen, and those
    of which a backup may still have one that it has not seen."""

    away: bool = False
    unheard: set[str] = field(default_factory=set)
    ever: set[str] = field(default_factory=set)


AdmissionHook = Callable[[SimulatedCluster], Callable[..., None]]
"""Returns what is asked about each write on the management cluster, for one incarnation of it."""
_STEPS_AT_ONCE = 3
_NEVER = datetime.min.replace(tzinfo=UTC)
_BEFORE, _BEHIND = "a", "z"
BUSY = 8.0  # seconds for which a cluster that forgets its history answers no watch


class Driver:
    """Lets the behaviours of one cluster act, a few steps at a time, in an order and with pauses drawn from the
    seed.
    """

    def __init__(self, loop: VirtualLoop, behaviours: Sequence[Behaviour], source: random.Random) -> None:
        self._loop, self._behaviours, self._random = loop, list(behaviours), source
        self._planned = float("inf")
        self.stopped = False

    def kick(self) -> None:
        """Something has changed: act soon."""
        self._plan(self._loop.time() + 0.001 + 0.02 * self._random.random())

    def _plan(self, when: float) -> None:
        if when < self._planned and not self.stopped:
            self._planned = when
            self._loop.world_later(when - self._loop.time(), self._act, when)

    def _act(self, when: float) -> None:
        if when != self._planned or self.stopped:
            return
        self._planned = float("inf")
        self._random.shuffle(self._behaviours)
        busy = False
        for behaviour in self._behaviours:
            for _ in range(_STEPS_AT_ONCE):
                if not behaviour.step():
                    break
                busy = True
        if busy:
            self.kick()
        else:
            due = [at for behaviour in self._behaviours if (at := behaviour.next_due()) is not None]
            if due:
                self._plan(max(min(due), self._loop.time()))


class Backup(NamedTuple):
    """What etcd held at one moment."""

    version: int
    objects: tuple[tuple[Kind, bytes], ...]


_READ_BY = 120.0  # virtual seconds after which a Secret was read by every process, whatever is wrong


class ClusterEnvironment:
    """One cluster of the environment: its present incarnation, the network in front of it, the kinds that are `off`."""

    def __init__(self, name: str, cluster: SimulatedCluster, network: Network) -> None:
        self.name, self.cluster, self.network = name, cluster, network
        self.off: set[str] = set()
        self.incarnations = 1
        self.undo: list[Callable[[], None]] = []

    @property
    def store(self) -> Store:
        """The objects as they now are."""
        return self.cluster.store


class WorkloadEnvironment:
    """All clusters. `on_commit(cluster, commit)` hears of every change, `on_incarnation(cluster)` of a cluster that
    began anew.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        seed: str,
        quotas: dict[str, int],
        on_commit: OnCommit,
        setup: ClusterSetup = lambda name, spec: spec,
        hook: AdmissionHook | None = None,
    ) -> None:
        self.loop, self._seed, self._on_commit, self._setup, self._hook = loop, seed, on_commit, setup, hook
        self.clock = VirtualClock(loop)
        self.misled: dict[str, str] = {}  # where kubeconfigs lead that do not lead to their own cluster
        self._misled_until: dict[str, float] = {}
        self.rebuilt: set[str] = set()
        self._random = random.Random(f"stage {seed}")  # noqa: S311 - reproducible on purpose
        self._specs = {name: self._spec(name, cpu) for name, cpu in quotas.items()}
        workers = {name: spec for name, spec in self._specs.items() if name != MANAGEMENT}
        world = World(self._specs[MANAGEMENT], workers, clock=self.clock, rng=self._random)
        self.places = {
            name: ClusterEnvironment(name, cluster, Network(name, loop, seed))
            for name, cluster in world.clusters.items()
        }
        world.assemble()
        for place in self.places.values():
            self._begin(place)
        for name in workers:
            self.write_secret(name)

    def _spec(self, name: str, cpu: int) -> ClusterSpec:
        """Return what a cluster is made of."""
        pace = JobPace(duration=timedelta(seconds=20), startup=timedelta(0), brief=True)
        spec = ClusterSpec(quota={"cpu": str(cpu)}, pace=pace, gates=Gates(multikueue=name == MANAGEMENT))
        return self._setup(name, spec)

    def _behaviours(self, place: ClusterEnvironment) -> Sequence[Behaviour]:
        """Return everybody who acts in a cluster from now on."""
        return place.cluster.behaviours

    @property
    def management(self) -> ClusterEnvironment:
        """The management cluster."""
        return self.places[MANAGEMENT]

    @property
    def workers(self) -> dict[str, ClusterEnvironment]:
        """The worker clusters."""
        return {name: place for name, place in self.places.items() if name != MANAGEMENT}

    def is_misled_to(self, name: str) -> bool:
        """Whether another worker's kubeconfig leads to a worker, or did a moment ago: whoever cannot read the Secret
        that took its place still goes there.
        """
        return name in self.misled.values() or self.loop.time() < self._misled_until.get(name, -_READ_BY) + _READ_BY

    def write_secret(self, name: str, *, broken: bool = False, to: str = "") -> None:
        """Put a worker's kubeconfig, with the token that is good now, into its Secret; or one that is none, or leads to
        another worker.
        """
        place = self.places[to or name]
        if before := self.misled.pop(name, ""):
            self._misled_until[before] = self.loop.time()
        if to:
            self.misled[name] = to
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": f"https://{place.name}.example.com"}}],
            "users": [{"name": name, "user": {"token": place.network.token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
        text = b"not a kubeconfig" if broken else orjson.dumps(kubeconfig)
        data = {"kubeconfig": base64.b64encode(text).decode()}
        ensure(self.management.store, SECRETS, secret_name(name), KUEUE_NAMESPACE, keep=False, type="Opaque", data=data)

    # --- accidents -------------------------------------------------------------------------------------------------

    def compact(self, name: str) -> None:
        """Let a cluster end its watches, keep new ones waiting for a while, and then forget its history: whoever
        resumes is told 410.
        """
        network = self.places[name].network
        network.queue_watches()
        network.end_watches()
        self.loop.world_later(BUSY, self._compacted, name)

    def _compacted(self, name: str) -> None:
        self.places[name].store.compact()
        self.places[name].network.admit_watches()

    def backup(self, name: str) -> Backup:
        """Return what a cluster's etcd holds now."""
        store = self.places[name].store
        kinds = [kind for kind, served in store.served.items() if served.stored == kind]
        return Backup(store.version, tuple((kind, record.raw) for kind in kinds for record in store.records(kind)))

    def restore(self, name: str, backup: Backup) -> None:
        """Put a cluster back to an earlier state: same identity, older resourceVersions, no history."""
        place = self.places[name]
        cluster = self._new_cluster(place)
        cluster.store.restore([(kind, orjson.loads(raw)) for kind, raw in backup.objects], backup.version)
        cluster.vary_uids()
        cluster.view.start()
        self._begin(place)

    def rebuild(self, name: str) -> None:
        """Replace a cluster by an empty one of the same name and address."""
        place = self.places[name]
        self.rebuilt.add(name)
        cluster = self._new_cluster(place)
        cluster.view.start()
        cluster.seed()
        self._begin(place)

    def _new_cluster(self, place: ClusterEnvironment) -> SimulatedCluster:
        self._end(place)
        spec = self._specs[place.name]
        place.cluster = SimulatedCluster(place.name, spec, self.clock, self._random, manages=place.name == MANAGEMENT)
        place.incarnations += 1
        place.network.cut("the API server went away")
        return place.cluster

    def _begin(self, place: ClusterEnvironment) -> None:
        source = random.Random(f"driver {place.name} {place.incarnations} {self._seed}")  # noqa: S311
        driver = Driver(self.loop, self._behaviours(place), source)

        def stop() -> None:
            driver.stopped = True

        def changed(commit: Commit) -> None:
            self._on_commit(place.name, commit)
            driver.kick()

        if self._hook is not None and place.name == MANAGEMENT:
            place.store.admission.append(self._hook(place.cluster))
        place.undo = [place.store.listen(changed), stop]
        driver.kick()

    def _end(self, place: ClusterEnvironment) -> None:
        for undo in place.undo:
            undo()
        place.cluster.view.stop()

    def close(self) -> None:
        """Stop everybody."""
        for place in self.places.values():
            self._end(place)


def second_name(worker: str, *, before: bool) -> str:
    """Return another name for a worker, before its own in the configuration or behind it."""
    return f"{_BEFORE if before else _BEHIND}-{worker}"


def place_of(name: str) -> str:
    """Return the cluster that is meant by a name, its own or a second one."""
    prefix, _, worker = name.partition("-")
    return worker if worker and prefix in (_BEFORE, _BEHIND) else name


def in_use(connections: Iterable[Connection], cluster: str) -> Connection | None:
    """Return the connection by which a cluster is seen, or was last: one that lasts, else the one that was lost last. A
    name under which it was never used tells nothing.
    """
    found = [
        one for one in connections if place_of(one.name) == cluster and (one.connected_once or one.name == cluster)
    ]
    return max(found, key=lambda one: (one.connected, one.lost_clock or _NEVER), default=None)


def led_to(server: str) -> str:
    """Return the name of the cluster that a kubeconfig's server is."""
    return server.removeprefix("https://").removesuffix(".example.com")


def labels(obj: Json) -> Json:
    """Return an object's labels."""
    return obj["metadata"].get("labels") or {}
