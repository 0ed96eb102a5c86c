"""`python -m controlplane.job_kinds management|worker|jobframework|jobframework-pods|deletion|webhook|default-queue`
prints what deploy/rbac/management/jobs.yaml, deploy/rbac/worker/jobs.yaml, deploy/rbac/management/jobframework.yaml,
deploy/rbac/management/jobframework-pods.yaml, deploy/rbac/management/job-deletion.yaml,
deploy/multikueue-webhook/webhook.yaml or deploy/multikueue-webhook/default-queue.yaml holds: the rights for every kind
of job of Kueue's own, and which kinds are sent to the webhook."""

from __future__ import annotations

import sys

from controlplane.job_kinds.rights import cluster_role
from controlplane.job_kinds.webhook import configuration, defaults

if __name__ == "__main__":
    made = {"webhook": configuration, "default-queue": defaults}.get(sys.argv[1], lambda: cluster_role(sys.argv[1]))
    sys.stdout.write(made())
