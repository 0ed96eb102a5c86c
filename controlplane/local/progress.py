"""How far each job is, as the management cluster shows it: what a user would see with kubectl, in one word.

In: the management cluster's Jobs and Workloads. Out: a row for each job, by name.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from controlplane.kube.kinds import JOBS, WORKLOADS, Json, meta
from controlplane.local.witness import ending
from controlplane.simulation.apiserver.store import Store

Word = Literal["queued", "offered", "admitted", "running", "finished", "failed"]
ENDS: frozenset[Word] = frozenset({"finished", "failed"})


class JobProgress(msgspec.Struct, frozen=True):
    """One job: its namespace and name, its Workload's name ("" while there is none), how far it is, and where."""

    namespace: str
    job: str
    workload: str
    word: Word
    cluster: str


def rows(store: Store) -> list[JobProgress]:
    """Return the row of every job of a management cluster, in the order of their names."""
    owned = {}
    for record in store.records(WORKLOADS):
        for owner in meta(record.obj).get("ownerReferences") or ():
            owned[owner["uid"]] = record.obj
    return [_row(record.obj, owned.get(record.uid)) for record in store.records(JOBS)]


def _row(job: Json, workload: Json | None) -> JobProgress:
    status = (workload or {}).get("status") or {}
    cluster = str(status.get("clusterName") or "")
    return JobProgress(
        namespace=meta(job)["namespace"],
        job=meta(job)["name"],
        workload=meta(workload or {}).get("name", ""),
        word=_word(job, status, cluster),
        cluster=cluster,
    )


def _word(job: Json, status: Json, cluster: str) -> Word:
    if any(c["type"] == "Finished" and c["status"] == "True" for c in status.get("conditions") or ()):
        return "failed" if ending(job) == "Failed" else "finished"
    if cluster:
        return "running" if (job.get("status") or {}).get("active") else "admitted"
    return "offered" if status.get("nominatedClusterNames") else "queued"
