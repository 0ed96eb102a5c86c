"""Checks an installation from where an operator stands: what is gathered, what it means, and nothing that is
written."""
