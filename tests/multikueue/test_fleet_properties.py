"""What holds after every step, whatever happens in whatever order: the pure core between tiny models of clusters.

The machine lets things happen: admissions, evictions, losses, refusals, lost replies, restarts.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from controlplane.clusters.protocol import ApiError, Foreign, Unreachable
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterConnected, ClusterConnectFailed, ClusterLost
from controlplane.controllers.connectivity.local_connection import connectivity_event, service_started
from controlplane.controllers.multikueue.controller import MultiKueueController
from controlplane.controllers.multikueue.events import JobCreationDecided
from controlplane.kube import kinds
from controlplane.kube.kinds import Json, Kind, meta
from controlplane.log.event import Event
from controlplane.runtime.controller import ObjectChange, OpenWrite, WriteRefusal
from tests.multikueue.fleet_world import KINDS, Log, Server, true
from tests.multikueue.scene import CHECK, HOME_KINDS, JOB, NS, START, STREAM, WL, stamp
from tests.support.deep import examples

WORKERS = ("a", "b", "c")


def picture(fleet: MultiKueueController) -> dict[str, Any]:
    index = fleet.index
    names = ("workloads", "jobs", "checks", "configs", "clusters", "queues", "connections", "outage", "position")
    return {name: getattr(index, name) for name in names} | {"ready": index.ready, "slots": vars(index.slots)}


class Clusters(RuleBasedStateMachine):
    """One Workload, three workers, and everything that can happen to them."""

    POLICY: ClassVar[dict[str, Any]] = {}

    @initialize()
    def begin(self) -> None:
        self.log = Log(**self.POLICY)
        self.home = Server(MANAGEMENT)
        self.workers = {name: Server(name) for name in WORKERS}
        self.jobs_of: dict[int, dict[str, str]] = {}
        self.sent: set[OpenWrite] = set()
        self.disturbed = False  # taken from its cluster on purpose, perhaps in the moment in which it ended
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "config"}
        spec = {"controllerName": "kueue.x-k8s.io/multikueue", "parameters": parameters}
        self.configuration: list[tuple[Kind, Json]] = [
            (kinds.ADMISSION_CHECKS, {"metadata": {"name": CHECK, "uid": "ac"}, "spec": spec}),
            (
                kinds.MULTIKUEUE_CONFIGS,
                {"metadata": {"name": "config", "uid": "cf"}, "spec": {"clusters": list(WORKERS)}},
            ),
            *((kinds.MULTIKUEUE_CLUSTERS, {"metadata": {"name": name, "uid": name}, "spec": {}}) for name in WORKERS),
        ]
        for kind, obj in self.configuration:
            self.observe(MANAGEMENT, kind, obj, 1, False)
        self.connect_home()
        for name in WORKERS:
            self.connect(name)
        self.submit()

    def submit(self) -> None:
        spec: Json = {"suspend": True, "managedBy": "kueue.x-k8s.io/multikueue", "template": {}}
        labels = {"kueue.x-k8s.io/queue-name": "q"}
        head: Json = {"namespace": NS, "name": JOB, "uid": "job-uid", "labels": labels}
        self.home.store(kinds.JOBS, {"metadata": head, "spec": spec, "status": {}})
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": JOB, "uid": "job-uid", "controller": True}
        check = {"name": CHECK, "state": "Pending", "message": "", "lastTransitionTime": stamp(START)}
        head = {"namespace": NS, "name": WL, "uid": "wl-uid", "ownerReferences": [owner]}
        spec = {"queueName": "q", "podSets": [{"name": "main", "count": 1}]}
        self.home.store(kinds.WORKLOADS, {"metadata": head, "spec": spec, "status": {"admissionChecks": [check]}})

    # --- the wires ---

    @property
    def servers(self) -> dict[str, Server]:
        return {MANAGEMENT: self.home, **self.workers}

    def connected(self, name: str) -> bool:
        connection = self.log.fleet.index.connections.get(name)
        return connection is not None and connection.connected

    def observe(self, cluster: str, kind: Kind, obj: Json, version: int, gone: bool) -> None:
        new = self.log.fleet.observe(ObjectChange(cluster, "life", kind, obj, str(version), gone), self.log.now)
        if new is not None:
            self.log.append(new)

    def relist(self, server: Server) -> None:
        for kind in KINDS:
            server.unseen[kind].clear()
            there = server.objects.get(kind)
            for uid, (namespace, name, _) in self.log.fleet.index.known(server.name, kind.name).items():
                if there is None or meta(there)["uid"] != uid:
                    stone = {"metadata": {"namespace": namespace, "name": name, "uid": uid}}
                    self.observe(server.name, kind, stone, server.version, True)
            if there is not None:
                self.observe(server.name, kind, there, int(meta(there)["resourceVersion"]), False)

    def connect_home(self) -> None:
        self.relist(self.home)
        event = ClusterConnected(kinds=[kind.name for kind in HOME_KINDS])
        self.log.append(connectivity_event(MANAGEMENT, event))
        self.log.react()

    def connect(self, name: str) -> None:
        self.relist(self.workers[name])
        event = ClusterConnected(
            kinds=[kind.name for kind in (kinds.WORKLOADS, kinds.JOBS, kinds.JOBSETS)], incarnation=name
        )
        self.log.append(connectivity_event(name, event))
        self.log.react()

    # --- the loop's own steps ---

    @rule(name=st.sampled_from([MANAGEMENT, *WORKERS]), kind=st.sampled_from(KINDS))
    def show(self, name: str, kind: Kind) -> None:
        """A watch shows the next change of a kind; kinds do not wait for one another."""
        server = self.servers[name]
        if server.unseen[kind] and server.reachable and self.connected(name):
            obj, version, gone = server.unseen[kind].pop(0)
            self.observe(name, kind, obj, version, gone)
            self.log.react()

    @rule(name=st.sampled_from([MANAGEMENT, *WORKERS]))
    def work(self, name: str) -> None:
        """Every open write to a cluster is carried out once."""
        fleet = self.log.fleet
        for write in list(fleet.open_writes(STREAM)):
            if write.cluster != name or not self.connected(name) or not fleet.is_open(write):
                continue
            decision = fleet.index.workloads[STREAM].effects[write.target].decision
            needed = {ref: self.log.bodies[ref] for ref in fleet.bodies_needed(write)}
            request = fleet.request(write, needed, self.log.now)
            if request is None:
                continue
            before = self.servers[name].objects.get(kinds.JOBS)
            before_this = write in self.sent
            try:
                answer = self.servers[name].execute(request)
            except Unreachable:
                answer = None
                self.sent.add(write)
            except Foreign as error:
                self.log.append(fleet.failed(write, WriteRefusal(409, "Foreign", str(error)), self.log.now))
            except ApiError as error:
                if request.verb == "create" or error.status not in (404, 409):
                    said = WriteRefusal(error.status, error.reason, error.message, before_this)
                    self.log.append(fleet.failed(write, said, self.log.now))
            else:
                self.sent.add(write)
                version = meta(answer or {}).get("resourceVersion", "")
                if request.verb == "patch" and version == request.resource_version:
                    self.log.append(fleet.unneeded(write, version))
            if isinstance(decision, JobCreationDecided) and before is None:
                self.note_job(name, decision.attempt)
            self.log.react()

    def note_job(self, name: str, attempt: int) -> None:
        """A job was created: in its attempt it must be the only one among the clusters that can be reached."""
        made = self.workers[name].objects.get(kinds.JOBS)
        if made is None:
            return
        others = self.jobs_of.setdefault(attempt, {})
        for other, uid in others.items():
            there = self.workers[other].objects.get(kinds.JOBS)
            running = there is not None and meta(there)["uid"] == uid and "deletionTimestamp" not in meta(there)
            server = self.workers[other]
            reachable = other != name and self.connected(other) and server.reachable and not server.kept
            assert not (running and reachable), f"attempt {attempt} runs on {other} and on {name}"
        others[name] = meta(made)["uid"]

    @rule(seconds=st.sampled_from([1, 3, 40, 70, 400, 1000]))
    def tick(self, seconds: int) -> None:
        self.log.now += timedelta(seconds=seconds)
        for server in self.servers.values():
            server.now = self.log.now
        self.log.react()

    # --- what Kueue and people do ---

    @rule()
    def reserve(self) -> None:
        workload = self.home.objects[kinds.WORKLOADS]
        if not true(workload, "QuotaReserved") and not true(workload, "Finished"):
            self.home.condition("Evicted", value=False)
            self.home.condition("QuotaReserved")

    @rule()
    def manager_core(self) -> None:
        self.home.manager()

    @rule(name=st.sampled_from(WORKERS))
    def worker_core(self, name: str) -> None:
        self.workers[name].worker()

    @rule(name=st.sampled_from(WORKERS))
    def admit(self, name: str) -> None:
        clone = self.workers[name].objects.get(kinds.WORKLOADS)
        if clone is not None and clone["spec"].get("active") is not False and not true(clone, "Admitted"):
            self.workers[name].condition("Evicted", value=False)
            self.workers[name].condition("Admitted")

    @rule(name=st.sampled_from(WORKERS))
    def evict_on_worker(self, name: str) -> None:
        if true(self.workers[name].objects.get(kinds.WORKLOADS), "Admitted"):
            self.workers[name].condition("Admitted", value=False)
            self.workers[name].condition("Evicted", reason="Preempted")
            self.disturbed = True

    @rule()
    def evict_on_manager(self) -> None:
        workload = self.home.objects[kinds.WORKLOADS]
        if true(workload, "QuotaReserved") and not true(workload, "Evicted") and not true(workload, "Finished"):
            self.home.evict()
            self.disturbed = True

    @rule(name=st.sampled_from(WORKERS))
    def finish(self, name: str) -> None:
        job = self.workers[name].objects.get(kinds.JOBS)
        if job is not None and (job.get("status") or {}).get("active"):
            done = [{"type": "Complete", "status": "True"}]
            self.workers[name].change(kinds.JOBS, {"status": {"active": None, "succeeded": 1, "conditions": done}})

    @rule(name=st.sampled_from(WORKERS), kind=st.sampled_from(KINDS))
    def delete_on_worker(self, name: str, kind: Kind) -> None:
        server = self.workers[name]
        if kind in server.objects and not meta(server.objects[kind]).get("finalizers"):
            server.remove(kind)
            self.disturbed = True

    @rule(winner=st.sampled_from(WORKERS), rounds=st.integers(1, 6))
    def go_on(self, winner: str, rounds: int) -> None:
        """Everybody who can be reached does his part: without this the machine would rarely get far."""
        for _ in range(rounds):
            self.reserve()
            self.home.manager()
            self.admit(winner)
            for name, server in self.servers.items():
                if server.reachable and name in self.workers:
                    server.worker()
                self.work(name)
                self.catch_up(name)

    def catch_up(self, name: str) -> None:
        for kind in KINDS:
            while self.servers[name].unseen[kind] and self.servers[name].reachable and self.connected(name):
                self.show(name, kind)

    # --- what goes wrong ---

    @rule(name=st.sampled_from(WORKERS))
    def cut(self, name: str) -> None:
        """Not reachable; nobody has noticed yet."""
        self.workers[name].reachable = False

    @rule(name=st.sampled_from(WORKERS))
    def notice(self, name: str) -> None:
        if not self.workers[name].reachable:
            lost = self.connected(name)
            event: Event = ClusterLost(reason="Unreachable", message="no answer")
            failed = ClusterConnectFailed(reason="ClientConnectionFailed", message="no answer", attempt=1)
            self.log.append(connectivity_event(name, event if lost else failed))
            self.log.react()

    @rule(name=st.sampled_from(WORKERS))
    def come_back(self, name: str) -> None:
        self.workers[name].reachable = True
        if not self.connected(name):
            self.connect(name)

    @rule(name=st.sampled_from([MANAGEMENT, *WORKERS]))
    def refuse_a_write(self, name: str) -> None:
        self.servers[name].refuses = 1

    @rule(name=st.sampled_from([MANAGEMENT, *WORKERS]))
    def lose_a_reply(self, name: str) -> None:
        self.servers[name].loses_reply = True

    @rule(name=st.sampled_from([MANAGEMENT, *WORKERS]), kind=st.sampled_from(KINDS))
    def show_again(self, name: str, kind: Kind) -> None:
        """The same line twice adds nothing to the log."""
        server, state = self.servers[name], self.log.fleet.index.known(name, kind.name)
        there = server.objects.get(kind)
        if there is not None and self.connected(name) and not server.unseen[kind] and meta(there)["uid"] in state:
            length = len(self.log.recorded)
            self.observe(name, kind, there, int(meta(there)["resourceVersion"]), False)
            assert len(self.log.recorded) == length

    @rule()
    def restart(self) -> None:
        """Another process takes over with nothing but the log, and looks at everything anew."""
        self.log.fleet = self.log.replayed()
        self.log.wakes.clear()
        self.log.append(service_started(2, "next", "1"))
        self.log.react()
        self.connect_home()
        for name, server in self.workers.items():
            if server.reachable:
                self.connect(name)
            else:
                self.notice(name)

    # --- what holds ---

    @invariant()
    def a_replay_is_the_same(self) -> None:
        if hasattr(self, "log"):
            assert picture(self.log.replayed()) == picture(self.log.fleet)

    @invariant()
    def deciding_twice_decides_nothing(self) -> None:
        for stream in self.streams():
            assert list(self.log.fleet.decide(stream, self.log.now).events) == []

    @invariant()
    def open_writes_have_one_target_each(self) -> None:
        for stream in self.streams():
            targets = [write.target for write in self.log.fleet.open_writes(stream)]
            assert len(targets) == len(set(targets))

    def streams(self) -> Iterator[str]:
        if hasattr(self, "log"):
            yield from list(self.log.fleet.index.workloads)

    # --- and in the end ---

    def round(self, winner: str) -> None:
        for server in self.servers.values():
            server.refuses, server.loses_reply = 0, False
        for name in WORKERS:
            self.come_back(name)
        self.go_on(winner, 1)
        self.tick(40)

    def teardown(self) -> None:
        """The faults over, the Workload runs on one cluster, ends there, and leaves nothing behind."""
        if not hasattr(self, "log"):
            return
        for _ in range(60):
            self.round("b")
            for name in WORKERS:
                if self.log.fleet.index.workloads[STREAM].local.cluster_name == name:  # type: ignore[union-attr]
                    self.finish(name)
        workload = self.home.objects[kinds.WORKLOADS]
        assert true(workload, "Finished"), workload["status"]
        assert not any(server.objects for server in self.workers.values())
        assert self.disturbed or true(self.home.objects[kinds.JOBS], "Complete"), "the last status is missing"
        assert self.log.fleet.open_writes(STREAM) == []


def test_a_cluster_that_refused_a_job_for_a_while_gets_it_in_the_end() -> None:
    """Its last refusals were counted again each time that it was chosen anew, so it was left out without being
    asked.
    """
    machine = Clusters()
    machine.begin()
    machine.go_on(winner="b", rounds=3)
    machine.refuse_a_write("b")
    machine.go_on(winner="b", rounds=1)
    machine.refuse_a_write("b")
    machine.tick(1)
    machine.go_on(winner="a", rounds=1)
    machine.teardown()


TestClusters = pytest.mark.generated(Clusters.TestCase)
TestClusters.settings = settings(
    max_examples=examples(20, 200),
    report_multiple_bugs=False,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
