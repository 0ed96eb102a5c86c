"""The controllers that there are. A new one is a line here, and one where it is hosted (`controlplane.app`)."""

from __future__ import annotations

from controlplane.controllers.candidates.source.manifest import MANIFEST as CANDIDATES
from controlplane.controllers.candidates.target.manifest import MANIFEST as CANDIDATE_TARGETS
from controlplane.controllers.connectivity.manifest import MANIFEST as CONNECTIVITY
from controlplane.controllers.coscheduling.feasibility.manifest import MANIFEST as FEASIBILITY
from controlplane.controllers.coscheduling.manifest import MANIFEST as COSCHEDULING
from controlplane.controllers.jobframework.manifest import MANIFEST as JOBFRAMEWORK
from controlplane.controllers.multikueue.manifest import MANIFEST as MULTIKUEUE
from controlplane.controllers.podgroups.manifest import MANIFEST as PODGROUPS
from controlplane.controllers.quota.admission.manifest import MANIFEST as ADMISSION
from controlplane.controllers.quota.manifest import MANIFEST as QUOTA
from controlplane.controllers.scheduling.manifest import MANIFEST as SCHEDULING

SERVICE = (
    CONNECTIVITY,
    MULTIKUEUE,
    CANDIDATES,
    PODGROUPS,
    COSCHEDULING,
    FEASIBILITY,
    QUOTA,
    ADMISSION,
    JOBFRAMEWORK,
)
"""Those whose events are in the log of a service."""
SCHEDULER = (CONNECTIVITY, SCHEDULING, CANDIDATE_TARGETS)
"""Those whose events are in the log of a scheduler."""
EVERY = (*SERVICE, *SCHEDULER[1:])
