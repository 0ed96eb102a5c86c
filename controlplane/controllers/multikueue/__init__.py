"""The multikueue controller: a Workload over many clusters, as Kueue's MultiKueue promises it."""
