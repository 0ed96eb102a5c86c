"""Tells in which namespaces jobs are looked after, and in which of them also those that name no queue.

In: the events of namespaces, in the log's order, and the settings. Out: yes or no; of a namespace that is not known it
is no. Pure. Source: `managedJobsNamespaceSelector` and `manageJobsWithoutQueueName` (kubernetes-sigs/kueue
pkg/controller/jobframework/reconciler.go, utils.go, ff69552e)."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.controllers.jobframework.context import JobFrameworkPolicy
from controlplane.controllers.jobframework.names import WORD
from controlplane.controllers.jobframework.namespace_events import JobNamespaceGone, JobNamespaceObserved
from controlplane.kube.selectors import parse_selector
from controlplane.log.event import Recorded

STREAM = f"{WORD}/namespace/"


class ManagedNamespaces:
    """The namespaces that were seen, if the settings ask for that. `changed`: those that are looked after otherwise
    than before, whose jobs nobody was told of yet."""

    GIVEN = ("policy",)

    def __init__(self, policy: JobFrameworkPolicy) -> None:
        self.policy = policy
        self.seen: dict[str, JobNamespaceObserved] = {}
        self.changed: dict[str, None] = {}

    def fold(self, recorded: Recorded) -> None:
        """Take one more event of a namespace."""
        event = recorded.event
        if not isinstance(event, JobNamespaceObserved | JobNamespaceGone):
            return
        before = self.selected(event.name), self.all_of(event.name)
        if isinstance(event, JobNamespaceObserved):
            self.seen[event.name] = event
        elif event.name in self.seen and self.seen[event.name].uid == event.uid:
            del self.seen[event.name]
        if (self.selected(event.name), self.all_of(event.name)) != before:
            self.changed[event.name] = None

    def concerned(self, streams: Iterable[str]) -> list[str]:
        """Return the streams of the jobs that namespaces concern which have changed since the last call: all of them
        are looked for at once."""
        changed, self.changed = self.changed, {}
        return [one for one in streams if one.split("/")[3] in changed] if changed else []

    def selected(self, namespace: str) -> bool:
        """Whether jobs of a namespace are looked after."""
        if not self.policy.namespaces:
            return True
        found = self.seen.get(namespace)
        return found is not None and parse_selector(self.policy.namespaces).matches(found.labels)

    def all_of(self, namespace: str) -> bool:
        """Whether jobs of a namespace are looked after that name no queue."""
        return self.policy.may_manage(namespace) and namespace in self.seen and self.selected(namespace)
