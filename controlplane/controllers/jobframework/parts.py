"""Defines parts of what is recorded of Workloads: the roles and pods of a group, and which slice of an elastic job one
is."""

from __future__ import annotations

from controlplane.log.event import Part


class GroupRole(Part):
    """The pods of a group that ask for the same: the hash of that, how many they are, and the body of one of them."""

    name: str
    count: int
    body: str


class GroupMember(Part):
    """A pod that owns the Workload of its group."""

    name: str
    uid: str


class SliceFacts(Part):
    """A slice of an elastic job: the name of the first one, which its pods have as an annotation, and the namespace and
    name of the one whose place it is to take, "" for none."""

    name: str
    replaces: str = ""
