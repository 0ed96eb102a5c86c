"""Clusters that exist only here: API servers, their behaviours and their faults; for demo, tests, what-if and
benchmarks.
"""
