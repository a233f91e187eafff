"""Reads a LoRA adapter as PEFT and the training tools around it write one: a folder with a config and safetensors.

Only two files are opened, both regular, neither through a link, and never a pickle. What is handed out has passed all
rules of `peft_config` and `peft_tensors`, whose codes are ``artifact.peft.*``.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from warmline.artifacts.gguf_bytes import ReadAt, opened, source_error
from warmline.artifacts.peft_config import MAX_CONFIG_BYTES, PeftConfig, parse_config
from warmline.artifacts.peft_tensors import PeftPair, matrix, pair_tensors, scan
from warmline.artifacts.safetensors import parse_header
from warmline.errors import ArtifactError

__all__ = ["PeftAdapter", "PeftConfig", "PeftPair", "matrix", "open_peft", "read_peft"]

CONFIG_NAME = "adapter_config.json"
WEIGHTS_NAME = "adapter_model.safetensors"
CARD_NAME = "README.md"
# Loading one of these runs whatever code its author put in.
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
MAX_CARD_BYTES = 64 << 10
_LICENSE = re.compile(r"""^license:[ \t]*["']?([A-Za-z0-9][A-Za-z0-9.+-]{0,63})["']?[ \t]*$""", re.MULTILINE)

Folder = str | os.PathLike[str]


@dataclass(frozen=True)
class PeftAdapter:
    """A LoRA adapter in PEFT's layout, checked.

    Parameters
    ----------
    folder, file
        Where it lies as given, and its weights file.
    config
        What ``adapter_config.json`` says.
    pairs
        The factors by module, in the order of the file.
    license
        From the front matter of the folder's README.md, or None.
    digest
        ``sha256:`` of the weights file's bytes as they were checked.
    n_params, nbytes
        Elements and bytes of all factors.
    """

    folder: str
    file: str
    config: PeftConfig
    pairs: tuple[PeftPair, ...] = field(repr=False)
    license: str | None
    digest: str
    n_params: int
    nbytes: int

    @property
    def factor(self) -> float:
        """What B·A is multiplied by at scale 1; the same number that PEFT uses."""
        return self.config.factor


def read_peft(folder: Folder) -> PeftAdapter:
    """Read and check an adapter folder; its weights are read once, in chunks.

    Raises
    ------
    ArtifactError
        ``artifact.peft.*``, ``artifact.safetensors.*``, ``artifact.unreadable``. Nothing else is raised, whatever the
        folder holds.
    """
    with open_peft(folder) as (adapter, _):
        return adapter


@contextmanager
def open_peft(folder: Folder) -> Iterator[tuple[PeftAdapter, ReadAt]]:
    """Do what `read_peft` does, and keep the weights file open: what is read from it is the file that was checked."""
    path = os.fspath(folder)
    folder_fd = _open_folder(path)
    try:
        _check_no_pickle(path, folder_fd)
        config = _config(path, folder_fd)
        licence = _license(path, folder_fd)
        weights_fd = _open_file(path, folder_fd, WEIGHTS_NAME)
    finally:
        os.close(folder_fd)
    label = _join(path, WEIGHTS_NAME)
    try:
        with opened(weights_fd, label) as (read_at, size):
            adapter = _adapter(path, label, config, licence, read_at, size)
            yield adapter, read_at
    finally:
        os.close(weights_fd)


def _adapter(path: str, label: str, config: PeftConfig, licence: str | None, read_at: ReadAt, size: int) -> PeftAdapter:
    try:
        header = parse_header(read_at, size, label=label)
        pairs = pair_tensors(header, config)
        digest = scan(header, pairs, read_at)
    except OSError as error:
        raise source_error(label, error) from error
    return PeftAdapter(
        folder=path,
        file=label,
        config=config,
        pairs=pairs,
        license=licence,
        digest=digest,
        n_params=sum(t.shape[0] * t.shape[1] for pair in pairs for t in (pair.a, pair.b)),
        nbytes=sum(t.nbytes for pair in pairs for t in (pair.a, pair.b)),
    )


def _join(folder: str, name: str) -> str:
    return os.path.join(folder, name)


def _error(rule: str, message: str, file: str, remedy: str) -> ArtifactError:
    return ArtifactError(message, code=f"artifact.peft.{rule}", file=file, remedy=remedy)


# ---- the folder ----


def _open_folder(path: str) -> int:
    """Open the folder itself: its files are then opened inside it, even if the path is given to another meanwhile."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise _error("folder", "there is no such folder", path, "Check the path") from error
    except NotADirectoryError as error:
        raise _no_folder(path) from error
    except (OSError, ValueError) as error:
        raise source_error(path, error) from error


def _no_folder(path: str) -> ArtifactError:
    if path.lower().endswith(PICKLE_SUFFIXES):
        return _pickle_error(path)
    message = "this is not a folder"
    return _error("folder", message, path, f"Give the folder that holds {CONFIG_NAME} and {WEIGHTS_NAME}")


def _check_no_pickle(path: str, folder_fd: int) -> None:
    # Trainers leave pickles of their own state beside the weights; those are never opened. One that is here in the
    # weights' place is refused by its name.
    if _exists(folder_fd, WEIGHTS_NAME):
        return
    stem = WEIGHTS_NAME.removesuffix(".safetensors")
    for suffix in PICKLE_SUFFIXES:
        if _exists(folder_fd, stem + suffix):
            raise _pickle_error(_join(path, stem + suffix))


def _pickle_error(path: str) -> ArtifactError:
    message = "pickle files are not loaded: loading one runs code from inside it"
    return _error("pickle", message, path, "Save the adapter as safetensors (safe_serialization=True)")


def _exists(folder_fd: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    except OSError:
        return False
    return True


def _open_file(path: str, folder_fd: int, name: str) -> int:
    """Open a regular file of the folder, following no link and waiting for no FIFO."""
    label = _join(path, name)
    try:
        status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise _link_error(label)
        if not stat.S_ISREG(status.st_mode):
            raise _error("not_a_file", "this is not a regular file", label, f"Give a folder with a real {name}")
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
        return os.open(name, flags, dir_fd=folder_fd)
    except FileNotFoundError as error:
        message = f"the folder holds no {name}"
        raise _error("missing", message, path, "Give the folder that the training tool saved the adapter to") from error
    except OSError as error:
        raise source_error(label, error) from error


def _link_error(label: str) -> ArtifactError:
    # A link may point anywhere, and somewhere else tomorrow. Hugging Face's cache is made of links.
    return _error("link", "this is a link, not a file", label, "Copy the folder with its files (cp -rL)")


def _start_of(path: str, folder_fd: int, name: str, limit: int) -> tuple[bytes, int]:
    """Read at most ``limit`` bytes of a file of the folder; give them, and the file's size."""
    label = _join(path, name)
    fd = _open_file(path, folder_fd, name)
    try:
        with opened(fd, label) as (read_at, size):
            return read_at(0, min(size, limit)), size
    except OSError as error:
        raise source_error(label, error) from error
    finally:
        os.close(fd)


def _config(path: str, folder_fd: int) -> PeftConfig:
    label = _join(path, CONFIG_NAME)
    raw, size = _start_of(path, folder_fd, CONFIG_NAME, MAX_CONFIG_BYTES)
    if size > MAX_CONFIG_BYTES:
        message = f"the file has {size} bytes, the limit is {MAX_CONFIG_BYTES}"
        raise _error("config", message, label, "Save the adapter again")
    return parse_config(raw, label)


def _license(path: str, folder_fd: int) -> str | None:
    """The licence that the model card's front matter names; a card that cannot be read has none to give."""
    try:
        card = _start_of(path, folder_fd, CARD_NAME, MAX_CARD_BYTES)[0].decode("utf-8", "replace")
    except ArtifactError:
        return None
    if not card.startswith("---"):
        return None
    found = _LICENSE.search(card[3:].partition("\n---")[0])
    return None if found is None else found[1]
