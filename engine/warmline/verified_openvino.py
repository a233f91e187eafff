"""What a variant of OpenVINO names, opened, hashed and checked: model folders and PEFT adapters."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from cachetools import LRUCache

from .artifacts.peft import CONFIG_NAME, WEIGHTS_NAME, PeftAdapter, read_peft
from .backends.base import BaseFacts, ContextConfig
from .backends.openvino_facts import FolderConfig, check_config
from .backends.openvino_names import MAX_XML_BYTES, Network, match, read_network
from .backends.openvino_native import KV_PRECISIONS, PRECISE
from .backends.openvino_pipeline import WEIGHTS, check_device, kv_tokens
from .backends.openvino_vocabulary import check_tokenizer
from .capacity import Capacity, default_budget, fitting, row_bytes
from .digests import DigestCache, open_regular
from .errors import ArtifactError, BackendError
from .store.folders import files_of, folder_digest
from .store.records import StoredFile
from .validation import check_backend, effective_scale
from .variant import Profile, ResolvedAdapter, ResolvedBase
from .verified_files import Admit, KnownAdapter

_REMEMBERED: Final = 16
_XML = "openvino_model.xml"


@dataclass(frozen=True, slots=True)
class _Base:
    network: Network
    config: FolderConfig
    nbytes: int


class FolderFiles:
    """OpenVINO folders, and PEFT adapters by whole module names (`VariantFiles`)."""

    def __init__(self, digests: DigestCache) -> None:
        self._digests = digests
        self._bases: LRUCache[str, _Base] = LRUCache(_REMEMBERED)
        self._adapters: LRUCache[tuple[str, ...], PeftAdapter] = LRUCache(_REMEMBERED)

    def paths(self, artifact: ResolvedBase | ResolvedAdapter) -> list[Path]:
        """See `VariantFiles.paths`."""
        if isinstance(artifact, ResolvedBase):
            return [artifact.path / name for name in files_of(artifact.path)]
        folder = adapter_folder(artifact.path)
        return [folder / WEIGHTS_NAME, folder / CONFIG_NAME]

    def known(self, artifact: ResolvedBase | ResolvedAdapter) -> tuple[str, ...] | None:
        """See `VariantFiles.known`."""
        found = []
        for path in self.paths(artifact):
            with open_regular(path) as fd:
                digest = self._digests.known(fd)
                if digest is None:
                    return None
                found.append((path, digest, os.fstat(fd).st_size))
        if isinstance(artifact, ResolvedBase):
            return (_digest(artifact.path, found),)
        return tuple(digest for _, digest, _ in found)

    def hash(self, path: Path) -> None:
        """See `VariantFiles.hash`."""
        with open_regular(path) as fd:
            self._digests.digest_descriptor(fd)

    def base(self, base: ResolvedBase, admit: Admit) -> str:
        """See `VariantFiles.base`."""
        _check_whole(base.path)
        found = []
        for path in self.paths(base):
            with open_regular(path) as fd:
                found.append((path, self._digests.digest_descriptor(fd), os.fstat(fd).st_size))
        digest = _digest(base.path, found)
        admit(digest)
        if digest not in self._bases:
            network = read_folder(base.path)
            nbytes = sum(size for path, _, size in found if path == base.path / WEIGHTS)
            self._bases[digest] = _Base(network, FolderConfig(base.path), nbytes)
        return digest

    def adapter(self, spec: ResolvedAdapter, base_digest: str, admit: Admit) -> KnownAdapter:
        """See `VariantFiles.adapter`."""
        folder = adapter_folder(spec.path)
        digests = []
        for path in (folder / WEIGHTS_NAME, folder / CONFIG_NAME):
            with open_regular(path) as fd:
                digests.append(self._digests.digest_descriptor(fd))
        admit(digests[0])
        checked = self._adapters.get((base_digest, *digests))
        if checked is None:
            checked = read_peft(folder)
            if checked.digest != digests[0]:
                raise ArtifactError(
                    "the file changed while it was read",
                    code="artifact.changing",
                    file=checked.file,
                    remedy="Wait until the copy or download is complete, then try again",
                )
            match(checked.pairs, self._bases[base_digest].network.matmuls, checked.file)
            self._adapters[base_digest, *digests] = checked
        config = checked.config
        if config.use_rslora:  # alpha / sqrt(r) is no ratio: what counts is the number that the library is given
            factor = Fraction(checked.factor)
        else:
            factor = effective_scale(Fraction(1), config.lora_alpha, config.r)
        return KnownAdapter(
            path=folder / WEIGHTS_NAME,
            digests=tuple(digests),
            rank=config.r,
            alpha=config.lora_alpha,
            nbytes=checked.nbytes,
            factor=factor,
            native_factor=factor,  # the library looks at no config
        )

    def claimed(self, base_digest: str) -> frozenset[str]:
        """See `VariantFiles.claimed`."""
        source = self._bases[base_digest].network.source_digest
        return frozenset({source} if source else ())

    def context(self, profile: Profile, facts: BaseFacts) -> ContextConfig:
        """See `VariantFiles.context`."""
        own = profile.openvino
        check_device(own.device)
        precision = KV_PRECISIONS.get(profile.type_k)
        if precision is None or profile.type_v != profile.type_k:
            raise BackendError(
                f"OpenVINO keeps no KV of types {profile.type_k} and {profile.type_v}",
                code="backend.kv_type",
                field="profile.type_k",
                remedy=f"Use one type for both: {', '.join(KV_PRECISIONS)}",
            )
        properties = {**(PRECISE if own.precise else {}), "KV_CACHE_PRECISION": precision, "DEVICE": own.device}
        if own.prompt_lookup:
            properties["PROMPT_LOOKUP"] = "YES"
        return ContextConfig(
            n_ctx=min(profile.n_ctx, facts.n_ctx_train),
            type_k=profile.type_k,
            type_v=profile.type_v,
            properties=tuple(sorted(properties.items())),
        )

    def capacity(
        self, base_digest: str, adapter_bytes: int, profile: Profile, facts: BaseFacts, context: ContextConfig
    ) -> Capacity:
        """See `VariantFiles.capacity`: what the folder holds; a plugin may unpack it to more."""
        base = self._bases[base_digest]
        rows = base.config.kv_rows()
        per_token = sum(row_bytes(each, context.type_k) for each in rows) if rows else None
        budget = default_budget()
        weights = base.nbytes + adapter_bytes
        return Capacity(
            base_bytes=base.nbytes,
            adapter_bytes=adapter_bytes,
            kv_bytes_per_token=per_token,
            n_ctx=context.n_ctx,
            kv_bytes=per_token * kv_tokens(context.n_ctx) if per_token else None,
            requested=profile.n_ctx,
            n_ctx_train=facts.n_ctx_train,
            clamped=context.n_ctx < profile.n_ctx,
            budget_bytes=budget,
            fits_before=fitting(budget, base.nbytes, per_token, facts.n_ctx_train),
            fits_after=fitting(budget, weights, per_token, facts.n_ctx_train),
            n_layer=len(rows or ()) // 2,
            note="" if rows else "config.json does not tell the number of layers, heads or their width",
        )


def read_folder(folder: Path) -> Network:
    """Read the network of a model folder that is whole: network, weights, tokenizer and config; no library is needed.

    Raises
    ------
    ArtifactError
        ``artifact.folder``, ``artifact.openvino.tokenizer``, ``artifact.openvino.config``, ``artifact.openvino.xml``,
        ``artifact.openvino.weights``.
    """
    _check_whole(folder)
    with open_regular(folder / _XML) as fd:
        xml = os.pread(fd, min(os.fstat(fd).st_size, MAX_XML_BYTES + 1), 0)
    network = read_network(xml, str(folder / _XML))
    with open_regular(folder / WEIGHTS) as fd:
        nbytes = os.fstat(fd).st_size
    if nbytes < network.weights:
        raise ArtifactError(
            f"the file was cut: it has {nbytes} bytes, and the network keeps {network.weights} in it",
            code="artifact.openvino.weights",
            file=str(folder / WEIGHTS),
            remedy="Copy or export the model again",
        )
    return network


def _check_whole(folder: Path) -> None:
    names = files_of(folder)
    for name in (_XML, WEIGHTS):
        if name not in names:
            raise ArtifactError(
                f"the folder holds no {name}",
                code="artifact.folder",
                file=str(folder),
                remedy="Give a folder that holds an exported OpenVINO model",
            )
    check_tokenizer(folder)
    check_config(folder)


def _digest(folder: Path, found: list[tuple[Path, str, int]]) -> str:
    return folder_digest(
        StoredFile(name=path.relative_to(folder).as_posix(), digest=digest, size=size) for path, digest, size in found
    )


def adapter_folder(path: Path) -> Path:
    """Return the folder of an adapter that is named by it or by its weights; refuse what is no PEFT adapter."""
    if path.is_dir():
        return path
    if path.name == WEIGHTS_NAME:
        return path.parent
    with open_regular(path) as fd:
        if os.pread(fd, 4, 0) == b"GGUF":
            check_backend("gguf", "openvino", str(path))
    raise ArtifactError(
        "this is no PEFT adapter",
        code="artifact.peft.folder",
        file=str(path),
        remedy=f"Give the folder that holds {CONFIG_NAME} and {WEIGHTS_NAME}",
    )
