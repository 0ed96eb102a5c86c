"""Candidate pods: one pod of a source cluster, a candidate in every target, and at most one of them that runs."""
