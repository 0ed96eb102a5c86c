"""What would be decided: the recorded past through the decide functions, as they are now or by other settings.

`deciders` folds a log and asks; `compare` holds the answers against what the log has."""
