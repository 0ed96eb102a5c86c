"""Makes Workloads of jobs, and starts and stops jobs as their Workloads are admitted: Kueue's job framework."""
