"""Processor time of a private cluster: user and system time of all its processes, those that have ended too. Other programs on the machine do not count."""

import ctypes
import os
import pathlib
import resource

_PR_SET_CHILD_SUBREAPER = 36


def adopt():
    """Before the cluster starts: its daemons become children of this process, so that their time is known after their end."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0] != 0:
            pass
    except ChildProcessError:
        pass


def _running(home):
    """The time of the processes with this VOLADOR_HOME, and of their children that have ended."""
    needle = f"VOLADOR_HOME={home}".encode()
    ticks = 0
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and needle in (entry / "environ").read_bytes().split(b"\0"):
                ticks += sum(int(field) for field in (entry / "stat").read_text().rpartition(")")[2].split()[11:15])
        except OSError:
            pass  # It has ended.
    return ticks / os.sysconf("SC_CLK_TCK")


def seconds(home):
    """While no child of this process is waited for."""
    _reap()
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime + _running(home)
