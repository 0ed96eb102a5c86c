"""The whole service against whole clusters, on one seed: virtual time, a seeded scheduler, and trouble by plan.

In: a seed. Out: whether the rules held, and where one did not, the story. The loop, the recorder, the executors, the
reflectors and the connections are those of production; what is simulated stands behind their ports (the API servers,
the database, time, chance) and around them (Kueue, jobs, users, the network). Nothing here opens a socket, starts a
thread or reads a real clock, so a seed replays byte for byte."""
