"""Reserves quota for Workloads and admits them, as Kueue's scheduler and its core controllers do; pure."""
