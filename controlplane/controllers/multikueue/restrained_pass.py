"""Keeps a pass over a Workload from writing the same again and again: what changes nothing, what somebody takes back.

In: what was written before, as the Workload's state has it (`controlplane.controllers.multikueue.told`). Out: whether a
write is added, and when to look again."""

from __future__ import annotations

from controlplane.controllers.multikueue import events
from controlplane.controllers.multikueue.told import made_for, next_repeat, next_try
from controlplane.controllers.multikueue.workload_state import WorkloadState
from controlplane.runtime import decision_pass


class RestrainedPass(decision_pass.DecisionPass[WorkloadState, events.WorkloadDecision, events.WorkloadWrite]):
    """A pass in which what did not stay is written more and more seldom."""

    def write(self, decision: events.WorkloadWrite) -> bool:
        """Add a write unless its target is busy or resting, or it would change nothing of what is there; return whether
        it was added."""
        if self.state.unneeded.get(decision.target) == decision:
            return False
        until = next_repeat(self.state.repeats.get(decision.target), decision)
        if isinstance(decision, events.CloneDecided):
            until = next_try(self.state.cloned.get(decision.cluster), made_for(decision)) or until
        if until is not None and self.now < until:
            self.wake_at(until)
            return False
        return super().write(decision)

    def may_tell(self, status: str) -> bool:
        """Whether a status, or "" that nothing runs, may be written to the user's job now, as far as it is known to
        keep it; else it is looked at again."""
        until = next_try(self.state.told, status)
        if until is None or self.now >= until:
            return True
        self.wake_at(until)
        return False
