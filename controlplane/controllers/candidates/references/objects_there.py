"""Keeps, object by object, which of them are named in a namespace of a target, and what is to be done about each.

In: what pods name, as it changes, and which objects to look at again. Out: counts, and `Following`. What is kept is
made of the fold's own anew where it is not there, and is no part of it: thousands of pods in a namespace each name an
object of their own, and an event about one is to cost no look at all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from controlplane.controllers.candidates.references.decide import Following, NamedObject
from controlplane.controllers.candidates.source.state import SourceState

Key = tuple[str, str]
"""Kind and name of an object."""
_NOTHING = Following()


class ObjectsThere:
    """See the module. `named` tells what each pod names in a namespace of a target, `copies` which objects have a copy
    there, `look` what is to be done about one."""

    def __init__(
        self,
        named: Callable[[str], Iterable[Iterable[NamedObject]]],
        copies: Callable[[str], Iterable[Key]],
        look: Callable[[str, Key], Following],
    ) -> None:
        self._of_pods, self._copies, self._look = named, copies, look
        self._needed: dict[str, dict[NamedObject, int]] = {}
        self._found: dict[str, dict[Key, Following]] = {}
        self._stale: dict[str, dict[Key, None]] = {}

    def needed(self, there: str) -> Mapping[NamedObject, int]:
        """Return how many pods name each object."""
        known = self._needed.get(there)
        if known is None:
            known = self._needed[there] = {}
            for refs in self._of_pods(there):
                _count(known, refs, 1)
        return known

    def needs(self, there: str, key: Key) -> list[NamedObject]:
        """Return how an object is named: with need, as an option, both, or not at all."""
        known = self.needed(there)
        both = (NamedObject(key[0], key[1], optional) for optional in (False, True))  # type: ignore[arg-type]
        return [ref for ref in both if ref in known]

    def renamed(self, there: str, before: frozenset[NamedObject], after: frozenset[NamedObject]) -> None:
        """Take note of what a pod names now, and named before; of what nobody names nothing is kept."""
        if (known := self._needed.get(there)) is not None:
            _count(known, after - before, 1)
            _count(known, before - after, -1)
            if not known:
                del self._needed[there]
        self.changed(there, [(ref.kind, ref.name) for ref in before ^ after])

    def changed(self, there: str, keys: Iterable[Key]) -> None:
        """Look at objects again."""
        if there in self._found:
            self._stale.setdefault(there, {}).update(dict.fromkeys(keys))

    def look_again(self) -> None:
        """Look at all objects again, where they are asked about next."""
        self._found.clear()
        self._stale.clear()

    def following(self, there: str) -> Following:
        """Return what is to be done in a namespace of a target."""
        found = self._looked(there)
        if not found and not self.needed(there):
            self._needed.pop(there, None)
            del self._found[there]
        each = [found[key] for key in sorted(found)]
        return Following(
            tuple(copy for one in each for copy in one.copies),
            tuple(removal for one in each for removal in one.removals),
            tuple(obstacle for one in each for obstacle in one.obstacles),
        )

    def _looked(self, there: str) -> Mapping[Key, Following]:
        """Return the objects about which something is to be done, after a look at those that have changed; at all of
        them the first time."""
        stale: Iterable[Key] = self._stale.pop(there, ())
        if there not in self._found:
            stale = {*((ref.kind, ref.name) for ref in self.needed(there)), *self._copies(there)}
        found = self._found.setdefault(there, {})
        for key in stale:
            if (one := self._look(there, key)) == _NOTHING:
                found.pop(key, None)
            else:
                found[key] = one
        return found


def _count(known: dict[NamedObject, int], refs: Iterable[NamedObject], by: int) -> None:
    for ref in refs:
        known[ref] = known.get(ref, 0) + by
        if not known[ref]:
            del known[ref]


def needed_by(state: SourceState | None) -> dict[str, frozenset[NamedObject]]:
    """Return what a source pod names, by the namespaces of targets in which it may run."""
    found: dict[str, frozenset[NamedObject]] = {}
    if state is None or state.pod is None:
        return found
    for known in state.candidates.values():
        seen = known.seen
        asked = seen is not None and not seen.deleting and (known.uid, known.epoch) == (state.uid, state.epoch)
        allowed = seen.follows if seen is not None and (asked or known.may_run) else ()
        # What is allowed is needed before the Pod can be made there; the rest, where it runs.
        names = [
            *(state.pod.references if known.may_run else ()),
            *(n for n in state.pod.needs if n.kind in allowed),
        ]
        there = f"copies/{known.cluster}/{state.namespace}"
        if names:
            found[there] = found.get(there, frozenset()) | frozenset(names)
    return found
