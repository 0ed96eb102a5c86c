"""What DynamicResources allocates, and how: pools, the search for devices, what is promised."""
