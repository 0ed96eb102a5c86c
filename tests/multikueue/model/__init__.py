"""An exhaustive exploration of MultiKueue's dispatch over its real folds, decisions and requests."""
