"""Devices of Dynamic Resource Allocation as their API has them, and the expressions that select them."""
