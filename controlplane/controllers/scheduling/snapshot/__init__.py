"""The cluster as cycles look at it: nodes and pods as columns, volumes, budgets, namespaces."""
