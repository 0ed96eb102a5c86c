"""Since when in the log the objects that pods name, and our copies of them, are as they are, and are named.

In: objects before and after an event. Out: positions (`controlplane.runtime.facets`), and of them what a write to a
copy rests on. The names are `named/KIND/NS/NAME` for an object of the source, and `copies/CLUSTER/NS/KIND/NAME` for its
copy."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controlplane.controllers.candidates.references.decide import NamedObject, useless
from controlplane.controllers.candidates.references.events import CopyObserved, NamedMissing, NamedObserved
from controlplane.controllers.candidates.source.causes import CAUSES
from controlplane.controllers.candidates.source.events import CandidateWrite
from controlplane.log.event import Event
from controlplane.runtime.facets import Facets, cause_of, changes, newest

Named = NamedObserved | NamedMissing
NAMED: Facets[Event] = {
    "version": lambda seen: seen.resource_version if isinstance(seen, NamedObserved) else "",
    "useless": lambda seen: (
        seen.message if isinstance(seen, NamedMissing) else useless(getattr(seen, "type", "")) or None
    ),
}


class CopyFacets:
    """The positions of all named objects and copies. `cluster` is the source's name, which our copies carry, and
    `known_as` what the cluster is known by."""

    GIVEN = ("_copy",)

    def __init__(self, cluster: str, known_as: Callable[[], str]) -> None:
        self._positions: dict[str, int] = {}
        self._named: dict[str, Named] = {}
        self._copy: Facets[CopyObserved] = {
            "copy": lambda seen: (seen.uid, seen.followed, seen.mark, seen.source_uid),
            "gone": lambda seen: seen.uid,
            "foreign": lambda seen: seen.mark != cluster or seen.source_uid != (known_as() or seen.source_uid) or None,
        }

    def named(self, stream: str, after: Named, position: int) -> None:
        """Take note of an object of the source as an event shows it."""
        self._positions |= changes(stream, NAMED, self._named.get(stream), after, position)
        self._named[stream] = after

    def copied(self, copy: str, before: CopyObserved | None, after: CopyObserved | None, position: int) -> None:
        """Take note of a copy as it was before and is after an event."""
        self._positions |= changes(copy, self._copy, before, after, position)

    def refused(self, copy: str, position: int) -> None:
        """Take note that an API server said no to a write to a copy, or that this is over."""
        self._positions[f"{copy}.refused"] = position

    def wanted(self, there: str, refs: Iterable[NamedObject], position: int) -> None:
        """Take note that a namespace of a target now has pods that name these objects, or has none any more."""
        self._positions |= {f"{there}/{ref.kind}/{ref.name}.wanted": position for ref in refs}

    def forget(self, namespace: str, target: str, streams: Iterable[str]) -> None:
        """Forget an object (kind and name) of a namespace, and its copies in the namespaces of targets."""
        named = f"named/{target.partition('/')[0]}/{namespace}/{target.partition('/')[2]}"
        self._named.pop(named, None)
        for key in [f"{named}.{facet}" for facet in NAMED]:
            self._positions.pop(key, None)
        for key in [f"{stream}/{target}.{facet}" for stream in streams for facet in (*self._copy, "refused", "wanted")]:
            self._positions.pop(key, None)

    def cause(self, stream: str, write: CandidateWrite) -> int:
        """Return the event that a write to a copy rests on; 0 if none is known."""
        kind, _, name = write.target.partition("/")
        words = {"object": (f"named/{kind}/{stream.split('/')[2]}/{name}",), "copy": (f"{stream}/{write.target}",)}
        return cause_of(CAUSES, write, self._positions, words)

    def obstacles(self, named: Iterable[tuple[str, NamedObject]]) -> int:
        """Return the last event that put something in the way of an object that is named in a namespace of a target, or
        took it away.
        """
        found = []
        for there, ref in named:
            source, copy = f"named/{ref.kind}/{there.split('/')[2]}/{ref.name}", f"{there}/{ref.kind}/{ref.name}"
            found += [f"{source}.useless", f"{copy}.foreign", f"{copy}.refused"]
            if isinstance(self._named.get(source), NamedMissing):
                found.append(f"{copy}.gone")  # the copy is of use until it is removed
        return newest(self._positions, found)
