"""llama.cpp: one model per base, adapters loaded once, one context per identity."""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from ..artifacts.gguf import GGUFHeader, read_header
from ..digests import DigestCache, file_key, open_regular, short
from ..errors import ArtifactError, BackendError
from ..prompts.memo import TokenMemo
from .base import AdapterOnDisk, BaseFacts, ContextConfig, Session
from .llama_session import LlamaSession, embed_tokens
from .native import NativeFile, captured_log, last_words, llama, version

# enum llama_vocab_type and enum llama_token_attr in llama.h
_BPE: Final = 2
_CONTROL: Final = 1 << 3
_USER_DEFINED: Final = 1 << 4
_FIM_KEYS: Final = ("pre", "suf", "mid", "pad", "rep", "sep")
_PROBE_TEXT: Final = "def load(path):\n    with open(path) as file:\n        return"
_PROBE_CONTEXT: Final = 256


class LlamaBackend:
    """The llama.cpp backend.

    Parameters
    ----------
    digests
        Hashes files on the descriptors that are then loaded.
    """

    name = "llama.cpp"

    def __init__(self, digests: DigestCache) -> None:
        self._digests = digests
        self._facts: dict[str, BaseFacts] = {}
        self._models: list[LlamaModel] = []
        self._vocabularies: list[_Vocabulary] = []

    @property
    def version(self) -> str:
        """See `native.version`."""
        return version()

    def facts(self, path: Path, digest: str) -> BaseFacts:
        """See `Backend.facts`; a base that is not resident has its vocabulary loaded alone."""
        known = self._facts.get(digest)
        if known is None:
            with _opened(path, digest, self._digests) as (fd, header):
                vocabulary = _Vocabulary(_load_model(fd, path, vocab_only=True))
                self._vocabularies.append(vocabulary)
                known = self._facts[digest] = _facts(vocabulary, header)
        return known

    def load(self, path: Path, digest: str, progress: Callable[[float], None] | None = None) -> LlamaModel:
        """See `Backend.load`."""
        pointer = None
        try:
            with _opened(path, digest, self._digests) as (fd, header):
                pointer = _load_model(fd, path, progress=progress)
        except ArtifactError:
            if pointer:
                llama().llama_model_free(pointer)
            raise
        model = LlamaModel(pointer, digest, header, self._digests)
        self._models.append(model)
        return model

    def close(self) -> None:
        """Free everything. Idempotent."""
        for model in self._models:
            model.close()
        for vocabulary in self._vocabularies:
            vocabulary.close()
        self._models.clear()
        self._vocabularies.clear()
        self._facts.clear()


@contextlib.contextmanager
def _opened(path: Path, digest: str, digests: DigestCache) -> Iterator[tuple[int, GGUFHeader]]:
    with open_regular(path) as fd:
        found = digests.digest_descriptor(fd)
        if found != digest:
            raise ArtifactError(
                f"the file's content changed: it has digest {short(found)}, not {short(digest)}",
                code="artifact.digest",
                file=str(path),
                remedy="Ask again to use the new content, or put the old file back",
            )
        header = read_header(fd, label=str(path))
        key = file_key(fd)
        yield fd, header
        if file_key(fd) != key:
            raise ArtifactError(
                "the file changed while it was loaded",
                code="artifact.changing",
                file=str(path),
                remedy="Wait until the copy or download is complete, then ask again",
            )


def _load_model(
    fd: int, path: Path, *, vocab_only: bool = False, progress: Callable[[float], None] | None = None
) -> int:
    lib = llama()
    params = lib.llama_model_default_params()
    params.n_gpu_layers = 0
    # Read, never mapped: a mapped file that somebody truncates ends the process, and one that somebody rewrites gives
    # other weights under the identity of the old ones.
    params.load_mode = lib.LLAMA_LOAD_MODE_NONE
    params.vocab_only = vocab_only
    if progress is not None:

        def report(share: float, _user_data: object) -> bool:
            progress(share)
            return True

        callback = lib.llama_progress_callback(report)
        params.progress_callback = callback
    file = NativeFile(fd)
    try:
        with captured_log() as log:
            pointer: int | None = lib.llama_model_load_from_file_ptr(file.pointer, params)
    finally:
        file.close()
    if not pointer:
        raise ArtifactError(
            f"llama.cpp cannot load this model: {last_words(log)}",
            code="artifact.base.load",
            file=str(path),
            remedy="Use a GGUF model that this llama.cpp supports, and check that memory suffices",
        )
    return pointer


