"""The read side: the history as people and programs ask for it. It reads the log, and never writes.

`words`, `sentences`, `timeline`, `standing` and `explain` are pure: events and folded states in, text out. `reads` asks
the views of the schema `audit`; `fleet` folds what it reads with the folds of the service."""
