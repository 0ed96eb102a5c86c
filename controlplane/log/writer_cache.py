"""What the writer of a log knows of it, so that the database need not be asked: where it ends, the version of each
stream and the highest mark of each source that this writer used lately.

In: what the database answered, and what was committed. Out: versions and marks, None where the database has to be
asked. All of it is true only as long as nobody else appends: the database compares `position` with the end of the log
at each append, and writes nothing if they differ."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

REMEMBERED = 32_768
"""Of so many streams, and of so many sources, what was used last is remembered."""
MERGED_AT = 4096
"""With so many sources whose marks are only in the rows of their commits, these are merged."""


class WriterCache:
    """See the module. `position` is None where the end of the log is not known. `meets_new`: what it did not know
    lately, the log had not either, so that many names that it does not know are likely to be new too."""

    __slots__ = ("_marks", "_unmerged", "_versions", "meets_new", "position")

    def __init__(self) -> None:
        self.position: int | None = None
        self.meets_new = False
        # The oldest is taken out of an OrderedDict in constant time; in a dict that is a search past all that went
        # before.
        self._versions: OrderedDict[str, int] = OrderedDict()
        self._marks: OrderedDict[str, int] = OrderedDict()
        self._unmerged: set[str] = set()

    def clear(self) -> None:
        """Forget everything: the log went on without us."""
        self.position, self.meets_new = None, False
        self._versions.clear()
        self._marks.clear()
        self._unmerged.clear()

    def version(self, stream: str) -> int | None:
        """Return the version of a stream, 0 for one that the log does not have."""
        return self._versions.get(stream)

    def mark(self, source: str) -> int | None:
        """Return the highest mark of a source, -1 for one that the log does not have."""
        return self._marks.get(source)

    @property
    def wants_merging(self) -> bool:
        """Whether the database should bring its marks up to date: nobody knows what it lacks, or it lacks many."""
        return self.position is None or len(self._unmerged) >= MERGED_AT

    def answered(self, position: int, versions: Mapping[str, int], marks: Mapping[str, int], *, merged: bool) -> None:
        """Take what the database said: where the log ends, and what was asked. Of a log that went on without us all is
        asked anew: its table of marks may lack those of whoever appended.
        """
        if self.position not in (None, position):
            self.clear()
            if not merged:
                return
        self.position = position
        self._versions.update(versions)
        self._marks.update(marks)
        if versions or marks or not position:
            self.meets_new = not any(versions.values()) and all(mark < 0 for mark in marks.values())
        if merged:
            self._unmerged.clear()

    def wrote(self, position: int, versions: Mapping[str, int], marks: Mapping[str, int]) -> None:
        """Take what was committed: where the log ends now, the newest version of streams, the newest mark of
        sources."""
        self.position = position
        for stream, version in versions.items():
            self._versions[stream] = version
            self._versions.move_to_end(stream)
        for source, mark in marks.items():
            self._marks[source] = mark
            self._marks.move_to_end(source)
        self._unmerged.update(marks)
        while len(self._versions) > REMEMBERED:
            self._versions.popitem(last=False)
        # A mark that is in no table yet may not be forgotten: the database would not find it.
        while len(self._marks) > REMEMBERED and (oldest := next(iter(self._marks))) not in self._unmerged:
            del self._marks[oldest]
