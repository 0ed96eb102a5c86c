"""The loop: observations into the log, the log into states, states into decisions, decisions into effects."""