class _Vocabulary:
    """Tokens and texts of a model, with or without its weights."""

    def __init__(self, model: int) -> None:
        self._lib = llama()
        self.model: int | None = model
        self._vocab = self._lib.llama_model_get_vocab(model)
        # SentencePiece vocabularies put a space in front of whatever they are given.
        self._puts_space = b"".join(map(self.piece, self._tokenize("x", special=False))) == b" x"

    @property
    def pre_tokenizes(self) -> bool:
        """Whether this is a BPE vocabulary, which splits text by a pattern before it merges."""
        return bool(self._lib.llama_vocab_type(self._vocab) == _BPE)

    def tokenize(self, text: str, *, special: bool) -> list[int]:
        """Turn text into tokens without adding BOS, EOS or a space; lone surrogates become U+FFFD."""
        if self._puts_space and text and not special:
            lead = self._tokenize("\n", special=False)
            tokens = self._tokenize("\n" + text, special=False)
            if tokens[: len(lead)] == lead:
                return tokens[len(lead) :]
        return self._tokenize(text, special=special)

    def _tokenize(self, text: str, *, special: bool) -> list[int]:
        data = text.encode("utf-8", "replace")
        size = len(data) + 16
        buffer = (self._lib.llama_token * size)()
        count = self._lib.llama_tokenize(self._vocab, data, len(data), buffer, size, False, special)
        if count < 0:
            size = -count
            buffer = (self._lib.llama_token * size)()
            count = self._lib.llama_tokenize(self._vocab, data, len(data), buffer, size, False, special)
        return list(buffer[: max(count, 0)])

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """Return a token's bytes."""
        buffer = ctypes.create_string_buffer(64)
        count = self._lib.llama_token_to_piece(self._vocab, token, buffer, 64, 0, special)
        if count < 0:
            buffer = ctypes.create_string_buffer(-count)
            count = self._lib.llama_token_to_piece(self._vocab, token, buffer, -count, 0, special)
        return buffer.raw[: max(count, 0)]

    def lookup(self, text: str) -> int | None:
        """Return the id of a text that is exactly one token, else None."""
        tokens = self.tokenize(text, special=True)
        if len(tokens) != 1 or self.piece(tokens[0], special=True) != text.encode("utf-8", "replace"):
            return None
        return tokens[0]

    def size(self) -> int:
        return int(self._lib.llama_vocab_n_tokens(self._vocab))

    def special(self, name: str) -> int | None:
        """Return the id of `bos` or `eos`, None when the vocabulary has none."""
        token = int(getattr(self._lib, f"llama_vocab_{name}")(self._vocab))
        return token if token >= 0 else None

    def add_bos(self) -> bool:
        return bool(self._lib.llama_vocab_get_add_bos(self._vocab))

    def end_of_generation(self) -> frozenset[int]:
        is_end = self._lib.llama_vocab_is_eog
        return frozenset(token for token in range(self.size()) if is_end(self._vocab, token))

    def special_texts(self) -> frozenset[str]:
        """Texts that special parsing turns into single tokens, and that a message must not smuggle in.

        Some vocabularies also define runs of blanks or line ends as tokens: those are ordinary text.
        """
        texts = set()
        for token in range(self.size()):
            kind = self._lib.llama_vocab_get_attr(self._vocab, token)
            if kind & (_CONTROL | _USER_DEFINED):
                text = self.piece(token, special=True).decode("utf-8", "replace")
                if text and (kind & _CONTROL or text[0] + text[-1] in ("<>", "[]")):
                    texts.add(text)
        return frozenset(texts)

    def n_ctx_train(self) -> int:
        return int(self._lib.llama_model_n_ctx_train(self.model))

    def close(self) -> None:
        """Free the model. Idempotent."""
        if self.model:
            self._lib.llama_model_free(self.model)
            self.model = None


def _facts(vocabulary: _Vocabulary, header: GGUFHeader) -> BaseFacts:
    fim = {}
    for key in _FIM_KEYS:
        token = header.metadata.get(f"tokenizer.ggml.fim_{key}_token_id")
        if isinstance(token, int) and 0 <= token < vocabulary.size():
            fim[key] = token
    template = header.metadata.get("tokenizer.chat_template")
    bos, eos = vocabulary.special("bos"), vocabulary.special("eos")
    train = header.metadata.get(f"{header.metadata.get('general.architecture')}.context_length")
    return BaseFacts(
        architecture=str(header.metadata.get("general.architecture", "")),
        # With the vocabulary alone the native library knows no context length: the header says it.
        n_ctx_train=train if isinstance(train, int) and train > 0 else max(vocabulary.n_ctx_train(), 512),
        add_bos=vocabulary.add_bos(),
        bos=bos,
        eos=eos,
        bos_text=_text(vocabulary, bos),
        eos_text=_text(vocabulary, eos),
        end_of_generation=vocabulary.end_of_generation(),
        special_texts=vocabulary.special_texts(),
        fim_tokens=fim,
        chat_template=template if isinstance(template, str) else None,
        lookup=lru_cache(maxsize=512)(vocabulary.lookup),
    )


def _text(vocabulary: _Vocabulary, token: int | None) -> str:
    return "" if token is None else vocabulary.piece(token, special=True).decode("utf-8", "replace")


