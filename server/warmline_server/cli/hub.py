"""Models from a Hugging Face hub, by the `huggingface-hub` library (extra `hub`): what there is, fetched and checked.

A repository's answers are not trusted further than needed: its file names must stay inside the download's folder, and
each file's bytes must have the digest that the hub states (SHA-256 for large files, git's own for small ones).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from filelock import FileLock, Timeout
from warmline.errors import ArtifactError, WarmlineError
from warmline.store import changes
from warmline.store.blobs import digest_of
from warmline.store.records import StoredFile
from warmline.validation import check_digest

_REFERENCE: Final = re.compile(r"(?P<repo>[A-Za-z0-9._-]{1,96}(/[A-Za-z0-9._-]{1,96})?)(:(?P<file>[^\0]{1,500}))?")
_OPENVINO: Final = "openvino_model.xml"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")  # git's digests of files are alike
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_CHUNK: Final = 1 << 20
_SECONDS: Final = 30.0  # without a byte
_TRIES: Final = 3  # in a row that bring nothing
_PAUSE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Remote:
    """One file of a repository; `sha256` or `git` is the digest that the hub states, in hex, or both are None.

    `size` is in bytes, and None where the hub does not state it: such a file is no part of an `Offer`.
    """

    name: str
    size: int | None
    sha256: str | None
    git: str | None


@dataclass(frozen=True, slots=True)
class Offer:
    """What is to be fetched: files of one commit of a repository. `folder` where they are one model together."""

    repo: str
    commit: str
    files: tuple[Remote, ...]
    folder: bool
    origin: str
    licence: str

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size or 0 for file in self.files)

    @property
    def name(self) -> str:
        """What to call the model, unless somebody says: the file's or the repository's name."""
        text = self.repo.rpartition("/")[2] if self.folder else Path(self.files[0].name).stem
        return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")[:64]


def library() -> ModuleType:
    """Import `huggingface_hub`; ``hub.missing`` where the extra is not installed."""
    try:
        import huggingface_hub
        import huggingface_hub.constants
        import huggingface_hub.utils  # they are not among what it loads on demand
    except ImportError:
        raise WarmlineError(
            "fetching models from a hub needs the package huggingface-hub",
            code="hub.missing",
            remedy="Install it: pip install 'warmline[hub]', or download the file yourself and use warmline model add",
        ) from None
    return huggingface_hub


def look(reference: str, revision: str | None, backend: str | None) -> Offer:
    """Ask the hub what `REPO[:FILE]` is.

    Raises
    ------
    WarmlineError
        ``hub.missing``; ``hub.reference`` for what is no reference; ``hub.choose`` where a repository has several
        models; ``hub.empty`` where it has none; ``hub.unknown``, ``hub.gated``, ``hub.unreachable``, ``hub.failed``.
    """
    matched = _REFERENCE.fullmatch(reference)
    if matched is None:
        remedy = "Write it as OWNER/NAME or OWNER/NAME:FILE"
        raise WarmlineError("this names no repository", code="hub.reference", field=reference[:200], remedy=remedy)
    repo, wanted = matched["repo"], matched["file"]
    info, files = _ask(repo, revision, reference)
    chosen, folder = _chosen(reference, files, wanted, backend)
    return _offer(repo, info, chosen, folder=folder)


def look_files(repo: str, names: Sequence[str]) -> Offer:
    """Ask the hub for certain files of a repository, as one folder; errors as in `look`."""
    info, files = _ask(repo, None, repo)
    for name in names:
        if name not in files:
            raise _unsure(f"the repository has no file `{name[:200]}`", "hub.unknown", repo, files)
    return _offer(repo, info, tuple(files[name] for name in names), folder=True)


def _ask(repo: str, revision: str | None, reference: str) -> tuple[Any, dict[str, Remote]]:
    with _typed(reference):
        info = library().HfApi(library_name="warmline").model_info(repo, revision=revision, files_metadata=True)
    if not _COMMIT.fullmatch(str(info.sha)):
        raise _failed("the hub names no commit", reference)
    files = [_remote(each, reference) for each in info.siblings or ()]
    return info, {file.name: file for file in files}


def _offer(repo: str, info: Any, chosen: tuple[Remote, ...], *, folder: bool) -> Offer:
    for file in chosen:
        if file.size is None:
            raise _failed(f"the hub does not state the size of {file.name}", repo)
    inner = "" if folder else f"/{chosen[0].name}"
    licence = getattr(info.card_data, "license", None) if info.card_data else None
    origin = f"{library().constants.ENDPOINT}/{repo}/tree/{info.sha}{inner}"
    return Offer(repo, info.sha, chosen, folder, origin, str(licence or ""))


def fetch(
    offer: Offer, folder: Path, progress: Callable[[int, int], None], promised: Mapping[str, str] | None = None
) -> Path:
    """Fetch an offer's files into a folder, going on with what is there already; return the file or folder.

    The library throws away what it has when a download breaks, so bytes are fetched here, with its session and headers.

    Parameters
    ----------
    promised
        By file name, the digest (``sha256:...``) that somebody else than the hub states.

    Raises
    ------
    ArtifactError
        ``artifact.digest``: other bytes arrived than the hub states, or than were promised; they are removed.
    WarmlineError
        As `look`; ``hub.no_digest`` where nobody states one; ``hub.busy`` where another process fetches the same.
    OSError
        The disk is full or cannot be written.
    """
    promised = promised or {}
    _check_stated(offer, promised)
    changes.private_folder(folder)
    lock = FileLock(str(folder.with_name(folder.name + ".lock")), timeout=0, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        message, remedy = "another process fetches this now", "Wait until it is done"
        raise WarmlineError(message, code="hub.busy", field=offer.repo, remedy=remedy) from None
    try:
        done = 0
        for file in offer.files:
            path = folder / file.name
            if not path.exists():
                _fetch_file(offer, file, path, lambda count, done=done: progress(done + count, offer.size))  # type: ignore[misc]
            _check(path, file, promised.get(file.name))
            done += file.size or 0
            progress(done, offer.size)
    finally:
        lock.release()
        Path(lock.lock_file).unlink(missing_ok=True)
    return folder if offer.folder else folder / offer.files[0].name


def _check_stated(offer: Offer, promised: Mapping[str, str]) -> None:
    """Nothing would tell other bytes from the right ones where nobody states a digest."""
    for file in offer.files:
        if file.sha256 is None and file.git is None and file.name not in promised:
            give = "" if offer.folder else "Give the digest that its maker states: --digest sha256:...; or "
            raise WarmlineError(
                f"the hub states no digest of {file.name}, so that nothing tells whether its bytes are the right ones",
                code="hub.no_digest",
                field=offer.repo,
                remedy=f"{give or 'Fetch from another hub, or '}download it yourself and use warmline model add",
            )


def _fetch_file(offer: Offer, file: Remote, path: Path, told: Callable[[int], None]) -> None:
    """Fetch one file under a name of its own, and give it its name when it is whole."""
    size = file.size or 0
    part = path.with_name(path.name + ".part")
    changes.private_folder(part.parent)
    fruitless = 0
    while True:
        before = part.stat().st_size if part.exists() else 0
        if before > size:
            part.unlink()
            before = 0
        if before == size and part.exists():
            break
        try:
            with _typed(offer.repo):
                _stream(offer, file, part, before, told)
        except WarmlineError as error:
            got = (part.stat().st_size if part.exists() else 0) > before
            fruitless = 0 if got else fruitless + 1
            if error.code not in ("hub.unreachable", "hub.short") or fruitless > _TRIES:
                raise
            time.sleep(_PAUSE)
    part.replace(path)


def _stream(offer: Offer, file: Remote, part: Path, before: int, told: Callable[[int], None]) -> None:
    hub, size = library(), file.size or 0
    utils = hub.utils
    url = hub.hf_hub_url(offer.repo, file.name, revision=offer.commit)
    headers = utils.build_hf_headers(library_name="warmline") | {"Accept-Encoding": "identity"}
    if before:
        headers["Range"] = f"bytes={before}-"
    with utils.get_session().stream("GET", url, headers=headers, timeout=_SECONDS, follow_redirects=True) as response:
        if response.is_error:
            response.read()  # the message is in it
        utils.hf_raise_for_status(response)
        going_on = before > 0 and response.status_code == 206
        done = before if going_on else 0
        with open(part, "ab" if going_on else "wb", opener=_private) as out:
            for chunk in response.iter_bytes(_CHUNK):
                done += len(chunk)
                if done > size:
                    raise _failed(f"more than {size} bytes arrive for {file.name}", offer.repo)
                out.write(chunk)
                told(done)
    if done < size:
        message = f"{done} of {size} bytes arrived of {file.name}"
        raise WarmlineError(message, code="hub.short", field=offer.repo, remedy="Pull again to go on where it stopped")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _remote(sibling: Any, reference: str) -> Remote:
    """Take what the hub says of a file; whatever type a field should have, another may arrive."""
    name = sibling.rfilename
    try:  # the store's own rule for names inside a folder
        StoredFile(name=name, digest="sha256:" + "0" * 64, size=0)
    except ValueError:
        raise _failed(f"the repository has a file with an impossible name: {str(name)[:80]!r}", reference) from None
    large = sibling.lfs or None
    size = sibling.size if sibling.size is not None else getattr(large, "size", None)
    sha256, git = getattr(large, "sha256", None), None if large else sibling.blob_id
    fine = size is None or (type(size) is int and size >= 0)
    for digest, form in ((sha256, _SHA256), (git, _COMMIT)):
        fine = fine and (digest is None or (isinstance(digest, str) and form.fullmatch(digest) is not None))
    if not fine:
        raise _failed(f"what the hub states of {name} cannot be understood", reference)
    return Remote(name, size, sha256, git)


def _chosen(
    reference: str, files: dict[str, Remote], wanted: str | None, backend: str | None
) -> tuple[tuple[Remote, ...], bool]:
    """Pick the file that was named, the only GGUF, or the folder of an OpenVINO model."""
    if wanted is not None:
        if wanted in files:
            return (files[wanted],), False
        raise _unsure(f"the repository has no file `{wanted[:200]}`", "hub.unknown", reference, files)
    ggufs = [file for name, file in files.items() if name.lower().endswith(".gguf")]
    openvino = _OPENVINO in files
    if openvino and backend != "llama" and (not ggufs or backend == "openvino"):
        own = tuple(file for name, file in files.items() if "/" not in name and not name.startswith("."))
        return own, True
    if len(ggufs) == 1 and backend != "openvino":
        return (ggufs[0],), False
    if ggufs and backend != "openvino":
        raise _unsure(f"the repository has {len(ggufs)} GGUF files", "hub.choose", reference, files)
    message = "the repository has no GGUF file and no exported OpenVINO model"
    raise WarmlineError(message, code="hub.empty", field=reference, remedy="Choose a repository with converted models")


def _unsure(message: str, code: str, reference: str, files: dict[str, Remote]) -> WarmlineError:
    repo = reference.partition(":")[0]
    names = [name for name in files if name.lower().endswith(".gguf")][:12] or list(files)[:12]
    remedy = "Name one: " + ", ".join(f"{repo}:{name}" for name in names)
    return WarmlineError(message, code=code, field=reference[:200], remedy=remedy)


def _check(path: Path, file: Remote, promised: str | None) -> None:
    try:
        if file.sha256 is not None:
            check_digest(digest_of(path), f"sha256:{file.sha256}", str(path))
        elif file.git is not None and _git_digest(path) != file.git:
            raise ArtifactError(
                "the file has other content than the hub states", code="artifact.digest", file=str(path)
            )
    except ArtifactError as error:
        path.unlink(missing_ok=True)
        error.remedy = "Pull it again; if it stays so, the hub or the way to it is at fault"
        raise
    if promised is not None:
        found = digest_of(path)
        if found != promised and file.sha256 is None and file.git is None:
            path.unlink()  # it may be what a network made of the right one
        check_digest(found, promised, str(path))


def _git_digest(path: Path) -> str:
    """Return git's digest of a file: sha1 over ``blob <size>\\0`` and its bytes (small files of a repository)."""
    sha = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as data:
        while chunk := data.read(_CHUNK):
            sha.update(chunk)
    return sha.hexdigest()


