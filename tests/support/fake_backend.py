"""A backend for protocol edges: it reads headers with our own reader and computes nothing."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import gguf_writer as writer
import numpy as np
from numpy.typing import NDArray
from warmline.artifacts.gguf import read_header
from warmline.backends.base import Abort, Aborted, AdapterOnDisk, BaseFacts, ContextConfig, Prefill
from warmline.errors import BackendError
from warmline.variant import Sampling

TARGETS = {"blk.0.attn_q.weight": ([64, 32], writer.TENSOR_F16)}


def write_base(path: Path, *, template: str = "{{ messages }}", weights: bytes = b"\x01") -> Path:
    """Write a tiny base model: one weight of 64 inputs and 32 outputs."""
    infos, size = writer.laid_out({**TARGETS, "output.weight": ([64, 8], writer.TENSOR_F16)})
    kvs = [
        writer.kv_str("general.type", "model"),
        writer.kv_str("general.architecture", "llama"),
        writer.kv_str("tokenizer.chat_template", template),
        writer.kv("llama.context_length", writer.U32, writer.u32(8192)),
    ]
    data = bytearray(writer.gguf(kvs, infos, data=size))
    data[-1:] = weights
    path.write_bytes(data)
    return path


def write_adapter(path: Path, *, weights: bytes = b"\x01", name: str = "adapter", alpha: float = 8.0) -> Path:
    """Write a tiny adapter of rank 4 that fits `write_base`."""
    infos, size = writer.laid_out(
        {
            "blk.0.attn_q.weight.lora_a": ([64, 4], writer.TENSOR_F16),
            "blk.0.attn_q.weight.lora_b": ([4, 32], writer.TENSOR_F16),
        }
    )
    kvs = [
        writer.kv_str("general.type", "adapter"),
        writer.kv_str("general.architecture", "llama"),
        writer.kv_str("general.name", name),
        writer.kv_str("adapter.type", "lora"),
        writer.kv("adapter.lora.alpha", writer.F32, struct.pack("<f", alpha)),
    ]
    data = bytearray(writer.gguf(kvs, infos, data=size))
    data[-size] = 1  # A is not all zeros, nor is B: together they change something
    data[-1:] = weights
    path.write_bytes(data)
    return path


class FakeSession:
    """Echoes a script of tokens; counts what it was asked to do."""

    can_save = True
    estimates_reuse = False
    resident = True

    def __init__(self, n_ctx: int = 64, script: Sequence[int] = (), on_decode: object = None) -> None:
        self.n_ctx = n_ctx
        self.tokens: list[int] = []
        self.lineage = ()
        self.script = list(script)
        self.decodes = 0
        self.closed = False
        self.on_decode = on_decode

    def prefill(self, prompt: Sequence[int], abort: Abort) -> Prefill:
        kept = 0
        while kept < min(len(self.tokens), len(prompt) - 1) and self.tokens[kept] == prompt[kept]:
            kept += 1
        del self.tokens[kept:]
        return Prefill(kept, self._batches(prompt, kept, abort))

    def _batches(self, prompt: Sequence[int], start: int, abort: Abort) -> Iterator[None]:
        for at in range(start, len(prompt), 64):
            if abort.is_set():
                raise Aborted(abort.reason)
            self.tokens.extend(prompt[at : at + 64])
            yield

    def new_sampler(self, sampling: Sampling, grammar: str | None = None) -> FakeSession:
        return FakeSession(script=self.script)

    def pick(self) -> int:
        self.decodes += 1
        return self.script[(self.decodes - 1) % len(self.script)]

    def logits(self) -> NDArray[np.float32]:
        # The script's first letter is the most probable, then those after it in the alphabet.
        values = np.zeros(256, np.float32)
        for rank in range(8):
            values[(self.script[0] + rank) % 256] = 8 - rank
        return values

    def probability(self, token: int) -> float:
        return 0.5 if token % 2 else 0.25

    def decode(self, token: int, abort: Abort) -> None:
        if callable(self.on_decode):
            self.on_decode(self)
        if abort.is_set():
            raise Aborted(abort.reason)
        self.decodes += 1
        self.tokens.append(token)

    def save(self) -> bytes:
        return repr(self.tokens).encode()

    def restore(self, tokens: Sequence[int], data: bytes, lineage: Sequence[object] = ()) -> bool:
        self.tokens = list(tokens)
        return data == repr(self.tokens).encode()

    def close(self) -> None:
        self.closed = True


class FakeModel:
    """One letter, one token."""

    def __init__(self, backend: FakeBackend, digest: str, facts: BaseFacts) -> None:
        self.backend, self.digest, self.facts = backend, digest, facts
        self.closed = False
        self.effect = 1.0

    def tokenize(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    tokenize_special = tokenize

    def piece(self, token: int) -> bytes:
        return chr(token).encode()

    def open_session(self, adapters: Sequence[AdapterOnDisk], config: ContextConfig) -> FakeSession:
        session = self.backend.make_session(adapters, config)
        self.backend.sessions.append(session)
        return session

    def embed(self, text: str) -> list[float]:
        return [1.0]

    def probe_effect(self, adapter: AdapterOnDisk) -> float:
        return self.backend.effect

    def close(self) -> None:
        self.closed = True


class FakeBackend:
    """Counts loads; may fail on purpose (`fail_load`)."""

    def __init__(self, name: str = "llama.cpp", version: str = "1", script: str = "abc\x00") -> None:
        self.name, self.version = name, version
        self.script = [ord(letter) for letter in script]
        self.loads: list[str] = []
        self.models: list[FakeModel] = []
        self.sessions: list[FakeSession] = []
        self.effect = 1.0
        self.fail_load = False
        self.on_decode: object = None

    def facts(self, path: Path, digest: str) -> BaseFacts:
        metadata = read_header(path).metadata
        return BaseFacts(
            architecture="llama",
            n_ctx_train=metadata.get("llama.context_length", 8192),
            add_bos=True,
            bos=1,
            eos=0,
            bos_text="<s>",
            eos_text="</s>",
            end_of_generation=frozenset({0}),
            special_texts=frozenset({"<s>", "</s>"}),
            fim_tokens={"pre": 5, "suf": 6, "mid": 7},
            chat_template=metadata.get("tokenizer.chat_template"),
            lookup=lambda text: None,
        )

    def load(self, path: Path, digest: str, progress: object = None) -> FakeModel:
        if self.fail_load:
            raise BackendError("it burns", code="backend.load", remedy="Put it out")
        self.loads.append(digest)
        model = FakeModel(self, digest, self.facts(path, digest))
        self.models.append(model)
        return model

    def make_session(self, adapters: Sequence[AdapterOnDisk], config: ContextConfig) -> FakeSession:
        return FakeSession(config.n_ctx, self.script, self.on_decode)

    def close(self) -> None:
        for model in self.models:
            model.close()
