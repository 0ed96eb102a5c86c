"""What the service and the scheduler do for the controllers of candidates: the watches, Leases and kubelets of what is
placed on other clusters, what metrics hear of it, and how a cycle of the scheduler answers for a candidate."""
