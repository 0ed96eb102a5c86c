"""The target's side of the candidate protocol: one stream a candidate, in the log of the scheduler beside it."""
