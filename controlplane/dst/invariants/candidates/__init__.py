"""What must hold in the scene `candidates`, with every commit, write and event: S1-S11 of the protocol, and the logs'
own rules.
"""
