"""Candidate pods under the same nemesis: a source, its targets with nodes, and a real scheduler beside each of them, on
one seed.

In: a plan of the scene `candidates`. Out: an `Outcome`, as of every other plan. The loop, the network, the database,
the starts and ends of processes are those of the scene of Workloads; what is added is who acts (schedulers, kubelets,
users) and what has to hold (the candidates' rules)."""
