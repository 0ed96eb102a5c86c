"""What must hold at every moment of a run, whatever goes wrong: one module a rule.

In: every commit of every simulated cluster, every write that was carried out, every event that reached the log. Out:
the first violation."""
