"""Workloads over many clusters, where this service decides on quota: the management cluster has Kueue's CRDs and no
Kueue.

In: a plan of the scene `admission`. Out: an `Outcome`, as of every other plan. Clusters, people and trouble are those
of the scene `workloads`; the quota is that of a few ClusterQueues in a Cohort, and less than everybody asks for."""
