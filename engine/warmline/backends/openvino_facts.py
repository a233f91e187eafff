"""What a model folder says of itself: Hugging Face's JSON files, read within limits, and its tokenizer."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeGuard

from ..artifacts.bounded_json import BadJSON, parse_object
from ..digests import open_regular
from ..errors import ArtifactError
from .base import BaseFacts
from .openvino_vocabulary import Vocabulary

MAX_JSON_BYTES: Final = 16 << 20
_DEPTH, _CONTAINERS = 32, 400_000
# Where a folder does not say it, this is what any model of the last years takes.
_LEAST_CONTEXT: Final = 2048
_LAYERS: Final = 4096
_CONFIG: Final = "config.json"
_DIGITS: Final = re.compile(r"[0-9]{1,9}")
_CONTEXT_KEYS: Final = ("max_position_embeddings", "n_positions", "seq_length")
# Not every export names these as ends, though its chat template uses them.
_ENDS: Final = frozenset(
    {
        *("</s>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>"),
        *("<end_of_turn>", "<|eot|>", "<EOT>", "<|return|>", "<|call|>"),
    }
)
# An importer's own place: Hugging Face has none for the tokens of fill-in-the-middle.
_FIM: Final = "warmline_fim_tokens"


class FolderConfig:
    """The JSON files of a model folder; those that are not there are empty.

    Raises
    ------
    ArtifactError
        ``artifact.openvino.config``: a file is too large, or no JSON object.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        whole = _read(folder / _CONFIG)
        text = whole.get("text_config")  # models that also see have one for each part
        self.config: Mapping[str, Any] = text if isinstance(text, dict) else whole
        self.generation = _read(folder / "generation_config.json")
        self.tokenizer = _read(folder / "tokenizer_config.json")

    def added_texts(self) -> list[str]:
        """Texts that are tokens of their own."""
        decoder = self.tokenizer.get("added_tokens_decoder")
        entries = decoder.values() if isinstance(decoder, dict) else ()
        return [
            entry["content"] for entry in entries if isinstance(entry, dict) and isinstance(entry.get("content"), str)
        ]

    def added(self) -> dict[str, int]:
        """Tokens of their own that the configs name with their ids."""
        decoder = self.tokenizer.get("added_tokens_decoder")
        entries = decoder.items() if isinstance(decoder, dict) else ()
        return {
            entry["content"]: int(key)
            for key, entry in entries
            if isinstance(entry, dict) and isinstance(entry.get("content"), str) and _DIGITS.fullmatch(key)
        }

    def ends(self) -> Iterator[int]:
        """Ids that end a text."""
        for source in (self.config, self.generation):
            value = source.get("eos_token_id")
            yield from (one for one in (value if isinstance(value, list) else [value]) if _is_id(one))

    def architecture(self) -> str:
        """The family, as Hugging Face names it (``qwen2``); "" where the folder does not say."""
        found = self.config.get("model_type")
        return found[:200] if isinstance(found, str) else ""

    def context(self) -> int:
        """Tokens that the model was trained for."""
        found = [self.config.get(key) for key in _CONTEXT_KEYS]
        return next((one for one in found if _is_id(one) and one > 0), _LEAST_CONTEXT)

    def kv_rows(self) -> list[int] | None:
        """Elements that K and V of each layer take in a token, K and V in turn; None where the config does not say."""
        layers, heads, width = (
            self.config.get(key) for key in ("num_hidden_layers", "num_attention_heads", "hidden_size")
        )
        if not (_is_id(layers) and _is_id(heads) and _is_id(width) and 0 < layers <= _LAYERS and heads):
            return None
        kept, size = self.config.get("num_key_value_heads"), self.config.get("head_dim")
        return [(kept if _is_id(kept) else heads) * (size if _is_id(size) else width // heads)] * (2 * layers)

    def chat_template(self) -> str | None:
        """The template as its own file, else inside a config."""
        file = self.folder / "chat_template.jinja"
        if file.is_file():
            return _bytes(file).decode("utf-8", "surrogatepass")
        found = _read(self.folder / "chat_template.json").get("chat_template", self.tokenizer.get("chat_template"))
        if isinstance(found, list):  # several by name
            named = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}
            found = named.get("default")
        return found if isinstance(found, str) else None


def check_config(folder: Path) -> None:
    """Check that a model folder has a config, without which its context, its layers and its ends would be guesses.

    Raises
    ------
    ArtifactError
        ``artifact.openvino.config``
    """
    if not (folder / _CONFIG).is_file():
        raise _error(f"the folder holds no {_CONFIG}", folder)


def read_facts(folder: Path, config: FolderConfig, vocabulary: Vocabulary) -> BaseFacts:
    """Put together what the configs say, what the tokenizer says, and what its vocabulary holds."""
    size = len(vocabulary.ids)
    bos = _first_id(size, config.config.get("bos_token_id"), vocabulary.native.get_bos_token_id())
    eos = _first_id(size, *config.ends(), vocabulary.native.get_eos_token_id())
    ends = {one for one in (*config.ends(), eos) if one is not None and one < size}
    ends |= {vocabulary.ids[text.encode()] for text in _ENDS & vocabulary.special_texts}
    says = config.tokenizer.get("add_bos_token")
    return BaseFacts(
        architecture=config.architecture(),
        n_ctx_train=config.context(),
        add_bos=says if isinstance(says, bool) else vocabulary.begins_with() is not None,
        bos=bos,
        eos=eos,
        bos_text=vocabulary.text(bos),
        eos_text=vocabulary.text(eos),
        end_of_generation=frozenset(ends),
        special_texts=vocabulary.special_texts,
        fim_tokens=_fim(config, size),
        chat_template=config.chat_template() or vocabulary.native.get_original_chat_template() or None,
        lookup=vocabulary.lookup,
    )


def told_facts(config: FolderConfig) -> BaseFacts:
    """Put together what the configs alone say, for people: no tokenizer is loaded, so no library is needed.

    What the tokenizer would add is not there: tokens that no config names, a template that only it holds, and whether
    prompts begin with BOS where no config says so (`add_bos` is False then).
    """
    added, size = config.added(), 1 << 31
    texts = {token: text for text, token in added.items()}
    bos, eos = _first_id(size, config.config.get("bos_token_id")), _first_id(size, *config.ends())
    return BaseFacts(
        architecture=config.architecture(),
        n_ctx_train=config.context(),
        add_bos=config.tokenizer.get("add_bos_token") is True,
        bos=bos,
        eos=eos,
        bos_text="" if bos is None else texts.get(bos, ""),
        eos_text="" if eos is None else texts.get(eos, ""),
        end_of_generation=frozenset(config.ends()) | {added[text] for text in _ENDS & added.keys()},
        special_texts=frozenset(added),
        fim_tokens=_fim(config, size),
        chat_template=config.chat_template(),
        lookup=added.get,
    )


def _fim(config: FolderConfig, size: int) -> dict[str, int]:
    found = config.config.get(_FIM)
    pairs = found.items() if isinstance(found, dict) else ()
    return {key: token for key, token in pairs if _is_id(token) and token < size}


def _first_id(size: int, *values: object) -> int | None:
    return next((one for one in values if isinstance(one, int) and _is_id(one) and one < size), None)


def _is_id(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _read(path: Path) -> dict[str, Any]:
    if not os.path.lexists(path):
        return {}
    try:
        return parse_object(_bytes(path), max_depth=_DEPTH, max_containers=_CONTAINERS, floats=True)
    except BadJSON as error:
        raise _error(error.message, path) from None


def _bytes(path: Path) -> bytes:
    with open_regular(path) as fd:
        size = os.fstat(fd).st_size
        if size > MAX_JSON_BYTES:
            raise _error(f"the file has {size} bytes, the limit is {MAX_JSON_BYTES}", path)
        return os.pread(fd, size, 0)


def _error(message: str, path: Path) -> ArtifactError:
    return ArtifactError(
        message, code="artifact.openvino.config", file=str(path), remedy="Export or import the model again"
    )
