"""Virtual Nodes: one in the source cluster for each target, to which source pods are bound."""
