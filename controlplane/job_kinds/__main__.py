"""`python -m controlplane.job_kinds management|worker` prints what deploy/rbac/management/jobs.yaml or
deploy/rbac/worker/jobs.yaml holds: the rights for every kind of job of Kueue's own."""

from __future__ import annotations

import sys

from controlplane.job_kinds.rights import cluster_role

if __name__ == "__main__":
    sys.stdout.write(cluster_role(sys.argv[1]))
