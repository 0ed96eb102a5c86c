"""Workloads over many clusters: the plans, the people, the clusters and the replicas of the service."""
