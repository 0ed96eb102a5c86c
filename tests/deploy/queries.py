"""What a PromQL query asks for, held against the metrics that are served."""

from __future__ import annotations

import re

from controlplane.telemetry import metrics

METRIC = re.compile(r"\bcontrolplane_\w+")
LABELLED = re.compile(r"\b(controlplane_\w+)\{([^}]*)\}")
GROUPED = re.compile(r"\b(?:by|on) \(([^)]*)\)")
# What Prometheus adds to every series, and what a histogram has besides.
ADDED = {"namespace", "pod", "instance", "job", "le"}
KNOWN = {name: (kind, set(labels)) for name, kind, labels, _ in metrics.table}


def known(name: str) -> set[str]:
    """Return the labels of a series that is served; KeyError if there is none of that name."""
    for suffix in ("_bucket", "_sum", "_count"):
        base = name.removesuffix(suffix)
        if base != name and KNOWN.get(base, ("", set()))[0] == "histogram":
            return KNOWN[base][1]
    if KNOWN[name][0] == "histogram":
        raise KeyError(name)
    return KNOWN[name][1]


def unknown(query: str) -> set[str]:
    """Return the labels that a query names and its metrics do not have; KeyError for a metric that is not served."""
    names = METRIC.findall(query)
    labels = set.intersection(*(known(name) for name in names)) | ADDED if names else ADDED
    found: set[str] = set()
    for name, selector in LABELLED.findall(query):
        found |= set(re.findall(r"(\w+)\s*[=!]", selector)) - known(name) - ADDED
    for grouping in GROUPED.findall(query):
        found |= {label.strip() for label in grouping.split(",")} - labels
    return found
