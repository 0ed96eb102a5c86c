"""Pods that start together: which groups there are, how far each has come, and what is said of them."""
