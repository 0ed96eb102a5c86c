"""What follows a pod to its targets: the ConfigMaps and Secrets that it names, and what else it needs and may have
there.

In: what source pods name (their own events), the named objects and our copies, by their metadata alone. Out: copies to
be written and removed, and for the pods' own conditions what cannot follow. Streams: `named/KIND/NS/NAME` for an object
of the source, `copies/CLUSTER/NS` for our copies in a namespace of a target. What to do is decided by `follow`; the
data is read when a copy is written, by whoever carries it out (docs/decisions/0019)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from controlplane.controllers.candidates.objects import ALLOWED, ALWAYS, FOLLOWED, PODS, live_ref
from controlplane.controllers.candidates.references import decide as follow
from controlplane.controllers.candidates.references.decide import KnownCopy, NamedObject
from controlplane.controllers.candidates.references.events import (
    COPY_EVENTS,
    CopyDecided,
    CopyGone,
    CopyObserved,
    NamedMissing,
    NamedObserved,
)
from controlplane.controllers.candidates.references.facets import CopyFacets
from controlplane.controllers.candidates.references.objects_there import Key, ObjectsThere, needed_by
from controlplane.controllers.candidates.references.ours import known_copy
from controlplane.controllers.candidates.references.target_namespace import TargetNamespace, fold
from controlplane.controllers.candidates.references.writes import decisions_of, request_of
from controlplane.controllers.candidates.source.controller import SourceController
from controlplane.controllers.candidates.source.events import (
    CandidateWrite,
    CandidateWriteFailed,
    CandidateWriteUnneeded,
)
from controlplane.controllers.connectivity.events import MANAGEMENT, ClusterRestored
from controlplane.controllers.connectivity.versions import ResourceVersionTracker, ShownVersion
from controlplane.kube.kinds import Kind, Request, meta
from controlplane.log.event import Event, NewEvent, Recorded, Unknown
from controlplane.runtime.controller import Decided, ObjectChange, OpenWrite
from controlplane.runtime.writes import WritingController

NAMED, COPIES = "named", "copies"
OWNS = frozenset({NAMED, COPIES})
HEARS = frozenset({"sourcepod", "cluster"})
_replace = msgspec.structs.replace


class ReferenceController(WritingController[CandidateWrite]):
    """See the module. `placing` is folded before this, and says who is placed where."""

    types: Sequence[type[Event]] = (*COPY_EVENTS, CandidateWriteFailed, CandidateWriteUnneeded)
    FAILED, UNNEEDED = CandidateWriteFailed, CandidateWriteUnneeded

    GIVEN = ("_placing", "_cluster", "watch_changed", "_objects", "_now", "_late_until")

    def __init__(self, placing: SourceController) -> None:
        self._placing, self._cluster = placing, placing.policy.cluster
        self.named: dict[tuple[str, str, str], NamedObserved | None] = {}
        self.newest = ResourceVersionTracker(_shown)
        self.watch_changed = True
        self._now, self._late_until = _BEGINNING, _BEGINNING
        self._there: dict[str, TargetNamespace] = {}
        self._where: dict[str, dict[str, frozenset[NamedObject]]] = {}
        self._users: dict[str, set[str]] = {}
        self._dirty: dict[str, None] = {}
        self._missing: dict[tuple[str, str, str], str] = {}
        self._known_as = ""
        self._facets = CopyFacets(self._cluster, placing.who_we_are)
        self._told: dict[str, dict[Key, str]] = {}
        self._objects = ObjectsThere(self._named_in, self._copied_in, self._look)
        placing.obstacles_of, placing.obstacles_at = self.obstacles, self.obstacles_at

    # --- what was seen -----------------------------------------------------------------------------------------------

    def observe(self, change: ObjectChange, now: datetime) -> NewEvent | None:
        """Return the event of a named object or of a copy; None if it concerns nobody."""
        kind, head = next((name for name, kind in FOLLOWED.items() if kind == change.kind), ""), meta(change.object)
        namespace, name, uid = (str(head.get(key, "")) for key in ("namespace", "name", "uid"))
        if not kind or self._is_anothers(change, kind, namespace, name):
            return None
        known = follow.known(kind, change.object)
        last: dict[str, Any] = {"namespace": namespace, "name": name, "kind": kind}
        shown = {**last, "uid": uid, "resource_version": change.resource_version}
        event: Event
        if change.cluster == MANAGEMENT:
            stream = f"{NAMED}/{kind}/{namespace}/{name}"
            missing = NamedMissing(**last, message="it was deleted")
            event = missing if change.gone else NamedObserved(**shown, type=known.type, unfit=known.unfit)
        else:
            stream = f"{COPIES}/{change.cluster}/{namespace}"
            copy = CopyObserved(**shown, mark=known.mark, followed=known.followed, source_uid=known.source_uid)
            event = CopyGone(**shown) if change.gone else copy
        new = change.observed(stream, event, now)
        if change.cluster == MANAGEMENT and (kind, namespace, name) not in self.named:
            # The log may have this very version, of which nothing is known any more here: it is to have it again.
            new = _replace(new, source="", mark=0)
        return new

    def _is_anothers(self, change: ObjectChange, kind: str, namespace: str, name: str) -> bool:
        """Whether an object is shown for another controller, which watches the same kind."""
        if change.cluster == MANAGEMENT:
            if kind not in ALLOWED or (kind, namespace, name) in self.named:
                return False
            users = (there for there in self._users if there.split("/")[2] == namespace)
            return not any(self._objects.needs(there, (kind, name)) for there in users)
        there = self._at(f"{COPIES}/{change.cluster}/{namespace}")
        return not follow.known(kind, change.object).mark and (not change.gone or kind in ALLOWED.keys() - there.kinds)

    def _at(self, stream: str) -> TargetNamespace:
        return self._there.get(stream, TargetNamespace())

    def missing(self, kind: str, namespace: str, name: str, message: str) -> NewEvent | None:
        """Return the event of a named object that a list does not contain; None if that is known."""
        if self.named.get((kind, namespace, name), _UNKNOWN) is None:
            return None
        event = NamedMissing(kind=kind, namespace=namespace, name=name, message=message)
        return NewEvent(stream=f"{NAMED}/{kind}/{namespace}/{name}", event=event, cluster=MANAGEMENT)

    def fold(self, recorded: Recorded) -> None:
        """Take one more event, in the log's order."""
        self.newest.fold(recorded)
        kind, _, name = recorded.stream.partition("/")
        if kind == "sourcepod":
            self._fold_source(recorded.stream, recorded.position)
        elif kind == "cluster":
            self._fold_cluster(name, recorded)
        elif kind == NAMED:
            event = recorded.event
            if isinstance(event, (NamedObserved, NamedMissing)):
                key = (event.kind, event.namespace, event.name)
                self.named[key] = event if isinstance(event, NamedObserved) else None
                self._facets.named(recorded.stream, event, recorded.position)
                self._missing[key] = event.message if isinstance(event, NamedMissing) else ""
                for there in (s for s in self._streams() if s.split("/")[2] == event.namespace):
                    self._objects.changed(there, [(event.kind, event.name)])
                    self._dirty[there] = None
                self._tidy(event.namespace, [(event.kind, event.name)])
        elif kind == COPIES:
            self._fold_copy(recorded)

    def _fold_cluster(self, cluster: str, recorded: Recorded) -> None:
        """Copies that had gone may be back: where there were some, they are watched from now on. And what is ours goes
        by what our cluster is known by."""
        self._dirty.update(dict.fromkeys(s for s in self._streams() if cluster in (MANAGEMENT, s.split("/")[1])))
        if self._known_as != (known_as := self._placing.who_we_are()):
            self._known_as = known_as
            self._objects.look_again()
        if not isinstance(recorded.event, ClusterRestored):
            return
        for stream, there in self._there.items():
            if stream.split("/")[1] == cluster:
                self._there[stream] = _replace(there, restored=True)
                self.watch_changed = True

    def _streams(self) -> list[str]:
        return sorted({*self._there, *self._users})

    def _fold_source(self, stream: str, position: int) -> None:
        """Note where a source pod may run, and what it names."""
        self._note_unknown(stream)
        now, before = needed_by(self._placing.sources.get(stream)), self._where.get(stream, {})
        if now == before:
            return
        self.watch_changed = True
        for there in {**before, **now}:  # in an order that does not change from run to run
            old, new, users = before.get(there, _NOBODY), now.get(there, _NOBODY), self._users.setdefault(there, set())
            known = self._objects.needed(there)
            # Of what others name too, it is no news.
            self._facets.wanted(there, [ref for ref in old ^ new if known.get(ref, 0) == (ref in old)], position)
            users.add(stream) if there in now else users.discard(stream)
            if not users:
                del self._users[there]
            self._objects.renamed(there, old, new)
            self._dirty[there] = None
            self._tidy(there.split("/")[2], ((ref.kind, ref.name) for ref in old - new))
        self._where.pop(stream, None)
        if now:
            self._where[stream] = now

    def _note_unknown(self, stream: str) -> None:
        """A candidate that a log which was lost had asked for may have had copies, also if its pod is gone."""
        state = self._placing.sources.get(stream)
        if state is None:
            return
        for known in state.candidates.values():
            if known.seen is None or known.asked:
                continue
            place = f"{COPIES}/{known.cluster}/{state.namespace}"
            there = self._at(place)
            kinds = there.kinds | set(known.seen.follows)
            if not there.restored or kinds != there.kinds:
                self._there[place] = _replace(there, restored=True, kinds=kinds)
                self.watch_changed = True

    def _fold_copy(self, recorded: Recorded) -> None:
        before, event = self._at(recorded.stream), recorded.event
        there = self._there[recorded.stream] = fold(before, recorded)
        if isinstance(event, (CopyObserved, CopyGone)):
            key = f"{event.kind}/{event.name}"
            seen = event if isinstance(event, CopyObserved) else None
            self._facets.copied(f"{recorded.stream}/{key}", before.copies.get(key), seen, recorded.position)
            if key in before.trouble:
                self._facets.refused(f"{recorded.stream}/{key}", recorded.position)
            self._objects.changed(recorded.stream, [(event.kind, event.name)])
        elif isinstance(event, CandidateWriteFailed) and there.trouble != before.trouble:
            self._facets.refused(f"{recorded.stream}/{event.target}", recorded.position)
        self._tidy_after(recorded.stream, event)
        if not there.copies and not there.effects:
            self.watch_changed = True
        self._dirty[recorded.stream] = None

    def _tidy_after(self, stream: str, event: Event | Unknown) -> None:
        """Forget an object if what was told of its copy leaves nothing of that."""
        target = getattr(event, "target", "")  # of a write that ended
        if isinstance(event, (CopyObserved, CopyGone)):
            target = f"{event.kind}/{event.name}"
        kind, _, name = target.partition("/")
        if target and not self._objects.needs(stream, (kind, name)):
            self._tidy(stream.split("/")[2], [(kind, name)])

    def _tidy(self, namespace: str, keys: Iterable[Key]) -> None:
        """Forget objects that no pod names any more, once there is nothing left of their copies."""
        streams = [stream for stream in self._streams() if stream.split("/")[2] == namespace]
        for kind, name in keys:
            target = f"{kind}/{name}"
            if any(self._objects.needs(one, (kind, name)) or self._at(one).concerns(target) for one in streams):
                continue
            self.named.pop((kind, namespace, name), None)
            self._missing.pop((kind, namespace, name), None)
            self._facets.forget(namespace, target, streams)

    def take_dirty(self) -> list[str]:
        """Return the streams to decide about since the last call."""
        dirty, self._dirty = list(self._dirty), {}
        for stream in dirty:
            found, before = self._in_the_way(stream), self._told.get(stream, {})
            if found != before:
                self._told[stream] = found
                changed = {key for key, _ in found.items() ^ before.items()}
                users = (user for user in self._users.get(stream, ()) if self._names(user, stream, changed))
                self._placing.touch(sorted(users))
            if not found:
                self._told.pop(stream, None)
        return dirty

    def _names(self, user: str, there: str, keys: Collection[Key]) -> bool:
        return any((ref.kind, ref.name) in keys for ref in self._where[user][there])

    # --- what is in the way ------------------------------------------------------------------------------------------

    def obstacles(self, pod: str) -> str:
        """Return which of the objects that a pod names are not with it, and why; "" if all are, or will be."""
        said = set()
        for there, names in self._where.get(pod, {}).items():
            found = self._in_the_way(there)
            keys = ((ref.kind, ref.name) for ref in names)
            said |= {f"{kind} {name}: {found[kind, name]}" for kind, name in keys if (kind, name) in found}
        return "; ".join(sorted(said))

    def _in_the_way(self, stream: str) -> dict[Key, str]:
        """Return what cannot be copied to a namespace of a target, and why: it is not there, is of no use, or the
        target says no.
        """
        if stream not in self._users:
            return {}
        there, namespace = self._at(stream), stream.split("/")[2]
        found = {}
        for obstacle in self._objects.following(stream).obstacles:
            why = self._missing.get((obstacle.kind, namespace, obstacle.name), "")
            found[obstacle.kind, obstacle.name] = obstacle.why if why in ("", *_GONE) else why
        for target, failure in there.trouble.items():
            kind, _, name = target.partition("/")
            if failure.error != "Foreign":
                found[kind, name] = failure.message
            elif (kind, name) not in found:
                found[kind, name] = follow.FOREIGN
        return found

    # --- what is watched ---------------------------------------------------------------------------------------------

    def _named_in(self, there: str) -> Iterable[Iterable[NamedObject]]:
        """Yield what each pod that is placed in a namespace of a target names."""
        return (self._where[stream][there] for stream in self._users.get(there, ()))

    def _copied_in(self, there: str) -> Iterable[Key]:
        return ((copy.kind, copy.name) for copy in self._at(there).copies.values())

    def wanted(self) -> set[tuple[str, str, str]]:
        """Return the objects of the source that are to be followed: kind, namespace, name."""
        return {
            (ref.kind, there.split("/")[2], ref.name) for there in self._users for ref in self._objects.needed(there)
        }

    def watched(self) -> dict[str, set[str]]:
        """Return the namespaces, by target, in which there are copies, or may come to be by the time of the last
        decision."""
        found: dict[str, set[str]] = {}
        late = {s: one.late_until for s, one in self._there.items() if one.late_until and one.late_until > self._now}
        self._late_until = min(late.values(), default=_BEGINNING)
        for stream in self._streams():
            if stream in self._users or stream in late or self._at(stream).may_hold_copies:
                _, cluster, namespace = stream.split("/")
                found.setdefault(cluster, set()).add(namespace)
        return found

    def kinds(self, cluster: str, namespace: str) -> list[Kind]:
        """Return the kinds of which there are copies in a namespace of a target, or may come to be."""
        stream = f"{COPIES}/{cluster}/{namespace}"
        there = self._at(stream)
        kinds = {ref.kind for ref in self._objects.needed(stream)} | there.kinds
        return [*ALWAYS.values(), *(kind for name, kind in ALLOWED.items() if name in kinds)]

    def known(self, cluster: str, kind: str) -> dict[str, tuple[str, str, str]]:
        """Return what the log says exists of a kind on a cluster: UID to (namespace, name, resourceVersion)."""
        found: Iterable[NamedObserved | CopyObserved]
        if cluster == MANAGEMENT:
            found = [seen for seen in self.named.values() if seen is not None]
        else:
            mine = (there for stream, there in self._there.items() if stream.split("/")[1] == cluster)
            found = [copy for there in mine for copy in there.copies.values()]
        of_kind = [one for one in found if FOLLOWED[one.kind].name == kind]
        return {one.uid: (one.namespace, one.name, one.resource_version) for one in of_kind}

    # --- what follows ------------------------------------------------------------------------------------------------

    def decide(self, stream: str, now: datetime) -> Decided:
        """Return what follows for our copies in a namespace of a target."""
        if not stream.startswith(f"{COPIES}/"):
            return Decided()
        there, self._now = self._at(stream), now
        self.watch_changed |= _BEGINNING < self._late_until <= now
        home = self._placing.connections.get(MANAGEMENT)
        if home is None or not home.in_view(PODS.name):
            return Decided((), there.version)
        cluster = stream.split("/")[1]
        wanted = decisions_of(self._objects.following(stream), cluster, self._placing.who_we_are())
        decisions = [decision for decision in wanted if decision.target not in there.effects]
        resting = {target: failure.until for target, failure in there.trouble.items() if failure.until > now}
        events = [
            NewEvent(stream=stream, event=d, cluster=cluster, caused_by=self._facets.cause(stream, d) or there.position)
            for d in decisions
            if d.target not in resting
        ]
        wakes = [resting[decision.target] for decision in decisions if decision.target in resting]
        wakes += [there.late_until] if there.late_until is not None and there.late_until > now else []
        return Decided(events, there.version, min(wakes, default=None))

    def obstacles_at(self, pod: str) -> int:
        """Return the last event that put something in the way of an object that a pod names, or took it away; 0 if
        there is none.
        """
        return self._facets.obstacles((there, ref) for there, refs in self._where.get(pod, {}).items() for ref in refs)

    def _look(self, stream: str, key: Key) -> follow.Following:
        """Return what is to be done about an object in a namespace of a target, by what was seen."""
        (kind, name), needed = key, self._objects.needs(stream, key)
        place = kind, stream.split("/")[2], name
        if needed and place not in self.named:
            return follow.Following()  # of what was not looked at yet nothing is known, also not that its copy may go
        one, known, target = self.named.get(place), self._at(stream), f"{kind}/{name}"
        copy, written = known.copies.get(target), known.written.get(target, frozenset())
        here = [KnownCopy(kind, name, one.uid, one.resource_version, type=one.type, unfit=one.unfit)] if one else []
        there = [known_copy(copy, one, written, self._placing.who_we_are())] if copy else []
        return follow.follow(needed, here, there, self._cluster, in_view=True)

    # --- what is open ------------------------------------------------------------------------------------------------

    def _writes(self, stream: str) -> TargetNamespace | None:
        return self._there.get(stream)

    def bodies_needed(self, write: OpenWrite) -> Sequence[str]:
        """Return the ref of the source's object, which is read as it now is: it is in no log."""
        decision = self._decision(write)
        namespace = write.stream.split("/")[2]
        return [live_ref(decision.kind, namespace, decision.name)] if isinstance(decision, CopyDecided) else []

    def request(self, write: OpenWrite, bodies: Mapping[str, bytes], now: datetime) -> Request | None:
        """Return the request that carries a write out; None if what is to be copied is not there any more."""
        return request_of(self._decision(write), write.stream.split("/")[2], bodies, self._cluster)

    def announcement(self, write: OpenWrite, now: datetime) -> Request | None:
        """Say nothing: the log has it, and the pod does not wait for it."""


_BEGINNING = datetime.min.replace(tzinfo=UTC)
_NOBODY: frozenset[NamedObject] = frozenset()
_GONE = ("it was deleted", "there is none")  # nothing that the obstacle itself does not say
_UNKNOWN = NamedObserved(name="", uid="", resource_version="", kind="")


def _shown(event: Event) -> ShownVersion | None:
    if isinstance(event, (NamedObserved, CopyObserved)):
        return ShownVersion(FOLLOWED[event.kind].name, event.resource_version)
    # A name that is taken again has another UID; a copy that lost our label may get it back.
    return ShownVersion(FOLLOWED[event.kind].name, event.resource_version) if isinstance(event, CopyGone) else None
