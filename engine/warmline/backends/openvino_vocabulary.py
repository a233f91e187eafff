"""Text to tokens and back with a folder's own tokenizer models; a special token never comes from plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from ..errors import ArtifactError
from ..prompts.memo import TokenMemo
from .openvino_native import genai

TOKENIZER: Final = ("openvino_tokenizer.xml", "openvino_tokenizer.bin")
DETOKENIZER: Final = ("openvino_detokenizer.xml", "openvino_detokenizer.bin")
# SentencePiece vocabularies write a space so, and bytes that are in no token as <0x0A>.
_SPACE: Final = "\u2581".encode()
# Characters: tokenizer models cut off, in silence, the beginning of what is longer than the model's context.
_PART: Final = 2000
# Where every pre-tokenizer splits, and the same with nothing behind: after a line end between two characters that are
# no blanks, and before such a space.
_SEAMS: Final = (re.compile(r"(?<=\S)\n(?=\S)"), re.compile(r"\S(?= \S)"))
_BYTE: Final = re.compile(rb"<0x([0-9A-F]{2})>")


def check_tokenizer(folder: Path) -> None:
    """Check that a model folder holds both models of its tokenizer; raises ArtifactError as `Vocabulary`."""
    missing = [name for name in (*TOKENIZER, *DETOKENIZER) if not (folder / name).is_file()]
    if missing:
        raise _tokenizer_error(f"the folder holds no {missing[0]}", folder)


class Vocabulary:
    """Tokens and texts of a model folder.

    Parameters
    ----------
    folder
        Holds the tokenizer and detokenizer models.
    added
        Texts that the folder's configs name as tokens of their own.

    Raises
    ------
    ArtifactError
        ``artifact.openvino.tokenizer``: a file is missing, or the library cannot read them.
    """

    def __init__(self, folder: Path, added: Iterable[str] = ()) -> None:
        check_tokenizer(folder)
        try:
            self._native = genai().Tokenizer(str(folder))
            self.ids: dict[bytes, int] = self._native.get_vocab()
        except RuntimeError as error:
            raise _tokenizer_error(f"OpenVINO cannot read the tokenizer: {str(error).strip()[-300:]}", folder) from None
        self._texts = {token: text for text, token in self.ids.items()}
        # Asked of the detokenizer itself: what it leaves out is no text.
        self.control = {token for text, token in self.ids.items() if _markup(text) and self._decode(token) == ""}
        known = {text.encode("utf-8", "replace") for text in added}
        self._special = self.control | {self.ids[text] for text in known if text in self.ids and _markup(text)}
        self.special_texts = frozenset(self._texts[token].decode("utf-8", "replace") for token in self._special)
        self._pattern = re.compile(
            "|".join(map(re.escape, sorted(self.special_texts, key=len, reverse=True))) or r"(?!)"
        )
        self._pieces = _SPACE in self.ids and b"<0x0A>" in self.ids
        self._memo = None if self._pieces else TokenMemo(self._plain, self.piece)

    @property
    def native(self) -> Any:
        """GenAI's own tokenizer."""
        return self._native

    def tokenize(self, text: str) -> list[int]:
        """See `BaseModelHandle.tokenize`."""
        return self._memo(text) if self._memo is not None else self._plain(text)

    def tokenize_special(self, text: str) -> list[int]:
        """See `BaseModelHandle.tokenize_special`."""
        return self._encode(text)

    def piece(self, token: int) -> bytes:
        """See `BaseModelHandle.piece`."""
        if token in self.control:
            return b""
        text: bytes = self._texts.get(token, b"")
        if not self._pieces:
            return text
        byte = _BYTE.fullmatch(text)
        return bytes([int(byte[1], 16)]) if byte else text.replace(_SPACE, b" ")

    @property
    def lookup(self) -> Any:
        """See `BaseFacts.lookup`."""
        return lru_cache(maxsize=512)(lambda text: self.ids.get(text.encode("utf-8", "replace")))

    def begins_with(self) -> int | None:
        """Return the token that the tokenizer itself puts in front of a text (BOS), None without one."""
        with_it, without = self._encode("x", special=True), self._encode("x")
        return with_it[0] if len(with_it) > len(without) and with_it[0] in self.control else None

    def text(self, token: int | None) -> str:
        """Return a special token's text, "" for None."""
        return "" if token is None else self._texts.get(token, b"").decode("utf-8", "replace")

    def _plain(self, text: str) -> list[int]:
        """Tokenise text whose markup is no markup: it is cut inside each special text, so that none is whole."""
        cuts, at = [0], 0
        while found := self._pattern.search(text, at):
            at = found.start() + 1
            cuts.append(at)
        cuts.append(len(text))
        tokens = [token for a, b in pairwise(cuts) for token in self._encode(text[a:b])]
        # The tokenizer may know special texts that neither the configs nor the detokenizer told of in this form.
        return [token for token in tokens if token not in self._special]

    def _encode(self, text: str, *, special: bool = False) -> list[int]:
        if not text:
            return []
        clean = text.encode("utf-8", "replace").decode()  # a lone surrogate is no character
        ids: list[int] = []
        for part in _parts(clean):
            ids += self._native.encode(part, add_special_tokens=special).input_ids.data[0].tolist()
        return ids

    def _decode(self, token: int) -> str:
        text: str = self._native.decode([token], skip_special_tokens=True)
        return text


def _parts(text: str) -> Iterator[str]:
    """Cut a long text where its tokens do not change by it; where there is no such place, anywhere."""
    at = 0
    while len(text) - at > _PART:
        end = at + _PART
        for seam in _SEAMS:
            last = max((found.end() for found in seam.finditer(text, at, end)), default=at)
            if last > at:
                end = last
                break
        yield text[at:end]
        at = end
    yield text[at:]


def _markup(text: bytes) -> bool:
    return len(text) > 2 and text[:1] + text[-1:] in (b"<>", b"[]")


def _tokenizer_error(message: str, folder: Path) -> ArtifactError:
    return ArtifactError(
        message,
        code="artifact.openvino.tokenizer",
        file=str(folder),
        remedy="Export it with the model (optimum-cli export openvino, or convert_tokenizer --with-detokenizer)",
    )
