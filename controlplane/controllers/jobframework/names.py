"""Names a job's Workload as Kueue does (kubernetes-sigs/kueue pkg/controller/jobframework/workload_names.go, ff69552e):
a prefix that people recognise, and five digits of a digest that tell jobs of a name apart. Names the streams of jobs,
and the labels and annotations by which a job says something to Kueue (pkg/controller/constants/constants.go)."""

from __future__ import annotations

import hashlib
import re

from controlplane.kube.kinds import Kind

WORD = "jobframework"
STOPPING = "kueue.x-k8s.io/stopping"
_WHOLE = re.compile(r"[+-]?\d{1,10}", re.ASCII)
_MOST = 2**31 - 1
LONGEST = 253
_DIGITS = 5


def name_of_workload(kind: Kind, name: str, uid: str, extra: str = "") -> str:
    """Return the name of the Workload of a job; `extra` tells several Workloads of one job apart."""
    parts = [kind.kind, kind.group, name, uid, *([extra] if extra else [])]
    digest = hashlib.sha1("\n".join(parts).encode(), usedforsecurity=False).hexdigest()
    prefix = f"{kind.kind.lower()}-{name}".encode()[: LONGEST - 1 - _DIGITS].decode(errors="ignore")
    return f"{prefix}-{digest[:_DIGITS]}"


def job_stream(kind: str, namespace: str, name: str) -> str:
    """Return the stream of a job with its Workloads, by the kind's name in Kubernetes (`jobs.batch`)."""
    return f"{WORD}/job/{kind}/{namespace}/{name}"


def workload_stream(namespace: str, name: str) -> str:
    """Return the stream of a Workload that no job owns yet."""
    return f"{WORD}/workload/{namespace}/{name}"


def max_execution(label: object) -> int | None:
    """Return a label's number of seconds; None for what is no number above 0, as Kueue takes it."""
    if not isinstance(label, str) or not _WHOLE.fullmatch(label):
        return None
    return int(label) if 0 < int(label) <= _MOST else None
