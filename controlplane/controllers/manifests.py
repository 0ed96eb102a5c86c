"""The one list of the controllers that there are: a new one is its import here, and its name in the tuples below."""

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

SERVICE = (CONNECTIVITY, MULTIKUEUE, CANDIDATES, PODGROUPS, COSCHEDULING, FEASIBILITY, QUOTA, ADMISSION, JOBFRAMEWORK)
"""Those whose events are in the log of a service."""
HOSTED = (MULTIKUEUE, QUOTA, ADMISSION, JOBFRAMEWORK, FEASIBILITY, CANDIDATES, PODGROUPS, COSCHEDULING)
"""Those that a service can host, in the order in which they look at an object."""
SCHEDULER = (CONNECTIVITY, SCHEDULING, CANDIDATE_TARGETS)
"""Those whose events are in the log of a scheduler."""
ROLES_OF_SCHEDULER = ("scheduler/clusterrole.yaml", "scheduler/candidates.yaml")
"""Which manifests say what a scheduler may do; the second one where it takes Candidates."""
OWN_CLUSTER = (PODGROUPS, COSCHEDULING, SCHEDULING)
"""Those that look after the pods of one's own cluster."""
EVERY = (*SERVICE, *SCHEDULER[1:])
