"""The log of a scene in which one controller is tried without a database.

In: new events. Out: what whoever folds them is given, decoded as it would be by a reader of the log."""

from __future__ import annotations

from datetime import datetime

from controlplane.log.codec import Codec
from controlplane.log.event import NewEvent, Recorded


class SceneLog:
    """What has been recorded, and how far each stream is."""

    codec: Codec
    now: datetime
    log: list[Recorded]
    versions: dict[str, int]

    def appended(self, new: NewEvent) -> Recorded:
        """Append an event, and return it as it is read. It has to survive that, and its cause to come before it."""
        self.versions[new.stream] = self.versions.get(new.stream, 0) + 1
        recorded = Recorded(
            position=len(self.log) + 1,
            stream=new.stream,
            version=self.versions[new.stream],
            event=self.codec.decode(*self.codec.encode(new.event)),
            cluster=new.cluster,
            caused_by=new.caused_by,
            recorded_at=self.now,
        )
        assert recorded.event == new.event
        assert 0 <= new.caused_by < recorded.position
        self.log.append(recorded)
        return recorded
