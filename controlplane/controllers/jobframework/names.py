"""Names a job's Workload as Kueue does (kubernetes-sigs/kueue pkg/controller/jobframework/workload_names.go, ff69552e): a
prefix that people recognise, and five digits of a digest that tell jobs of a name apart."""

from __future__ import annotations

import hashlib

from controlplane.kube.kinds import Kind

LONGEST = 253
_DIGITS = 5


def name_of_workload(kind: Kind, name: str, uid: str, extra: str = "") -> str:
    """Return the name of the Workload of a job; `extra` tells several Workloads of one job apart."""
    parts = [kind.kind, kind.group, name, uid, *([extra] if extra else [])]
    digest = hashlib.sha1("\n".join(parts).encode(), usedforsecurity=False).hexdigest()
    prefix = f"{kind.kind.lower()}-{name}".encode()[: LONGEST - 1 - _DIGITS].decode(errors="ignore")
    return f"{prefix}-{digest[:_DIGITS]}"
