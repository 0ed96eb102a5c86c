"""What the simulated API servers know of the fields of the kinds that they serve."""
