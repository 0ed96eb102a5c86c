"""The contract of plugins, their registry and arguments, and the runtime that calls them."""
