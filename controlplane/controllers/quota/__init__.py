"""Keeps the quota of a manager's ClusterQueue at the sum of its workers': KEP-9988 of Kueue."""
