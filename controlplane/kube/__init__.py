"""Kubernetes' own words: kinds, fields, quantities, selectors, requests, durations, documents. Pure."""
