"""Virtual time, the seeded event loop, the network, the database, and the trace of a run."""
