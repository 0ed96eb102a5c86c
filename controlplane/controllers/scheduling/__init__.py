"""The target side: which node of one cluster a pod goes to, by kube-scheduler's rules.

Pure: a snapshot of nodes and pods in, statuses, scores and reasons out. `framework` is the contract of plugins,
`runtime` calls them, `cycle` is one pod's way through them, `snapshot` what they look at. Queue, back-off, leases and
the API server live elsewhere."""
