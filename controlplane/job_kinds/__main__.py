"""`python -m controlplane.job_kinds management|worker|jobframework|jobframework-pods|deletion|webhook` prints what
deploy/rbac/management/jobs.yaml, deploy/rbac/worker/jobs.yaml, deploy/rbac/management/jobframework.yaml,
deploy/rbac/management/jobframework-pods.yaml, deploy/rbac/management/job-deletion.yaml or deploy/multikueue-webhook/webhook.yaml
holds: the rights for every kind of job of Kueue's own, and which kinds are sent to the webhook."""

from __future__ import annotations

import sys

from controlplane.job_kinds.rights import cluster_role
from controlplane.job_kinds.webhook import configuration

if __name__ == "__main__":
    sys.stdout.write(configuration() if sys.argv[1] == "webhook" else cluster_role(sys.argv[1]))
