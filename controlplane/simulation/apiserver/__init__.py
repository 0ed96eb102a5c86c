"""A simulated API server: the store, the REST protocol in front of it, watches, and faults."""
