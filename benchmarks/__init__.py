"""What the service costs, measured on this machine: `python -m benchmarks [NAME…]`, or `make bench`.

Each benchmark prints a table. None asserts anything about time: a machine that is slow is not wrong.
"""
