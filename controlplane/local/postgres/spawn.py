"""Becomes another program that dies with the process that asked for it. Run as a file, by a fresh interpreter, never
imported.

`python -I -S spawn.py PARENT UID GID SIGNAL PROGRAM ARG…` drops root's rights (UID -1: keeps them), asks the kernel for
SIGNAL when its parent ends, and turns into PROGRAM. A fresh interpreter, because the same steps between fork and exec
of a process with threads may deadlock; as root, because the interpreter may lie where the other user cannot go."""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, uid: int, gid: int, death_signal: int, program: list[str]) -> None:
    """Drop rights first: changing the user clears the death signal. Ends at once if the parent is gone already."""
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    os.umask(0o077)
    os.chdir("/")
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:
        sys.exit("the parent has ended")
    os.execv(program[0], program)  # noqa: S606


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
    except OSError as error:
        sys.exit(f"{sys.argv[5]}: {error.strerror}")
