"""The kinds that a simulated API server serves: pure data."""
