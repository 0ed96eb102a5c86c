"""Plays outages in a local fleet that another process runs: a file in its folder names the clusters that are cut off.

In: the folder, and names of clusters, of whoever asks; the clusters, of whoever runs them. Out: connections to those
clusters are reset, open ones too, until their names are taken out again. What runs in them runs on, as behind a network
that broke."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

import msgspec

from controlplane.local.folder import DataFolder, InUse, LocalError
from controlplane.simulation.apiserver.faults import Fault
from controlplane.simulation.world import MANAGEMENT, SimulatedCluster

_FILE = "outages.json"
_LOOK = 0.25  # seconds between two looks at the file


def ask(folder: DataFolder, cut: Collection[str], heal: Collection[str]) -> list[str]:
    """Have the process that runs the fleet cut clusters off, and heal others; return which are cut off then. Raises
    `LocalError` for a cluster that is not there, and if no process runs the fleet.
    """
    if not folder.used:
        raise LocalError(
            f"nothing has run in {folder.root}: start `controlplane up` there first, or name its folder with --data"
        )
    known = [MANAGEMENT, *folder.fleet({}).names]
    for name in [*cut, *heal]:
        if name not in known:
            raise LocalError(f"there is no cluster {name} in {folder.root}: there are {', '.join(known)}")
    try:
        with folder:
            pass
    except InUse:
        found = sorted(({*_read(folder)} | {*cut}) - {*heal})
        _write(folder, found)
        return found
    raise LocalError(f"nothing runs in {folder.root} now: start `controlplane up` there first, in another terminal")


async def follow(folder: DataFolder, clusters: Mapping[str, SimulatedCluster]) -> None:
    """Cut clusters off and heal them as the file says, until cancelled; whole at first."""
    _write(folder, [])
    faults: dict[str, Fault] = {}
    while True:
        wanted = {*_read(folder)} & clusters.keys()
        for name in wanted - faults.keys():
            faults[name] = clusters[name].faults.cut()
        for name in faults.keys() - wanted:
            clusters[name].faults.remove(faults.pop(name))
        await asyncio.sleep(_LOOK)


def _read(folder: DataFolder) -> list[str]:
    try:
        return msgspec.json.decode((folder.root / _FILE).read_bytes(), type=list[str])
    except (OSError, msgspec.MsgspecError):
        return []


def _write(folder: DataFolder, names: list[str]) -> None:
    path = folder.root / _FILE
    partial = path.with_suffix(".partial")
    partial.write_bytes(msgspec.json.encode(names))
    partial.replace(path)
