"""Controlplane: batch work over many Kubernetes clusters, driven by an event log in PostgreSQL.

`app` ties the rooms together, `log` holds the truth, `multikueue` decides, `clusters` speaks to API servers.
"""