class LlamaModel:
    """A resident base (`BaseModelHandle`)."""

    def __init__(self, pointer: int, digest: str, header: GGUFHeader, digests: DigestCache) -> None:
        self._lib = llama()
        self._pointer: int | None = pointer
        self._digest = digest
        self._digests = digests
        self._vocabulary = _Vocabulary(pointer)
        self._facts = _facts(self._vocabulary, header)
        self._adapters: dict[str, int] = {}
        self._sessions: list[LlamaSession] = []
        self._pieces: dict[int, bytes] = {}
        self._memo: TokenMemo | None = None
        if self._vocabulary.pre_tokenizes:
            self._memo = TokenMemo(lambda text: self._vocabulary.tokenize(text, special=False), self.piece)

    @property
    def digest(self) -> str:
        """Digest of the bytes that were loaded."""
        return self._digest

    @property
    def facts(self) -> BaseFacts:
        """What its vocabulary and metadata say."""
        return self._facts

    @property
    def adapters_loaded(self) -> int:
        """Number of distinct adapters that are resident."""
        return len(self._adapters)

    def tokenize(self, text: str) -> list[int]:
        """See `BaseModelHandle.tokenize`."""
        return self._memo(text) if self._memo is not None else self._vocabulary.tokenize(text, special=False)

    def tokenize_special(self, text: str) -> list[int]:
        """See `BaseModelHandle.tokenize_special`."""
        return self._vocabulary.tokenize(text, special=True)

    def piece(self, token: int) -> bytes:
        """See `BaseModelHandle.piece`."""
        known = self._pieces.get(token)
        if known is None:
            known = self._pieces[token] = self._vocabulary.piece(token)
        return known

    def open_session(self, adapters: Sequence[AdapterOnDisk], config: ContextConfig) -> Session:
        """See `BaseModelHandle.open_session`."""
        session = LlamaSession(
            self._open_pointer(),
            [(self._adapter(adapter), adapter.scale) for adapter in adapters],
            config,
            n_vocab=self._vocabulary.size(),
        )
        self._sessions = [other for other in self._sessions if not other.closed]
        self._sessions.append(session)
        return session

    def embed(self, text: str) -> list[float]:
        """See `BaseModelHandle.embed`."""
        tokens = self.tokenize(text)
        if self._facts.add_bos and self._facts.bos is not None:
            tokens.insert(0, self._facts.bos)
        if not 0 < len(tokens) <= self._facts.n_ctx_train:
            raise BackendError(
                f"a text of {len(tokens)} tokens cannot be embedded",
                code="backend.prompt",
                remedy=f"Send 1 to {self._facts.n_ctx_train} tokens",
            )
        return embed_tokens(self._open_pointer(), tokens)

    def probe_effect(self, adapter: AdapterOnDisk) -> float:
        """See `BaseModelHandle.probe_effect`."""
        from .base import Abort

        prompt = self.tokenize(_PROBE_TEXT)[: _PROBE_CONTEXT - 1] or [0]
        config = ContextConfig(n_ctx=_PROBE_CONTEXT)
        plain, adapted = [
            LlamaSession(self._open_pointer(), adapters, config, n_vocab=self._vocabulary.size())
            for adapters in ([], [(self._adapter(adapter), adapter.scale)])
        ]
        try:
            for session in (plain, adapted):
                session.prefill(prompt, Abort()).run()
            change = abs(adapted.logits() - plain.logits())
        finally:
            plain.close()
            adapted.close()
        largest = float(change.max())
        return largest if not math.isnan(float(change.sum())) else math.nan

    def _adapter(self, adapter: AdapterOnDisk) -> int:
        known = self._adapters.get(adapter.digest)
        if known is None:
            known = self._adapters[adapter.digest] = self._load_adapter(adapter)
        return known

    def _load_adapter(self, adapter: AdapterOnDisk) -> int:
        with _opened(adapter.path, adapter.digest, self._digests) as (fd, _header):
            file = NativeFile(fd)
            try:
                with captured_log() as log:
                    pointer: int | None = self._lib.llama_adapter_lora_init_from_file_ptr(
                        self._open_pointer(), file.pointer
                    )
            finally:
                file.close()
        if not pointer:
            raise ArtifactError(
                f"llama.cpp refuses adapter `{adapter.name}`: {last_words(log)}",
                code="artifact.adapter.load",
                file=str(adapter.path),
                remedy="Use an adapter that was made for this base and converted to GGUF",
            )
        return pointer

    def _open_pointer(self) -> Any:
        if not self._pointer:
            raise BackendError("the model was closed", code="backend.closed", remedy="Load it again")
        return self._pointer

    def close(self) -> None:
        """Free contexts, adapters and weights, in this order. Idempotent."""
        for session in self._sessions:
            session.close()
        self._sessions.clear()
        for pointer in self._adapters.values():
            self._lib.llama_adapter_lora_free(pointer)
        self._adapters.clear()
        self._vocabulary.close()
        self._pointer = None
