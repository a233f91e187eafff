"""OpenVINO GenAI: one pipeline per exact identity, few of them in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from ..digests import DigestCache
from ..errors import BackendError
from .base import AdapterOnDisk, BaseFacts, ContextConfig, Session
from .openvino_effect import measure_effect
from .openvino_facts import FolderConfig, read_facts
from .openvino_native import PRECISE, version
from .openvino_pipeline import Recipe, build, check_folder, least_bytes
from .openvino_session import OpenVinoSession
from .openvino_vocabulary import Vocabulary
from .openvino_warm import WarmPipelines

_PROBE_TEXT: Final = "def load(path):\n    with open(path) as file:\n        return"
_PROBE_CONTEXT: Final = 256


class OpenVinoBackend:
    """The OpenVINO backend.

    Parameters
    ----------
    digests
        Hashes what is then loaded.
    warm_pipelines
        Pipelines in memory at most; each holds its own copy of the weights.
    pipeline_bytes
        What they may take together, or None for no limit; one stays whatever it takes.
    """

    name = "openvino"

    def __init__(self, digests: DigestCache, *, warm_pipelines: int = 1, pipeline_bytes: int | None = None) -> None:
        self._digests = digests
        self._warm = WarmPipelines(warm_pipelines, pipeline_bytes)
        self._known: dict[str, tuple[Vocabulary, BaseFacts]] = {}
        self._models: list[OpenVinoModel] = []

    @property
    def version(self) -> str:
        """See `openvino_native.version`."""
        return version()

    @property
    def warm(self) -> WarmPipelines:
        """The pipelines in memory."""
        return self._warm

    def facts(self, path: Path, digest: str) -> BaseFacts:
        """See `Backend.facts`; the tokenizer alone is loaded."""
        return self._vocabulary(path, digest)[1]

    def load(self, path: Path, digest: str, progress: Callable[[float], None] | None = None) -> OpenVinoModel:
        """See `Backend.load`; the weights come with the first pipeline, and with each further one again."""
        check_folder(path, digest, self._digests)
        vocabulary, facts = self._vocabulary(path, digest)
        model = OpenVinoModel(path, digest, vocabulary, facts, self._digests, self._warm)
        self._models.append(model)
        return model

    def close(self) -> None:
        """Free everything. Idempotent."""
        for model in self._models:
            model.close()
        self._models.clear()
        self._known.clear()

    def _vocabulary(self, path: Path, digest: str) -> tuple[Vocabulary, BaseFacts]:
        known = self._known.get(digest)
        if known is None:
            check_folder(path, digest, self._digests)
            config = FolderConfig(path)
            vocabulary = Vocabulary(path, config.added_texts())
            known = self._known[digest] = vocabulary, read_facts(path, config, vocabulary)
            check_folder(path, digest, self._digests)
        return known


class OpenVinoModel:
    """A base that identities stand on (`BaseModelHandle`); each of their pipelines loads its own weights."""

    def __init__(
        self,
        path: Path,
        digest: str,
        vocabulary: Vocabulary,
        facts: BaseFacts,
        digests: DigestCache,
        warm: WarmPipelines,
    ) -> None:
        self._path = path
        self._digest = digest
        self._vocabulary = vocabulary
        self._facts = facts
        self._digests = digests
        self._warm = warm
        self._sessions: list[OpenVinoSession] = []
        self._closed = False

    @property
    def path(self) -> Path:
        """The folder."""
        return self._path

    @property
    def digest(self) -> str:
        """Digest of the folder."""
        return self._digest

    @property
    def facts(self) -> BaseFacts:
        """What its configs and tokenizer say."""
        return self._facts

    def tokenize(self, text: str) -> list[int]:
        """See `BaseModelHandle.tokenize`."""
        return self._vocabulary.tokenize(text)

    def tokenize_special(self, text: str) -> list[int]:
        """See `BaseModelHandle.tokenize_special`."""
        return self._vocabulary.tokenize_special(text)

    def piece(self, token: int) -> bytes:
        """See `BaseModelHandle.piece`."""
        return self._vocabulary.piece(token)

    def open_session(self, adapters: Sequence[AdapterOnDisk], config: ContextConfig) -> Session:
        """See `BaseModelHandle.open_session`; raises as `openvino_pipeline.build`."""
        recipe = self._recipe(adapters, config)
        session = OpenVinoSession(
            lambda: build(recipe, self._digests),
            self._warm,
            recipe.config,
            self._facts.end_of_generation,
            lookup=recipe.lookup,
            least=self._least(recipe),
        )
        session.resume()
        self._sessions = [other for other in self._sessions if not other.closed]
        self._sessions.append(session)
        return session

    def embed(self, text: str) -> list[float]:
        """Not to be had: raises BackendError ``backend.unsupported``."""
        raise BackendError(
            "OpenVINO GenAI gives no embeddings of this kind of model",
            code="backend.unsupported",
            remedy="Ask a variant of the backend `llama`",
        )

    def probe_effect(self, adapter: AdapterOnDisk) -> float:
        """Return the largest change of a log-probability that the adapter causes on a fixed prompt, nan if any is nan.

        Measured on a pipeline of its own (`openvino_effect`).
        """
        config = ContextConfig(n_ctx=_PROBE_CONTEXT, properties=tuple(PRECISE.items()))
        recipe = self._recipe([adapter], config)
        self._warm.make_room(self._least(recipe))
        tokens = self.tokenize(_PROBE_TEXT)[: _PROBE_CONTEXT - 1] or [0, 0]
        return measure_effect(recipe, tokens, self._digests)

    def close(self) -> None:
        """Free all pipelines. Idempotent."""
        self._closed = True
        for session in self._sessions:
            session.close()
        self._sessions.clear()

    def _least(self, recipe: Recipe) -> int:
        return least_bytes(recipe, FolderConfig(self._path).kv_rows() or ())

    def _recipe(self, adapters: Sequence[AdapterOnDisk], config: ContextConfig) -> Recipe:
        if self._closed:
            raise BackendError("the model was closed", code="backend.closed", remedy="Load it again")
        return Recipe(self._path, self._digest, tuple(adapters), config)
