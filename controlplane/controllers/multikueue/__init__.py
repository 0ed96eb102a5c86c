"""Capability: a Workload over many clusters, as Kueue's MultiKueue promises it."""
