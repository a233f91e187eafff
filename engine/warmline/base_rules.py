"""The rules for a base in GGUF, one function each, codes ``artifact.base.*``: before llama.cpp sees the file.

llama.cpp reads each key by one exact type. Most wrong types it reports, some end its process, and an array that is
shorter than the vocabulary has been read past its end: the same file must never get that far here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from .artifacts.gguf import GGUFHeader, SkippedArray
from .artifacts.gguf_bytes import DOWNLOAD_AGAIN, shown
from .errors import ArtifactError

TOKENS: Final = "tokenizer.ggml.tokens"
_U32_OR_ARRAY = ("u32", "arr[u32]", "arr[i32]")
# llama-model-loader.cpp, llama-vocab.cpp: the type each key is read by.
_GENERAL_TYPES: Mapping[str, tuple[str, ...]] = {
    "general.architecture": ("str",),
    "general.type": ("str",),
    "general.name": ("str",),
    "split.count": ("u16",),
    "split.no": ("u16",),
    "split.tensors.count": ("i32",),
    "tokenizer.ggml.model": ("str",),
    "tokenizer.ggml.pre": ("str",),
    "tokenizer.ggml.tokens": ("arr[str]",),
    "tokenizer.ggml.scores": ("arr[f32]", "arr[i32]"),
    "tokenizer.ggml.token_type": ("arr[i32]",),
    "tokenizer.ggml.merges": ("arr[str]",),
    "tokenizer.ggml.precompiled_charsmap": ("arr[u8]", "arr[i8]"),
    "tokenizer.ggml.add_bos_token": ("bool",),
    "tokenizer.ggml.add_eos_token": ("bool",),
    "tokenizer.ggml.add_space_prefix": ("bool",),
    "tokenizer.chat_template": ("str",),
    **{
        f"tokenizer.ggml.{token}_token_id": ("u32",)
        for token in ("bos", "eos", "eot", "eom", "unknown", "seperator", "padding", "cls", "mask")
    },
    **{f"tokenizer.ggml.fim_{token}_token_id": ("u32",) for token in ("pre", "suf", "mid", "pad", "rep", "sep")},
}
_ARCHITECTURE_TYPES: Mapping[str, tuple[str, ...]] = {
    "context_length": ("u32",),
    "embedding_length": ("u32",),
    "block_count": ("u32",),
    "vocab_size": ("u32",),
    "expert_count": ("u32",),
    "feed_forward_length": _U32_OR_ARRAY,
    "attention.head_count": _U32_OR_ARRAY,
    "attention.head_count_kv": _U32_OR_ARRAY,
    "attention.key_length": ("u32",),
    "attention.value_length": ("u32",),
    "attention.sliding_window": ("u32",),
    "rope.dimension_count": ("u32",),
    "rope.freq_base": ("f32",),
}
_ONE_A_TOKEN = ("tokenizer.ggml.scores", "tokenizer.ggml.token_type")


def check_base(header: GGUFHeader) -> None:
    """Check all that a base's header says; its tokens only where they were read (``want_arrays=[TOKENS]``).

    Raises
    ------
    ArtifactError
        ``artifact.base.*`` for the first rule that is broken.
    """
    check_types(header)
    check_kind(header)
    check_architecture(header)
    check_tensors(header)
    check_one_file(header)
    check_vocabulary(header)
    check_tokens(header)


def check_types(header: GGUFHeader) -> None:
    """Each key that the runtime reads has the type that it is read by."""
    architecture = header.metadata.get("general.architecture")
    expected = dict(_GENERAL_TYPES)
    if isinstance(architecture, str):
        expected.update({f"{architecture}.{key}": types for key, types in _ARCHITECTURE_TYPES.items()})
    for key, types in expected.items():
        if key in header.types and header.types[key] not in types:
            message = f"the value is of type {header.types[key]}, expected {' or '.join(types)}"
            raise _error("types", message, header, key)


def check_kind(header: GGUFHeader) -> None:
    """The file is a model, not an adapter, a vision projector or the like."""
    kind = header.get_str("general.type")
    if kind not in (None, "model"):
        remedy = "Install an adapter with `warmline adapter add`" if kind == "adapter" else "Give a model's own file"
        raise _error("kind", f"the file is of type '{shown(kind)}', expected 'model'", header, "general.type", remedy)


def check_architecture(header: GGUFHeader) -> None:
    """The file says which architecture it is of."""
    name = header.get_str("general.architecture")
    if not name or "\0" in name:
        raise _error("architecture", "the model names no architecture", header, "general.architecture")


def check_tensors(header: GGUFHeader) -> None:
    """The file holds weights: a vocabulary alone cannot answer."""
    if not header.tensors:
        raise _error("empty", "the file holds no weights", header, None, "Give the model itself, not its vocabulary")


def check_one_file(header: GGUFHeader) -> None:
    """The model is in one file: the parts of a split one would be loaded by their names, unchecked."""
    count = header.get_int("split.count") or 0
    if count > 1:
        message = f"the model is split into {count} files, and only one can be verified and loaded"
        remedy = "Merge them first: llama-gguf-split --merge FIRST.gguf MODEL.gguf"
        raise _error("split", message, header, "split.count", remedy)


def check_vocabulary(header: GGUFHeader) -> None:
    """Arrays that hold one value a token are as long as the vocabulary."""
    tokens = _length(header, "tokenizer.ggml.tokens")
    for key in _ONE_A_TOKEN:
        found = _length(header, key)
        if tokens is not None and found is not None and found != tokens:
            raise _error("vocabulary", f"{found} values for {tokens} tokens", header, key)


def check_tokens(header: GGUFHeader) -> None:
    """No two tokens are alike: llama.cpp ends the process over that. Checked where the tokens were read (`TOKENS`)."""
    tokens = header.metadata.get(TOKENS)
    if not isinstance(tokens, tuple):
        return
    # Empty ones get names of their own there, and bytes that are no text cannot be told apart here.
    texts = [token for token in tokens if isinstance(token, str) and token and "\ufffd" not in token]
    if len(set(texts)) != len(texts):
        twice = next(text for text, count in Counter(texts).items() if count > 1)
        raise _error("tokens", f"the token '{shown(twice, 40)}' is in the vocabulary twice", header, TOKENS)


def _length(header: GGUFHeader, key: str) -> int | None:
    value = header.metadata.get(key)
    if isinstance(value, SkippedArray):
        return value.count
    return len(value) if isinstance(value, tuple) else None


def _error(rule: str, message: str, header: GGUFHeader, at: str | None, remedy: str = DOWNLOAD_AGAIN) -> ArtifactError:
    where = None if at is None else shown(at)
    return ArtifactError(message, code=f"artifact.base.{rule}", file=header.file, field=where, remedy=remedy)
