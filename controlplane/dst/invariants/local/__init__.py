"""What must hold in the scene, looked at with every commit, every write, every event of either log, and every batch
that is folded.
"""
