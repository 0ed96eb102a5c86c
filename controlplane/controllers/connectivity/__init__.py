"""Capability: which clusters we can talk to, since when, and what each of them serves, as facts in the log."""
