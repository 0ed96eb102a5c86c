"""What must hold in the scene `candidates`, looked at with every commit, write and event: S1-S11 of the protocol, and the log's own rules."""
