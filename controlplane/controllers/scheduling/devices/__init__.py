"""What DynamicResources allocates, and how: claims, classes and slices, selectors, pools, the search for devices."""
