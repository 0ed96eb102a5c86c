"""A bench to which things happen in any order: cycles, commits, lost answers, crashes. What comes and goes is each
machine's own.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.scheduling.bench import Bench


class AnyOrder(RuleBasedStateMachine):
    """The rules that do not depend on what is scheduled; a machine makes `bench` in its first step."""

    bench: Bench

    @rule()
    def turn(self) -> None:
        self.bench.turn()

    @precondition(lambda self: self.bench.outbox)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        self.bench.commit(data.draw(st.sampled_from(self.bench.outbox)))

    @precondition(lambda self: self.bench.outbox)
    @rule(data=st.data())
    def commit_and_lose_the_answer(self, data: st.DataObject) -> None:
        proposal = data.draw(st.sampled_from(self.bench.outbox))
        self.bench.outbox.remove(proposal)
        self.bench.append(proposal.append.events, proposal.append.expected)
        self.bench.loop.turned_down(proposal, self.bench.now)
        self.bench.take()

    @rule()
    def decide(self) -> None:
        self.bench.decide()

    @rule()
    def crash(self) -> None:
        self.bench.start()
