"""The answers of the pages and of the read API: each view takes an `Asked` and returns plain values."""
