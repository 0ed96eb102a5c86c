"""The ConfigMaps and Secrets that follow a pod to the target that won."""
