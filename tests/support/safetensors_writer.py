"""Builds safetensors bytes and PEFT folders for tests: right ones, wrong ones, and mutations of right ones."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

TEXT_MUTATIONS = ("number", "string", "double", "nest", "flip", "insert", "delete", "cut", "data", "length")
NUMBERS = ("0", "1", "-1", "7", "4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551615")
NUMBERS += ("1" + "0" * 30, "1.5", "1e3", "1e999", "-0", "NaN", "Infinity", "true", "null", '"8"', "[]", "{}", "[8,8]")

Op = tuple[str, int, int]
Tensors = Mapping[str, tuple[str, Sequence[int], bytes]]


def with_header(header: str | bytes, data: bytes = b"", *, length: int | None = None) -> bytes:
    """Give a file of this header text, with its true length unless told otherwise."""
    raw = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def entry(dtype: object = "F32", shape: object = (2, 2), offsets: object = (0, 16)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def file_of(entries: Mapping[str, object], data: int) -> bytes:
    """Give a file of these entries, as they are, and so many bytes of zeros."""
    return with_header(json.dumps(entries), bytes(data))


def safetensors(tensors: Tensors, metadata: Mapping[str, str] | None = None) -> bytes:
    """Give a good file: each tensor is (type, shape, bytes), laid one after another."""
    entries: dict[str, object] = {} if metadata is None else {"__metadata__": dict(metadata)}
    data = b""
    for name, (dtype, shape, raw) in tensors.items():
        entries[name] = entry(dtype, list(shape), [len(data), len(data) + len(raw)])
        data += raw
    return with_header(json.dumps(entries), data)


def packed(values: np.ndarray, dtype: str = "F32") -> tuple[str, Sequence[int], bytes]:
    """Give an array as a tensor of this type; BF16 takes the upper half of each f32, so the values must fit it."""
    if dtype == "BF16":
        return dtype, values.shape, (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
    return dtype, values.shape, values.astype({"F16": "<f2", "F32": "<f4", "F64": "<f8"}[dtype]).tobytes()


def names(module: str) -> tuple[str, str]:
    return f"base_model.model.{module}.lora_A.weight", f"base_model.model.{module}.lora_B.weight"


def lora_tensors(
    modules: Mapping[str, tuple[int, int]], r: int = 2, dtype: str = "F32", seed: int = 0
) -> dict[str, tuple[str, Sequence[int], bytes]]:
    """Give random factors for modules of (inputs, outputs); the values are exact in all three types."""
    rng = np.random.default_rng(seed)
    tensors = {}
    for module, (inputs, outputs) in modules.items():
        for name, shape in zip(names(module), ((r, inputs), (outputs, r)), strict=True):
            tensors[name] = packed(rng.integers(-127, 128, shape) / 64.0, dtype)
    return tensors


def peft_config(r: int = 2, **fields: object) -> dict[str, object]:
    config: dict[str, object] = {"peft_type": "LORA", "r": r, "lora_alpha": 4, "target_modules": None}
    config.update(fields)
    return config


def peft_folder(folder: Path, tensors: Tensors, config: Mapping[str, object] | None = None) -> Path:
    """Write an adapter as PEFT does."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(peft_config() if config is None else config))
    (folder / "adapter_model.safetensors").write_bytes(safetensors(tensors, {"format": "pt"}))
    return folder


def large_folder(folder: Path, modules: Mapping[str, tuple[int, int]], r: int, dtype: str) -> int:
    """Write an adapter of many bytes, in 16 bits, out of the same few random ones; return the bytes of its data."""
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(peft_config(r)))
    entries, at = {}, 0
    for module, (inputs, outputs) in modules.items():
        for name, shape in zip(names(module), ([r, inputs], [outputs, r]), strict=True):
            end = at + 2 * shape[0] * shape[1]
            entries[name] = entry(dtype, shape, [at, end])
            at = end
    block = packed(np.random.default_rng(0).standard_normal(1 << 18) / 64, dtype)[2]
    with (folder / "adapter_model.safetensors").open("wb") as file:
        file.write(with_header(json.dumps(entries)))
        for start in range(0, at, len(block)):
            file.write(block[: at - start])
    return at


def mutate(data: bytes, ops: Sequence[Op]) -> bytes:
    """Mutate a good file's header text; its length is mended, except where it is what an op mutates."""
    (length,) = struct.unpack_from("<Q", data)
    header, body, claimed = data[8 : 8 + length].decode(), data[8 + length :], None
    for kind, first, second in ops:
        at = first % (len(header) + 1)
        if kind == "number":
            header = _replace(header, r"\d+", first, NUMBERS[second % len(NUMBERS)])
        elif kind == "string":
            strings = re.findall(r'"[^"]*"', header) or ['""']
            header = _replace(header, r'"[^"]*"', first, strings[second % len(strings)])
        elif kind == "double":
            found = re.findall(r'"[^"]*":\s*\{[^{}]*\}', header)
            header = header[:-1] + "," + found[first % len(found)] + "}" if found else header
        elif kind == "nest":
            header = header[:at] + "[{"[second % 2] * (second % 70_000) + header[at:]
        elif kind == "flip":
            header = header[:at] + chr(ord(header[at : at + 1] or "a") ^ 1 << second % 7) + header[at + 1 :]
        elif kind == "insert":
            header = header[:at] + '"\\{}[],: \x00é\ud800'[second % 13 :][:1] + header[at:]
        elif kind == "delete":
            header = header[:at] + header[at + 1 + second % 16 :]
        elif kind == "cut":
            header = header[:at]
        elif kind == "data":
            body = body[: first % (len(body) + 1)] if second % 2 else body + bytes(1 + first % 64)
        elif kind == "length":
            claimed = (first << 32 | second) % 2**64 if second % 2 else max(0, length + first % 33 - 16)
    return with_header(header.encode("utf-8", "surrogatepass"), body, length=claimed)


def _replace(text: str, pattern: str, index: int, new: str) -> str:
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    match = found[index % len(found)]
    return text[: match.start()] + new + text[match.end() :]
