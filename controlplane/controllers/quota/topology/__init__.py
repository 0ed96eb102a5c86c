"""Topology-aware scheduling: on which nodes the pods of a workload are placed, and whether they fit there."""
