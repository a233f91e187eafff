"""Builds GGUF bytes by struct for tests: right ones, wrong ones, and mutations of real ones."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence

U8, U32, I32, F32, BOOL, STR, ARR, U64 = 0, 4, 5, 6, 7, 8, 9, 10
TENSOR_F32, TENSOR_F16, TENSOR_Q4_0, TENSOR_Q8_0 = 0, 1, 2, 8
_BLOCKS = {TENSOR_F32: (1, 4), TENSOR_F16: (1, 2), TENSOR_Q4_0: (32, 18), TENSOR_Q8_0: (32, 34)}

HUGE = (0, 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1)
MUTATIONS = ("flip", "huge", "swap", "splice", "insert", "delete", "cut")

Op = tuple[str, int, int, int]


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return u64(len(raw)) + raw


def kv(key: str | bytes, type_id: int, payload: bytes) -> bytes:
    return text(key) + u32(type_id) + payload


def kv_str(key: str, value: str | bytes) -> bytes:
    return kv(key, STR, text(value))


def kv_arr(key: str, type_id: int, count: int, payload: bytes) -> bytes:
    return kv(key, ARR, u32(type_id) + u64(count) + payload)


def tensor(name: str | bytes, shape: Sequence[int], type_id: int = TENSOR_F32, offset: int = 0) -> bytes:
    return text(name) + u32(len(shape)) + b"".join(map(u64, shape)) + u32(type_id) + u64(offset)


def gguf(
    kvs: Sequence[bytes] = (),
    tensors: Sequence[bytes] = (),
    *,
    data: int = 0,
    magic: bytes = b"GGUF",
    version: int = 3,
    n_kv: int | None = None,
    n_tensors: int | None = None,
    alignment: int = 32,
) -> bytes:
    """Give a file of these raw entries and ``data`` bytes of zeros, with the true counts unless told otherwise."""
    head = magic + u32(version)
    head += u64(len(tensors) if n_tensors is None else n_tensors) + u64(len(kvs) if n_kv is None else n_kv)
    head += b"".join(kvs) + b"".join(tensors)
    return head + bytes(-len(head) % alignment) + bytes(data) if tensors else head


def laid_out(tensors: dict[str, tuple[Sequence[int], int]]) -> tuple[list[bytes], int]:
    """Place tensors one after another; give their entries and the bytes of their data."""
    entries, at, end = [], 0, 0
    for name, (shape, type_id) in tensors.items():
        entries.append(tensor(name, shape, type_id, at))
        block, size = _BLOCKS[type_id]
        end = at + size * shape[0] // block
        for dimension in shape[1:]:
            end += (end - at) * (dimension - 1)
        at = -(-end // 32) * 32
    return entries, end


def lora(tensors: dict[str, tuple[Sequence[int], int]], kvs: dict[str, bytes | None] | None = None) -> bytes:
    """Give a good adapter with these tensors; ``kvs`` replaces (or, with None, removes) entries by key."""
    entries: dict[str, bytes | None] = {
        "general.type": kv_str("general.type", "adapter"),
        "general.architecture": kv_str("general.architecture", "llama"),
        "adapter.type": kv_str("adapter.type", "lora"),
        "adapter.lora.alpha": kv("adapter.lora.alpha", F32, struct.pack("<f", 8.0)),
    }
    entries.update(kvs or {})
    infos, data = laid_out(tensors)
    return gguf([entry for entry in entries.values() if entry is not None], infos, data=data)


def base(tensors: dict[str, tuple[Sequence[int], int]], architecture: str = "llama", kind: str = "model") -> bytes:
    infos, data = laid_out(tensors)
    kvs = [kv_str("general.type", kind), kv_str("general.architecture", architecture)]
    return gguf(kvs, infos, data=data)


class HoledFile(io.RawIOBase):
    """A file of some real bytes and zeros up to a size, without the memory; counts the bytes that were read."""

    def __init__(self, head: bytes, size: int) -> None:
        self.head, self.size, self.at, self.bytes_read = head, size, 0, 0

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self.at = offset + (0, self.at, self.size)[whence]
        return self.at

    def tell(self) -> int:
        return self.at

    def read(self, size: int = -1, /) -> bytes:
        assert size >= 0, "a read without a bound"
        size = max(0, min(size, self.size - self.at))
        part = self.head[self.at : self.at + size]
        self.at += size
        self.bytes_read += size
        return part + bytes(size - len(part))


def marks(data: bytes) -> list[int]:
    """Give where counts, lengths, types and offsets lie in a good file: the places where a mutation hurts."""
    found, at = [8, 16], 24
    n_tensors, n_kv = struct.unpack_from("<QQ", data, 8)
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def length_at() -> int:
        return int(struct.unpack_from("<Q", data, at)[0])

    for _ in range(n_kv):
        found += [at, at + 8 + length_at()]
        at += 8 + length_at()
        kind = struct.unpack_from("<I", data, at)[0]
        at += 4
        if kind == STR:
            found.append(at)
            at += 8 + length_at()
        elif kind == ARR:
            kind, count = struct.unpack_from("<IQ", data, at)
            found += [at, at + 4]
            at += 12
            for index in range(count if kind == STR else 0):
                found += [at] if index < 3 else []
                at += 8 + length_at()
            at += 0 if kind == STR else count * sizes[kind]
        else:
            at += sizes[kind]
    for _ in range(n_tensors):
        name = at
        at += 8 + length_at()
        n_dims = struct.unpack_from("<I", data, at)[0]
        shape = range(at + 4, at + 4 + 8 * n_dims, 8)
        found += [name, at, *shape, at + 4 + 8 * n_dims, at + 8 + 8 * n_dims]
        at += 16 + 8 * n_dims
    return found


def mutate(data: bytes, places: Sequence[int], ops: Sequence[Op]) -> bytes:
    """Apply mutations; the numbers of an op are taken modulo what they choose from."""
    out = bytearray(data)
    for kind, first, second, value in ops:
        # Half of them hit a field, the others anywhere.
        at = places[first // 2 % len(places)] if first % 2 else first // 2 % max(1, len(out))
        other = places[second % len(places)]
        if kind == "flip" and at < len(out):
            out[at] ^= 1 << second % 8
        elif kind == "huge":
            out[at : at + 8] = u64(value)
        elif kind == "swap":
            out[at : at + 8], out[other : other + 8] = out[other : other + 8], out[at : at + 8]
        elif kind == "splice":
            length = value % 4_096
            out[at : at + length] = out[other : other + length]
        elif kind == "insert":
            out[at:at] = u64(value)[: 1 + second % 8]
        elif kind == "delete":
            del out[at : at + 1 + second % 16]
        elif kind == "cut":
            del out[at:]
    return bytes(out)
