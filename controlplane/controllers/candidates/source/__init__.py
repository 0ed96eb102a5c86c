"""The source's side of the candidate protocol: election, permits, gangs, and what the pod shows."""
