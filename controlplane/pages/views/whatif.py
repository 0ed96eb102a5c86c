"""What would have come of something else, beside what happened: reports that `controlplane whatif -o json` wrote.

In: an `Asked`, and the files of the directory of `web.whatifDirectory`. Out: which reports there are, or one of them.
Nothing is played for a page: that takes minutes, and whoever runs the command says how many of them."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from controlplane.pages.asking import Asked, NotFound
from controlplane.values import Value
from controlplane.whatif.agreement import Placement
from controlplane.whatif.report import FIGURES, Report, ReportedChoices, ReportError, Unit, read

_SUFFIX = ".json"
_MOST = 200  # reports in the list
_LARGEST = 32 * 2**20  # bytes of a file
_DIFFER = 200  # placements that are shown
_REMEMBERED = 256


class ReportItem(Value):
    """A report in the list. `trouble` says why it cannot be read, "" if it can."""

    name: str
    written: datetime
    log: str = ""
    began: datetime | None = None
    ended: datetime | None = None
    changes: list[str] = []
    share: float | None = None
    trouble: str = ""


class ReportList(Value):
    """The newest reports. `directory` is where they are looked for, "" if the settings name none."""

    directory: str
    items: list[ReportItem]


class Figure(Value):
    """A figure of each column; None where it is not known."""

    name: str
    unit: Unit
    values: list[float | None]


class ClusterRow(Value):
    """What each column says of a cluster: Workloads that were placed there, and the share of it that was used."""

    name: str
    placed: list[int | None]
    utilisation: list[float | None]


class QueueRow(Value):
    """What each column says of a ClusterQueue: for how many seconds 95 of 100 Workloads waited for its quota at most,
    and how many were preempted. `decided`: who decided about it when it was played, "" in reports of earlier
    versions."""

    name: str
    decided: str
    wait: list[float | None]
    preemptions: list[int | None]


class WhatIfStory(Value):
    """A report: `columns` are recorded, played again, and what if, unless nothing was changed. `agree` of `choices`
    recorded choices of a cluster were taken again; `differ` are the first of those that were not. `quota`: the
    same of decisions about quota, None where there were none."""

    name: str
    log: str
    began: datetime
    ended: datetime
    changes: list[str]
    columns: list[str]
    figures: list[Figure]
    clusters: list[ClusterRow]
    queues: list[QueueRow]
    quota: ReportedChoices | None
    choices: int
    agree: int
    share: float
    reproduced: bool
    not_simulated: dict[str, int]
    differ: list[Placement]
    more: int


def reports(asked: Asked) -> ReportList:
    """Return the newest reports."""
    directory = asked.settings.web.whatif_directory
    files = sorted(_files(directory), key=lambda entry: (-entry.stat().st_mtime_ns, entry.name))
    return ReportList(directory=directory, items=[_item(entry) for entry in files[:_MOST]])


def report(asked: Asked) -> WhatIfStory:
    """Return one report. Raises `NotFound`."""
    name = asked.path["report"]
    # Looked for among the names that there are, so that no name leads out of the directory.
    entry = next((one for one in _files(asked.settings.web.whatif_directory) if _name(one) == name), None)
    if entry is None:
        raise NotFound(f"there is no report {name} in the directory of web.whatifDirectory")
    try:
        return _story(name, _report(entry))
    except (OSError, ReportError) as error:
        raise NotFound(f"the report {name} cannot be read: {error}") from None


def _files(directory: str) -> list[os.DirEntry[str]]:
    """Return the files that may be reports; none if there is no such directory."""
    if not directory:
        return []
    try:
        with os.scandir(directory) as entries:
            return [one for one in entries if one.name.endswith(_SUFFIX) and _is_there(one)]
    except OSError as error:
        raise NotFound(f"the directory of web.whatifDirectory cannot be read: {error.strerror}") from None


def _is_there(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a file, and was not removed since it was listed; its size and time are known from then on."""
    try:
        return entry.is_file(follow_symlinks=False) and entry.stat() is not None
    except OSError:
        return False


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name.removesuffix(_SUFFIX)


def _report(entry: os.DirEntry[str]) -> Report:
    found = entry.stat()
    return _read(entry.path, found.st_mtime_ns, found.st_size)


@lru_cache(_REMEMBERED)
def _read(path: str, _written: int, size: int) -> Report:
    if size > _LARGEST:
        raise ReportError(f"it has more than {_LARGEST // 2**20} MiB")
    return read(Path(path).read_bytes())


def _item(entry: os.DirEntry[str]) -> ReportItem:
    name, written = _name(entry), datetime.fromtimestamp(entry.stat().st_mtime, UTC)
    try:
        found = _report(entry)
    except (OSError, ReportError) as error:
        return ReportItem(name=name, written=written, trouble=str(error))
    return ReportItem(
        name=name,
        written=written,
        log=found.log,
        began=found.began,
        ended=found.ended,
        changes=found.changes,
        share=found.placements.share,
    )


def _story(name: str, found: Report) -> WhatIfStory:
    columns = list(found.columns.values())
    clusters = sorted({cluster for one in columns for cluster in one.clusters})
    differ = found.placements.differ
    return WhatIfStory(
        name=name,
        log=found.log,
        began=found.began,
        ended=found.ended,
        changes=found.changes,
        columns=list(found.columns),
        figures=[
            Figure(name=text, unit=unit, values=[getattr(one, field) for one in columns])
            for text, unit, field in FIGURES
        ],
        clusters=[
            ClusterRow(
                name=cluster,
                placed=[one.clusters[cluster].placed if cluster in one.clusters else None for one in columns],
                utilisation=[one.clusters[cluster].utilisation if cluster in one.clusters else None for one in columns],
            )
            for cluster in clusters
        ],
        queues=_queues(found),
        quota=found.quota if found.quota is not None and found.quota.recorded else None,
        choices=found.placements.recorded,
        agree=found.placements.agree,
        share=found.placements.share,
        reproduced=found.reproduced,
        not_simulated=found.not_simulated,
        differ=differ[:_DIFFER],
        more=max(len(differ) - _DIFFER, 0),
    )


def _queues(found: Report) -> list[QueueRow]:
    columns = list(found.columns.values())
    return [
        QueueRow(
            name=name,
            decided=found.queues.get(name, ""),
            wait=[one.queues[name].wait_p95 if name in one.queues else None for one in columns],
            preemptions=[one.queues[name].preemptions if name in one.queues else None for one in columns],
        )
        for name in sorted({queue for one in columns for queue in one.queues})
    ]
