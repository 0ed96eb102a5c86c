"""PodGroup ownership: which object owns the PodGroup of an ordinary pod, what that group holds, and what a gang of pods
may do.
"""
