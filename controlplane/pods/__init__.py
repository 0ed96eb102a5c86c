"""What a pod says, in the words of the Kubernetes API: quantities, requests, selectors, tolerations.

Pure, and shared by every room that reads pods: the scheduler, the simulated clusters, pod groups, co-scheduling. It knows no cluster and
no plugin; it answers what one field of one object means.
"""
