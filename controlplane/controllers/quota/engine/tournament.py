"""In which order the workloads of a cycle are considered.

In: entries with their assignments. Out: the entries, one after the other. Without fair sharing, those that need to
borrow least come first; with it, the next one is found by a tournament in each Cohort, in which the child wins that
would have the lowest share with its workload admitted (kubernetes-sigs/kueue pkg/scheduler/fair_sharing_iterator.go).
What was admitted before changes shares only on its path to the root, so only that is played again."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from controlplane.controllers.quota.engine.entry import Entry
from controlplane.controllers.quota.engine.shares import Rank, dominant_resource_share
from controlplane.controllers.quota.engine.snapshot import QueueNode
from controlplane.controllers.quota.engine.tree import Journal, QuotaNode, add_all, rollback

Key = tuple[bool, bool, Rank, int, float, float, str]


def by_borrowing(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield entries: who waits for its victims, if that counts, then those that need no other's quota, then higher
    priorities, then who ran for longer on a cluster that was lost, then who has waited longer."""
    yield from sorted(entries, key=_classical)


def _classical(entry: Entry) -> tuple[bool, int, int, float, float, str]:
    workload = entry.info.workload
    waits = -workload.priority, -workload.lost_after, workload.queued_at
    return not entry.goes_first, entry.assignment.borrowing, *waits, entry.queue.name


def by_share(entries: Iterable[Entry], journal: Journal) -> Iterator[Entry]:
    """Yield entries as tournaments say. Whoever takes one records what it uses before the next is asked for."""
    by_root: dict[QuotaNode, list[Entry]] = {}
    for entry in entries:
        by_root.setdefault(entry.queue.root(), []).append(entry)
    for root in sorted(by_root, key=lambda node: (not node.is_queue, node.name)):
        if root.is_queue:
            yield from by_root[root]
        else:
            yield from _Tournament(root, by_root[root], journal)


class _Tournament:
    """The tournaments of one Cohort tree: for each Cohort its children, in the order of their shares."""

    def __init__(self, root: QuotaNode, entries: list[Entry], journal: Journal) -> None:
        self._root = root
        self._journal = journal
        self._left: dict[QuotaNode, Entry] = {entry.queue: entry for entry in entries}
        self._players: dict[QuotaNode, list[tuple[Key, int, QuotaNode, Entry]]] = {}
        self._turn: dict[QuotaNode, int] = {}
        self._turns = 0
        self._play_all(root)

    def __iter__(self) -> Iterator[Entry]:
        while (winner := self._winner(self._root)) is not None:
            del self._left[winner.queue]
            self._turn.pop(winner.queue)
            yield winner
            child: QuotaNode = winner.queue
            for cohort in winner.queue.ancestors():
                if child is not winner.queue:
                    self._enter(cohort, child)
                child = cohort

    def _play_all(self, cohort: QuotaNode) -> None:
        for child in cohort.cohorts.values():
            self._play_all(child)
            self._enter(cohort, child)
        for queue in cohort.queues.values():
            if queue in self._left:
                self._enter(cohort, queue)

    def _winner(self, node: QuotaNode) -> Entry | None:
        """Return who a Cohort sends into its parent's tournament; for a ClusterQueue its entry."""
        if isinstance(node, QueueNode):
            return self._left.get(node)
        players = self._players.get(node, [])
        while players and self._turn.get(players[0][2]) != players[0][1]:
            heapq.heappop(players)
        return players[0][3] if players else None

    def _enter(self, cohort: QuotaNode, child: QuotaNode) -> None:
        """Let a child play, with the entry that it sends and its share if that were admitted."""
        entry = self._winner(child)
        self._turn.pop(child, None)
        if entry is None:
            return
        savepoint = len(self._journal)
        add_all(entry.queue, entry.assignment.usage, self._journal)
        share = dominant_resource_share(child)
        rollback(self._journal, savepoint)
        self._turns += 1
        self._turn[child] = self._turns
        workload = entry.info.workload
        borrows = share.borrows_any(entry.assignment.usage)
        waits = -workload.priority, -workload.lost_after, workload.queued_at
        key = not entry.goes_first, borrows, share.rank, *waits, entry.queue.name
        heapq.heappush(self._players.setdefault(cohort, []), (key, self._turns, child, entry))
