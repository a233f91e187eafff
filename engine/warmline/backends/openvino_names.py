"""Which MatMul of an OpenVINO model an adapter's factors act on: read from the XML, compared by whole names.

GenAI matches by substring and passes over what matches nothing. Here each module of the adapter must be the name of
exactly one MatMul, with the same inputs and outputs, and must be part of no other's name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from xml.parsers import expat

from ..artifacts.gguf_bytes import shown
from ..artifacts.peft_tensors import PeftPair
from ..digests import is_digest
from ..errors import ArtifactError

# A model of 80 layers takes some 10 MB.
MAX_XML_BYTES: Final = 64 << 20
MAX_MATMULS: Final = 20_000
MAX_NAME: Final = 512
# Characters times modules that are searched: some seconds.
_MAX_SEARCH: Final = 10**10
_CHUNK: Final = 1 << 20
_CANONICAL: Final = re.compile(r"__module\.([^/]+)/(?:ov_ext|aten)::linear/MatMul")
_LISTED: Final = 4
_WRONG_BASE: Final = "Choose the base that the adapter was trained on"


@dataclass(frozen=True, slots=True)
class MatMul:
    """One MatMul: its friendly name and the shape of its second input, the weight, as it is stored."""

    name: str
    weight: tuple[int, ...]

    @property
    def module(self) -> str | None:
        """The module's path as PEFT writes it; None where the name is no exporter's."""
        found = _CANONICAL.fullmatch(self.name)
        return found[1] if found else None


@dataclass(frozen=True, slots=True)
class Network:
    """What an ``openvino_model.xml`` tells: its MatMuls in order, and what an import says that it was made of.

    `constants` are the bytes of what it keeps, by element type (``u4``), most first; `weights` is how many bytes the
    file that it keeps them in has at least.
    """

    matmuls: tuple[MatMul, ...]
    source_digest: str | None = None
    constants: tuple[tuple[str, int], ...] = ()
    weights: int = 0


def read_network(xml: bytes, label: str) -> Network:
    """Read an ``openvino_model.xml``, once from its beginning to its end.

    Raises
    ------
    ArtifactError
        ``artifact.openvino.xml``: too large, not well-formed, or with a document type, which could define entities.
    """
    if len(xml) > MAX_XML_BYTES:
        raise _xml_error(f"the file has {len(xml)} bytes, the limit is {MAX_XML_BYTES}", label)
    reader = _Reader(label)
    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = reader.doctype
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.buffer_text = True
    try:
        for at in range(0, len(xml), _CHUNK):
            parser.Parse(xml[at : at + _CHUNK], False)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise _xml_error(f"this is no XML that can be read: {error}", label) from None
    return Network(tuple(reader.found), reader.source, tuple(reader.constants.most_common()), reader.weights)


def match(pairs: Iterable[PeftPair], matmuls: Iterable[MatMul], label: str) -> tuple[str, ...]:
    """Check that all factors of an adapter act, each on one MatMul; return the MatMuls' names in the factors' order.

    Raises
    ------
    ArtifactError
        ``artifact.openvino.unmatched`` (none or some of the modules are in the model; they are listed),
        ``artifact.openvino.ambiguous``, ``artifact.openvino.width``.
    """
    pairs, every = tuple(pairs), tuple(matmuls)
    by_module = {matmul.module: matmul for matmul in every if matmul.module is not None}
    _check_all_there(pairs, by_module, len(every), label)
    wanted = {pair.module: by_module[pair.module].name for pair in pairs}
    _check_alone(wanted, every, label)
    for pair in pairs:
        _check_width(pair, by_module[pair.module], label)
    return tuple(wanted[pair.module] for pair in pairs)


def _check_all_there(pairs: tuple[PeftPair, ...], known: Mapping[str, MatMul], count: int, label: str) -> None:
    lost = [pair.module for pair in pairs if pair.module not in known]
    if not lost:
        return
    names = ", ".join(shown(name) for name in lost[:_LISTED]) + (" and others" if len(lost) > _LISTED else "")
    message = f"{len(lost)} of the adapter's {len(pairs)} modules are not in the model: {names}"
    remedy = _WRONG_BASE
    if not known:
        message += f"; its {count} MatMuls have no module names"
        remedy = "Import the base with `warmline model add BASE.gguf --backend openvino`, or export it again"
    raise _error("unmatched", message, label, lost[0], remedy)


def _check_alone(wanted: Mapping[str, str], every: tuple[MatMul, ...], label: str) -> None:
    # The native match is by substring. One search over all names joined takes a tenth of one for each pair of names.
    joined = "\n".join(matmul.name for matmul in every)
    if len(joined) * len(wanted) > _MAX_SEARCH:
        raise _xml_error(f"{len(every)} MatMuls and {len(wanted)} modules are too many to compare", label)
    for module, name in wanted.items():
        if joined.count(module) != 1:
            other = next(m.name for m in every if module in m.name and m.name != name)
            message = f"the module's name is also part of another MatMul's: {shown(other)}"
            raise _error("ambiguous", message, label, module, "Export the model again, with plain module names")


def _check_width(pair: PeftPair, matmul: MatMul, label: str) -> None:
    inputs, outputs = pair.a.shape[1], pair.b.shape[0]
    if sorted(matmul.weight) != sorted((inputs, outputs)):
        message = f"the adapter is for {inputs} inputs and {outputs} outputs, the weight is {list(matmul.weight)}"
        raise _error("width", message, label, pair.module, _WRONG_BASE)


class _Reader:
    """Collects MatMuls while the parser goes through the file once."""

    def __init__(self, label: str) -> None:
        self.found: list[MatMul] = []
        self.source: str | None = None
        self.constants: Counter[str] = Counter()
        self.weights = 0
        self._constant = False
        self._label = label
        self._name: str | None = None
        self._inside = ""
        self._port = -1
        self._dims: list[int] = []
        self._text: list[str] | None = None

    def doctype(self, *_of: object) -> None:
        raise _xml_error("the file has a document type, which no exporter writes", self._label)

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "layer":
            self._name = attributes.get("name", "") if attributes.get("type") == "MatMul" else None
            self._inside, self._port, self._dims = "", -1, []
            self._constant = attributes.get("type") == "Const"
        elif self._constant and tag == "data":
            kind, size = attributes.get("element_type", ""), _number(attributes.get("size", ""))
            self.constants[kind[:16] if kind.isalnum() else "other"] += size
            self.weights = max(self.weights, _number(attributes.get("offset", "")) + size)
        elif self._name is not None:
            if tag in ("input", "output"):
                self._inside = tag
            elif tag == "port" and self._inside == "input":
                self._port += 1
            elif tag == "dim" and self._inside == "input" and self._port == 1:
                self._text = []
        elif tag == "source_digest" and is_digest(attributes.get("value", "")):
            self.source = attributes["value"]

    def end(self, tag: str) -> None:
        if tag == "dim" and self._text is not None:
            digits, self._text = "".join(self._text).strip(), None
            # A dynamic dimension is -1: no weight has one.
            self._dims.append(_number(digits, otherwise=-1))
        elif tag == "layer" and self._name is not None:
            if len(self.found) >= MAX_MATMULS or len(self._name) > MAX_NAME:
                limits = f"{MAX_MATMULS} MatMuls, or one with a name of more than {MAX_NAME} characters"
                raise _xml_error(f"the model has more than {limits}", self._label)
            self.found.append(MatMul(self._name, tuple(self._dims)))
            self._name = None

    def text(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data[:16])


def _number(digits: str, *, otherwise: int = 0) -> int:
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 14 else otherwise


def _xml_error(message: str, label: str) -> ArtifactError:
    return _error("xml", message, label, None, "Export or import the model again")


def _error(rule: str, message: str, file: str, at: str | None, remedy: str) -> ArtifactError:
    where = None if at is None else shown(at)
    return ArtifactError(message, code=f"artifact.openvino.{rule}", file=file, field=where, remedy=remedy)