@contextlib.contextmanager
def _typed(reference: str) -> Iterator[None]:
    """Turn what the library raises into errors with a remedy; its own name the host, and so do these."""
    endpoint = library().constants.ENDPOINT
    import httpx  # comes with that library
    from huggingface_hub import errors

    try:
        yield
    except errors.GatedRepoError:
        raise WarmlineError(
            "the repository wants you to accept its terms, and to be known",
            code="hub.gated",
            field=reference,
            remedy="Accept them on the hub's page, then log in: hf auth login",
        ) from None
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.RemoteEntryNotFoundError):
        raise WarmlineError(
            f"{endpoint} knows no such repository, revision or file",
            code="hub.unknown",
            field=reference,
            remedy="Check the name and --revision; a private one needs: hf auth login",
        ) from None
    except (httpx.TransportError, errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        raise WarmlineError(
            f"{endpoint} cannot be reached: {_first_line(error)}",
            code="hub.unreachable",
            field=reference,
            remedy="Check the network and HF_ENDPOINT; pull again to go on where it stopped",
        ) from None
    except (errors.HFValidationError, errors.HfHubHTTPError, httpx.HTTPError) as error:
        raise _failed(f"{endpoint} answers with an error: {_first_line(error)}", reference) from None
    except OSError as error:
        if error.errno is not None:
            raise  # the disk's, for the store to explain
        raise _failed(f"the download is not whole: {_first_line(error)}", reference) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _failed(f"{endpoint} gives no answer that can be understood: {_first_line(error)}", reference) from None


def _failed(message: str, reference: str) -> WarmlineError:
    return WarmlineError(
        message,
        code="hub.failed",
        field=reference[:200],
        remedy="Pull again; if it stays so, download the file yourself and use warmline model add",
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
