"""What confines the process that runs a model's code: as much as the machine gives, each part told by its name.

- `limits`: CPU seconds, address space, no files written, no core, few descriptors (setrlimit).
- `namespaces`: user, mount, network, process and IPC namespaces of its own, and an empty root folder (unshare, chroot).
- `system-calls`: a seccomp filter that lets through what a running Python needs for itself; to open a file, a socket or
  a process is none of it. It holds for whatever the code does, native code included.
- `audit`: Python's own audit hook refuses files, sockets and processes. Where it alone holds (not Linux, or another
  processor), code that means it can get around it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import sys
from typing import Any, Final

# Before there is nothing to import from any more.
try:
    import resource
except ImportError:  # not POSIX
    resource = None  # type: ignore[assignment]

_CLONE: Final = 0x10000000 | 0x00020000 | 0x40000000 | 0x20000000 | 0x08000000  # user, mount, net, pid, ipc
_MS_PRIVATE_REC: Final = 0x40000 | 0x4000
_MS_NOSUID_NODEV_NOEXEC: Final = 2 | 4 | 8
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_SECCOMP_FILTER, _ALLOW, _EPERM = 2, 0x7FFF0000, 0x00050001
_LD_W_ABS, _JEQ, _JGE, _RET = 0x20, 0x15, 0x35, 0x06
_X32: Final = 0x40000000

# What a Python that computes asks of Linux: memory, time, signals of its own, and the pipes that are open. From the
# tables of system calls of the two processors.
_X86_64: Final = (
    *(0, 1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 15, 19, 20, 24, 25, 28, 35, 39, 60, 63, 79, 96, 98, 99, 100, 102, 104, 107),
    *(108, 110, 131, 186, 201, 202, 204, 219, 228, 229, 230, 231, 273, 318, 334),
)
_AARCH64: Final = (
    *(17, 57, 62, 63, 64, 65, 66, 80, 93, 94, 98, 99, 101, 113, 114, 115, 123, 124, 128, 132, 134, 135, 139, 153, 160),
    *(165, 169, 172, 173, 174, 175, 176, 177, 178, 179, 214, 215, 216, 222, 226, 233, 278, 293),
)
_PROCESSORS: Final = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}

_REFUSED: Final = (
    *("open", "socket.", "subprocess.", "ctypes.", "pty.", "shutil.", "tempfile.", "os.system"),
    *(
        "os.exec",
        "os.fork",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "os.kill",
        "os.remove",
        "os.rename",
        "os.rmdir",
    ),
    *(
        "os.mkdir",
        "os.chmod",
        "os.chown",
        "os.link",
        "os.symlink",
        "os.truncate",
        "os.listdir",
        "os.scandir",
        "os.utime",
    ),
)


def end_with_parent() -> None:
    """Have the system end this process with the one that started it, where it can."""
    with contextlib.suppress(OSError, AttributeError):
        _libc().prctl(_PR_SET_PDEATHSIG, 9, 0, 0, 0)


def hide() -> None:
    """Keep other processes of this user out of this one's memory and descriptors, where the system can."""
    with contextlib.suppress(OSError, AttributeError):
        _libc().prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def children_cpu_seconds() -> float:
    """Return what the ended children of this process, and theirs, have used of the CPU; 0 where that is not told."""
    if resource is None:
        return 0.0
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return float(used.ru_utime + used.ru_stime)


def confine(folder: str, cpu_seconds: int, memory: int) -> list[str]:
    """Confine this process for good; return what holds. A process of its own namespaces goes on in a child.

    Parameters
    ----------
    folder
        An empty folder of its own, which becomes the root where that can be.
    cpu_seconds, memory
        Limits; bytes of address space.
    """
    holds = []
    os.chdir(folder)
    if _namespaces(folder):
        holds.append("namespaces")
    if _limits(cpu_seconds, memory):
        holds.append("limits")
    if _system_calls():
        holds.append("system-calls")
    sys.addaudithook(_audit)
    return [*holds, "audit"]


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _limits(cpu_seconds: int, memory: int) -> bool:
    if resource is None:
        return False
    wanted = {"CPU": cpu_seconds, "AS": memory, "FSIZE": 0, "CORE": 0, "NPROC": 0, "NOFILE": 16, "MEMLOCK": 0}
    for name, most in wanted.items():
        kind = getattr(resource, f"RLIMIT_{name}", None)
        if kind is not None:
            _, hard = resource.getrlimit(kind)
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(kind, (most, most))
    return True


def _namespaces(folder: str) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    libc = _libc()
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(_CLONE) != 0:
        return False
    try:
        with contextlib.suppress(OSError):
            _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"0 {uid} 1")
        _write("/proc/self/gid_map", f"0 {gid} 1")
        child = os.fork()  # the first process of the new process namespace: with it everything in there ends
        if child:
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1):
                os.dup2(null, descriptor)  # the pipes are the child's alone
            _, status = os.waitpid(child, 0)
            os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
        end_with_parent()
        place = folder.encode()
        options = b"size=1m,mode=700"
        if libc.mount(None, b"/", None, _MS_PRIVATE_REC, None) != 0:
            return False
        if libc.mount(b"none", place, b"tmpfs", _MS_NOSUID_NODEV_NOEXEC, options) != 0:
            return False
        os.chdir(folder)
        os.chroot(".")
        os.chdir("/")
    except OSError:
        return False
    return True


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _system_calls() -> bool:
    known = _PROCESSORS.get(platform.machine())
    if known is None or not sys.platform.startswith("linux"):
        return False
    architecture, allowed = known
    program = _filter(architecture, allowed)
    libc = _libc()
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    holder = _Program(len(program) // 8, program)
    return bool(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(holder), 0, 0) == 0)


def _filter(architecture: int, allowed: tuple[int, ...]) -> bytes:
    """Write the filter's program (struct sock_filter: code, two jumps, operand); what is not allowed is EPERM."""
    steps = [(_LD_W_ABS, 0, 0, 4), (_JEQ, 1, 0, architecture), (_RET, 0, 0, _EPERM), (_LD_W_ABS, 0, 0, 0)]
    steps += [(_JGE, 0, 1, _X32), (_RET, 0, 0, _EPERM)]
    for number in allowed:
        steps += [(_JEQ, 0, 1, number), (_RET, 0, 0, _ALLOW)]
    steps.append((_RET, 0, 0, _EPERM))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _audit(event: str, _arguments: tuple[object, ...]) -> None:
    if event.startswith(_REFUSED):
        raise PermissionError(f"{event} is not allowed here")
