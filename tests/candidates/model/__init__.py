"""An exhaustive exploration of the candidate protocol over its real folds, decisions and requests."""
