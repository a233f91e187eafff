"""Where the engine host's sockets, locks and logs live: private to one user, one version and one store."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from platformdirs import user_runtime_path

from .. import __version__
from ..errors import BackendError

# sun_path holds 108 bytes on Linux and 104 on macOS, the closing NUL included.
_LONGEST_SOCKET: Final = 100


@dataclass(frozen=True, slots=True)
class HostPaths:
    """Files of one engine host.

    Parameters
    ----------
    folder
        Runtime folder, 0700.
    home
        The store (`WARMLINE_HOME`) that the host serves.
    tcp
        Whether it listens on ports of 127.0.0.1, not on Unix sockets (`ways`).
    """

    folder: Path
    home: Path
    tcp: bool = False

    @property
    def otherwise(self) -> HostPaths:
        """The same host, if it were reached the other way."""
        return replace(self, tcp=not self.tcp)

    @property
    def name(self) -> str:
        """What tells this host from those of other versions and stores."""
        return f"engine-{__version__}-{hashlib.sha256(os.fsencode(self.home)).hexdigest()[:12]}"

    @property
    def socket(self) -> Path:
        """Where the host is found: the Unix socket of gRPC, or the file that tells the ports."""
        return self.folder / f"{self.name}.{'ports' if self.tcp else 'sock'}"

    @property
    def stream(self) -> Path:
        """The Unix socket of the streams of generations (`frames`); the host listens there before on the other one."""
        return self.folder / f"{self.name}.stream"

    @property
    def lease(self) -> Path:
        """Locked by the host as long as it lives."""
        return self.folder / f"{self.name}.lease"

    @property
    def spawn_lock(self) -> Path:
        """Locked by a client while it starts the host, so that two start one."""
        return self.folder / f"{self.name}.spawn"

    @property
    def pid(self) -> Path:
        """Holds the host's process id."""
        return self.folder / f"{self.name}.pid"

    @property
    def address(self) -> str:
        """The gRPC target of a host on Unix sockets."""
        return f"unix:{self.socket}"

    @property
    def log(self) -> Path:
        """The host's log; rotated."""
        return self.home / "logs" / "engine.log"

    @property
    def crashes(self) -> Path:
        """Where crashes are counted."""
        return self.home / "crashes"

    @property
    def snapshots(self) -> Path:
        """KV on disk."""
        return self.home / "cache" / "kv"


def host_paths(home: Path) -> HostPaths:
    """Return the paths of a store's host, its runtime folder made and proven private.

    Raises
    ------
    BackendError
        ``backend.runtime_folder``: the folder belongs to another user, is open to others, or cannot be made.
        ``backend.transport``: WARMLINE_TRANSPORT names none.
    """
    home = Path(os.path.abspath(home))
    given = os.environ.get("WARMLINE_RUNTIME_DIR")
    with warnings.catch_warnings():
        # Where the session has no runtime folder, platformdirs warns and names a temporary one: that is what we want.
        warnings.simplefilter("ignore")
        folder = Path(given) if given else user_runtime_path("warmline", appauthor=False)
    tcp = sys.platform == "win32" or _asked_for_ports()
    paths = HostPaths(folder, home, tcp)
    if not given and _too_long(paths):
        user = os.getuid() if hasattr(os, "getuid") else 0
        paths = HostPaths(Path(tempfile.gettempdir()) / f"warmline-{user}", home, tcp)
    if _too_long(paths):
        raise _folder_error(paths.folder, "its name is too long for a socket")
    try:
        paths.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = os.lstat(paths.folder)
    except OSError as error:
        raise _folder_error(paths.folder, str(error.strerror)) from None
    if sys.platform != "win32":
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise _folder_error(paths.folder, "it belongs to another user")
        if status.st_mode & 0o077:
            try:
                paths.folder.chmod(0o700)
            except OSError as error:
                raise _folder_error(paths.folder, str(error.strerror)) from None
    return paths


def _asked_for_ports() -> bool:
    named = os.environ.get("WARMLINE_TRANSPORT") or "unix"
    if named not in ("unix", "tcp"):
        raise BackendError(
            f"WARMLINE_TRANSPORT is `{named}`",
            code="backend.transport",
            remedy="Set it to unix or tcp, for all programs alike, or not at all",
        )
    return named == "tcp"


def _too_long(paths: HostPaths) -> bool:
    return not paths.tcp and any(len(os.fsencode(name)) > _LONGEST_SOCKET for name in (paths.socket, paths.stream))


def _folder_error(folder: Path, why: str) -> BackendError:
    return BackendError(
        f"the runtime folder cannot be used: {why}",
        code="backend.runtime_folder",
        file=str(folder),
        remedy="Set WARMLINE_RUNTIME_DIR to a short path of a folder that is yours alone",
    )
