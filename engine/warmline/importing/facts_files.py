"""Writes what a base's GGUF says beside its weights, in the files and words of a Hugging Face export."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..artifacts.gguf import GGUFHeader
from ..backends.base import BaseFacts

CONFIG: Final = "config.json"
GENERATION_CONFIG: Final = "generation_config.json"
TOKENIZER_CONFIG: Final = "tokenizer_config.json"
CHAT_TEMPLATE: Final = "chat_template.jinja"
# Hugging Face has no place for the tokens of fill-in-the-middle.
FIM_TOKENS: Final = "warmline_fim_tokens"
_CLASSES: Final = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
# Their name in Hugging Face's config.json, by the GGUF's key after the architecture.
_NUMBERS: Final = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
}
_REALS: Final = {"rope.freq_base": "rope_theta", "attention.layer_norm_rms_epsilon": "rms_norm_eps"}


def write_facts(folder: Path, header: GGUFHeader, facts: BaseFacts) -> None:
    """Write config.json, generation_config.json, tokenizer_config.json and, where there is one, chat_template.jinja."""
    _write(folder / CONFIG, _config(header, facts))
    ends = sorted(facts.end_of_generation)
    _write(folder / GENERATION_CONFIG, _ids(facts) | {"eos_token_id": ends[0] if len(ends) == 1 else ends})
    _write(folder / TOKENIZER_CONFIG, _tokenizer(facts))
    if facts.chat_template is not None:
        (folder / CHAT_TEMPLATE).write_text(facts.chat_template, "utf-8", "surrogatepass", newline="")


def _config(header: GGUFHeader, facts: BaseFacts) -> dict[str, Any]:
    name = facts.architecture
    config: dict[str, Any] = {
        "architectures": [_CLASSES[name]],
        "model_type": name,
        "vocab_size": header.tensors["token_embd.weight"].ne[1],
        "tie_word_embeddings": "output.weight" not in header.tensors,
        **_ids(facts),
    }
    for keys, read in ((_NUMBERS, header.get_int), (_REALS, header.get_float)):
        for key, theirs in keys.items():
            value = read(f"{name}.{key}")
            if value is not None:
                config[theirs] = value
    config["max_position_embeddings"] = facts.n_ctx_train
    return config | {FIM_TOKENS: dict(facts.fim_tokens)}


def _ids(facts: BaseFacts) -> dict[str, Any]:
    return {
        key: value for key, value in (("bos_token_id", facts.bos), ("eos_token_id", facts.eos)) if value is not None
    }


def _tokenizer(facts: BaseFacts) -> dict[str, Any]:
    """The tokens whose texts are markup, under their ids, and whether prompts begin with BOS."""
    found = {text: facts.lookup(text) for text in facts.special_texts}
    added: Mapping[str, Any] = {
        str(token): {"content": text, "special": True}
        for text, token in sorted(found.items(), key=lambda each: each[1] or 0)
        if token is not None
    }
    texts = {"bos_token": facts.bos_text, "eos_token": facts.eos_text}
    return {
        "add_bos_token": facts.add_bos,
        **{key: text for key, text in texts.items() if text},
        "model_max_length": facts.n_ctx_train,
        "added_tokens_decoder": added,
    }


def _write(path: Path, data: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", "utf-8", "replace")
