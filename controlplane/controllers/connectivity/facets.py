"""Keeps since when in the log the connections of clusters are as they are: lost, given up, each kind in view or off.

In: connections before and after an event. Out: positions `cluster/NAME.FACET` (`controlplane.runtime.facets`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controlplane.controllers.connectivity.events import cluster_stream
from controlplane.controllers.connectivity.state import Connection
from controlplane.runtime.facets import Facets, changes, newest

LOST: Facets[Connection] = {
    "lost": lambda state: state.lost_since is None,
    "forgotten": lambda state: state.forgotten,
}


class ConnectionFacets:
    """The positions of all connections, and of each kind on them (`cluster/NAME/KIND.view`)."""

    GIVEN = ("_facets",)

    def __init__(self, facets: Facets[Connection] = LOST) -> None:
        self._facets = facets
        self._before: dict[str, Connection] = {}
        self._positions: dict[str, int] = {}
        self._newest: dict[str, int] = {}

    @property
    def positions(self) -> dict[str, int]:
        """All of them."""
        return self._positions

    @property
    def newest_by_cluster(self) -> Mapping[str, int]:
        """The newest mark of each connection, by the name of the cluster."""
        return self._newest

    def fold(self, connections: Mapping[str, Connection], names: Iterable[str], position: int) -> None:
        """Take note of some connections as they are after an event."""
        for name in names:
            before, after = self._before.get(name), connections.get(name)
            if after is None or after is before:
                continue
            stream = cluster_stream(name)
            was, now = _shown(before), _shown(after)
            changed = changes(stream, self._facets, before, after, position)
            changed |= {f"{stream}/{kind}.view": position for kind, _ in was.items() ^ now.items()}
            if changed:
                self._positions |= changed
                self._newest[name] = position
            self._before[name] = after

    def of(self, name: str, kinds: Iterable[str]) -> dict[str, int]:
        """Return a cluster's positions for whoever looks at some kinds there: `NAME.view`, `NAME.lost` and
        `NAME.forgotten`.
        """
        stream = cluster_stream(name)
        view = newest(self._positions, [f"{stream}/{kind}.view" for kind in kinds])
        return {
            f"{name}.view": view,
            **{f"{name}.{facet}": self._positions.get(f"{stream}.{facet}", 0) for facet in LOST},
        }


def _shown(state: Connection | None) -> dict[str, str]:
    """Return what a cluster shows: each kind that is in view, and why another is off."""
    if state is None or not state.connected:
        return {}
    return {**dict.fromkeys(state.synced, ""), **state.off}
