"""Asks a profile's plugins about one pod, for the loop: a cycle, then Reserve and Permit, then PreBind and Bind.

In: a framework, a pod, the view. Out: a `CycleResult`, statuses, what is to be written. A plugin that fails by an
exception fails what was asked and nothing else (`PluginFaults`). Between cycles only one thing is kept: where the next
sample of nodes begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from controlplane.controllers.scheduling.binding.protocol import BindingRequests, Score
from controlplane.controllers.scheduling.cycle import CycleResult, Sampling, schedule
from controlplane.controllers.scheduling.framework.plugin import CycleState
from controlplane.controllers.scheduling.framework.runtime import Framework
from controlplane.controllers.scheduling.framework.status import Status
from controlplane.controllers.scheduling.outcome import PluginFaults, score_of
from controlplane.controllers.scheduling.queue.nominations import Nominations
from controlplane.controllers.scheduling.queue.queue import QueueEntry
from controlplane.controllers.scheduling.snapshot.objects import Pod
from controlplane.controllers.scheduling.snapshot.view import ClusterView


class Trying:
    """See the module. `pick` chooses among equally good nodes."""

    def __init__(self, view: ClusterView, nominations: Nominations, pick: Callable[[], int]) -> None:
        self._view, self._nominations, self._pick = view, nominations, pick
        self._start: dict[str, int] = {}
        self.faults = PluginFaults()

    def nominated(self, pod: Pod) -> Pod:
        """Return a pod as the nominations of preemption have it."""
        node = self._nominations.of(pod.identity)
        return pod if pod.nominated_node == node else replace(pod, nominated_node=node)

    def cycle(self, framework: Framework, pod: Pod) -> CycleResult:
        """Look for a node."""
        name = framework.scheduler_name
        sampling = Sampling(framework.percentage, self._start.get(name, 0))
        nominated = self._nominations.by_node(pod.identity)
        found = self.faults.guard(
            lambda: schedule(framework, self._view.snapshot, pod, nominated, sampling, self._pick())
        )
        self._start[name] = found.next_start
        return found

    def reserve(
        self, framework: Framework, state: CycleState, pod: Pod, node: str, *, permit: bool = True
    ) -> tuple[Status, dict[str, float]]:
        """Run Reserve and, unless it was permitted before, Permit; the seconds that each waiting plugin grants."""

        def ask() -> tuple[Status, dict[str, float]]:
            status = framework.reserve(state, pod, node)
            return framework.permit(state, pod, node) if status.ok and permit else (status, {})

        return self.faults.status(ask)

    def score(self, framework: Framework, pod: Pod, found: CycleResult, entry: QueueEntry | None) -> Score:
        """Return the score of the node that was found; none if a plugin fails that did not have to be asked."""
        try:
            return score_of(framework, self._view.snapshot, pod, found, entry)
        except Exception as error:
            self.faults.heard(error)
            attempt, woken = (entry.attempts, entry.woken) if entry is not None else (0, None)
            return Score(0, {}, len(found.feasible), attempt, woken)

    def way(
        self, framework: Framework, state: CycleState, pod: Pod, node: str
    ) -> tuple[Status, BindingRequests | None]:
        """Ask PreBind and Bind what is to be written."""

        def ask() -> tuple[Status, BindingRequests | None]:
            status, first, timeout = framework.pre_bind(state, pod, node)
            if not status.ok:
                return status, None
            status, last, _ = framework.bind(state, pod, node)
            return (status, BindingRequests(first, last[0], timeout)) if status.ok and last else (status, None)

        return self.faults.answer(ask)

    def prepared(self, framework: Framework, state: CycleState, pod: Pod, node: str) -> Status:
        """Ask whether what the binding waits for is there."""
        return self.faults.status(lambda: (framework.prepared(state, pod, node), {}))[0]
