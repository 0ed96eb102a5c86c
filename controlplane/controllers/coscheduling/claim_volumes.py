"""Keeps where the volumes of runs' claims can be reached from.

In: observations of PersistentVolumes, and runs as they are folded. Out: for a run, the volumes of its claims, and since
when that is so; for a volume, whose runs it concerns."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.controllers.coscheduling import observations
from controlplane.controllers.coscheduling.placement.volumes import BoundVolume
from controlplane.controllers.coscheduling.state import RunState
from controlplane.log.event import Recorded
from controlplane.runtime.observations import is_end_of_another

_Place = tuple[str, str]  # namespace and name of a claim


class ClaimVolumes:
    """The volumes that are not reached from every node, by the claim that has them."""

    def __init__(self) -> None:
        self._volumes: dict[str, BoundVolume] = {}
        self._uids: dict[str, str] = {}
        self._of: dict[_Place, str] = {}
        self._since: dict[_Place, int] = {}
        self._uses: dict[str, tuple[_Place, ...]] = {}
        self._users: dict[_Place, dict[str, None]] = {}

    def note(self, stream: str, state: RunState) -> None:
        """Take a run as it is now: which claims it uses."""
        current = state.current
        run = current.run if current is not None else None
        names = [one.claim for one in run.workspaces if one.claim] if run is not None else []
        names += [claim.name for claim in state.claims.values()]
        found = tuple((state.namespace, name) for name in dict.fromkeys(names))
        if self._uses.get(stream, ()) == found:
            return
        self.forget(stream)
        if found:
            self._uses[stream] = found
        for place in found:
            self._users.setdefault(place, {})[stream] = None

    def forget(self, stream: str) -> None:
        """Drop a run of which nothing is left."""
        for place in self._uses.pop(stream, ()):
            users = self._users.get(place, {})
            users.pop(stream, None)
            if not users:
                self._users.pop(place, None)

    def fold(self, recorded: Recorded, name: str) -> list[str]:
        """Take an event of a volume; return the streams of the runs that it concerns."""
        event = recorded.event
        if is_end_of_another(self._uids, name, event):
            return []
        before, places = self._volumes.pop(name, None), []
        if before is not None:
            place = before.namespace, before.claim
            places.append(place)
            if self._of.get(place) == name:
                del self._of[place]
        if isinstance(event, observations.VolumeObserved) and event.claim:
            volume = BoundVolume(name=name, namespace=event.claim_namespace, claim=event.claim, terms=event.terms)
            self._volumes[name] = volume
            place = volume.namespace, volume.claim
            self._of[place] = name
            places.append(place)
        for place in places:
            self._since[place] = recorded.position
        return [stream for place in places for stream in self._users.get(place, ())]

    def of(self, stream: str) -> Mapping[str, BoundVolume]:
        """Return the volumes of a run's claims, by claim."""
        places = [place for place in self._uses.get(stream, ()) if place in self._of]
        return {name: self._volumes[self._of[namespace, name]] for namespace, name in places}

    def since(self, stream: str) -> int:
        """Return the position since which the volumes of a run are as they are."""
        return max((self._since.get(place, 0) for place in self._uses.get(stream, ())), default=0)
