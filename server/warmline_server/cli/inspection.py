"""What a base's own file or folder says of it: context, quantisation, template, BOS, FIM format."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warmline.digests import DigestCache, bytes_digest, open_regular, short
from warmline.registry import Store
from warmline.store.records import ModelRecord

if TYPE_CHECKING:
    from warmline.backends.base import BaseFacts


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found.

    Parameters
    ----------
    quantisation
        Bytes of weights by type, most first.
    bos
        Id and text of the token that prompts begin with; None when they begin with none.
    bos_told
        Whether the files say with what prompts begin; if not, the engine asks the tokenizer.
    """

    architecture: str
    quantisation: tuple[tuple[str, int], ...]
    n_ctx_train: int
    template_source: str
    template_digest: str
    bos: tuple[int, str] | None
    fim: str
    bos_told: bool = True

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return {
            "quantisation": dict(self.quantisation),
            "n_ctx_train": self.n_ctx_train,
            "template": {"source": self.template_source, "digest": self.template_digest},
            "bos": {"id": self.bos[0], "text": self.bos[1]} if self.bos else None,
            "fim": self.fim,
        }

    def facts(self) -> dict[str, str]:
        """Return it for people."""
        begins = "none" if self.bos_told else "as its tokenizer says"
        total = sum(nbytes for _, nbytes in self.quantisation) or 1
        weights = ", ".join(f"{kind} {_percent(nbytes / total)}" for kind, nbytes in self.quantisation)
        return {
            "architecture": self.architecture,
            "quantisation": weights,
            "context": f"{self.n_ctx_train} tokens",
            "template": f"{self.template_source} {short(self.template_digest)}",
            "BOS": f"{self.bos[1]} ({self.bos[0]})".strip() if self.bos else begins,
            "FIM": self.fim,
        }


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else "<1 %"


def inspect_model(store: Store, record: ModelRecord) -> Inspection:
    """Read a base's header and vocabulary, or a folder's configs and network; no weights are loaded.

    Raises
    ------
    ArtifactError
        The file is gone, changed or broken.
    BackendError
        ``backend.missing``: the native library cannot be loaded.
    """
    return _file(store, record) if record.format == "gguf" else _folder(store, record)


def _file(store: Store, record: ModelRecord) -> Inspection:
    from warmline.backends.llama import LlamaBackend
    from warmline.validation import check_digest, read_base

    path = store.model_path(record)
    digests = DigestCache(store.home / "cache" / "digests.json")
    with open_regular(path) as fd:
        check_digest(digests.digest_descriptor(fd), record.digest, str(path))
        header = read_base(fd, label=str(path))
    weights: Counter[str] = Counter()
    for tensor in header.tensors.values():
        weights[tensor.dtype] += tensor.nbytes
    backend = LlamaBackend(digests)
    try:
        return _inspection(backend.facts(path, record.digest), tuple(weights.most_common()))
    finally:
        backend.close()


def _folder(store: Store, record: ModelRecord) -> Inspection:
    from warmline.backends.openvino_facts import FolderConfig, told_facts
    from warmline.store.folders import digest_folder
    from warmline.validation import check_digest
    from warmline.verified_openvino import read_folder

    path = store.model_path(record)
    digests = DigestCache(store.home / "cache" / "digests.json")
    check_digest(digest_folder(path, digests.digest_descriptor)[0], record.digest, str(path))
    config = FolderConfig(path)
    told = isinstance(config.tokenizer.get("add_bos_token"), bool)
    return _inspection(told_facts(config), read_folder(path).constants, bos_told=told)


def _inspection(facts: BaseFacts, weights: tuple[tuple[str, int], ...], *, bos_told: bool = True) -> Inspection:
    from warmline.prompts.chat import choose_template
    from warmline.prompts.fim import choose_fim

    fim = choose_fim(None, facts.fim_tokens, facts.lookup, facts.end_of_generation)
    template, source = choose_template(None, facts.chat_template)
    return Inspection(
        architecture=facts.architecture,
        quantisation=weights,
        n_ctx_train=facts.n_ctx_train,
        template_source=source,
        template_digest=bytes_digest(template.encode("utf-8", "surrogatepass")),
        bos=(facts.bos, facts.bos_text) if facts.add_bos and facts.bos is not None else None,
        fim=fim.describe(),
        bos_told=bos_told,
    )
