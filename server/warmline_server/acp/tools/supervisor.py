"""Runs one shell command and whatever that starts, and ends all of it: a program of its own, with nothing imported.

    python -I -S supervisor.py RESULT_FD MOST_PROCESSES MOST_FILE_BYTES COMMAND

Started in a new session, with stdin a pipe whose other end its parent holds: when that closes, everything ends. On
RESULT_FD it says the command's process id, and how it ended: a line of its code, and of 1 where it was stopped because
there were too many processes. On Linux it is the reaper of what is orphaned below it, so that no process can leave it
by forking twice or by a session of its own, and it counts processes: the kernel's own limit does not hold for root.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time

_SET_CHILD_SUBREAPER = 36
_URGENT = -10
_POLL_SECONDS = 0.01
_COUNT_SECONDS = 0.5
_SLACK = 16  # tasks that may begin anywhere on the machine before ours are counted
_LINUX = sys.platform.startswith("linux")


def supervise(result_fd: int, most_processes: int, most_file_bytes: int, command: str) -> None:
    """Run a command until it ends, there are too many processes, or stdin closes; then none of them is left."""
    os.set_inheritable(result_fd, False)
    if _LINUX:
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        with contextlib.suppress(OSError):
            # To get a word in among hundreds of busy processes, where that is allowed.
            os.setpriority(os.PRIO_PROCESS, 0, _URGENT)
    child = os.fork()
    if child == 0:
        _become(command, most_processes, most_file_bytes)
    os.write(result_fd, b"%d\n" % child)
    os.close(1)
    os.close(2)
    code, many = None, False
    before, counted = _tasks(), time.monotonic()
    while code is None and not many:
        if select.select([0], [], [], _POLL_SECONDS)[0]:
            break
        code = _reap(child)
        if not _LINUX:
            continue
        grown = _tasks() - before > min(_SLACK, most_processes // 2)
        if grown or time.monotonic() - counted > _COUNT_SECONDS:
            many = len(_below(os.getpid())) > most_processes
            before, counted = _tasks(), time.monotonic()
    _end_all(child)
    os.write(result_fd, b"%d %d\n" % (-signal.SIGKILL if code is None else code, many))


def _become(command: str, most_processes: int, most_file_bytes: int) -> None:
    try:
        os.setsid()
        if _LINUX:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, 0, max(0, os.getpriority(os.PRIO_PROCESS, 0) - _URGENT))
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        limits = [(resource.RLIMIT_FSIZE, most_file_bytes), (resource.RLIMIT_CORE, 0)]
        if _LINUX:
            limits.append((resource.RLIMIT_NPROC, _own_tasks() + most_processes))
        for kind, value in limits:
            hard = resource.getrlimit(kind)[1]
            most = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (most, most))
        os.execv("/bin/sh", ["/bin/sh", "-c", command])
    finally:
        os._exit(127)


def _reap(child: int) -> int | None:
    """Take leave of who has ended, and tell how the command did, if it is among them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == child:
            code = os.waitstatus_to_exitcode(status)


def _end_all(child: int) -> None:
    """End the command's group at once, and then, stopped first so that none forks away, all else that is left."""
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    if not _LINUX:
        return
    me = os.getpid()
    until = time.monotonic() + 5
    while time.monotonic() < until:
        left = _below(me)
        if not left:
            return
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
        _reap(0)


def _tasks() -> int:
    """Count the tasks of the whole machine: one small read."""
    try:
        with open("/proc/loadavg", "rb") as file:
            return int(file.read().split()[3].partition(b"/")[2])
    except (OSError, ValueError, IndexError):
        return 0


def _below(root: int) -> list[int]:
    """List the processes below one, those that have ended left out."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except (OSError, ValueError):
                continue
            children.setdefault(int(parent), []).append(int(name) if state not in (b"Z", b"X") else -int(name))
    found, waiting = [], [root]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            waiting.append(abs(pid))
            if pid > 0:
                found.append(pid)
    return found


def _own_tasks() -> int:
    """Count this user's tasks, which is what the kernel's limit counts too."""
    mine, count = os.getuid(), 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == mine:
                    count += len(os.listdir(f"/proc/{name}/task"))
    return count


if __name__ == "__main__":
    supervise(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
