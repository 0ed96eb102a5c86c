"""Decides as Kueue's scheduler does: which Workload is admitted with which flavors, whom it preempts, and who waits;
pure."""
