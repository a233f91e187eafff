"""Typed errors: what was wrong, with which file or field, and what to do next."""

from __future__ import annotations

from typing import Any, ClassVar


class WarmlineError(Exception):
    """Base of every error that a person may see.

    Parameters
    ----------
    message
        What was wrong, one sentence, without a trailing full stop.
    code
        Stable dotted code, for programs and documentation anchors (``variant.unknown``).
        The first part is the room that raised it.
    file
        The file that is at fault, as given by the person, or None.
    field
        The field inside that file (``adapters[0].scale``), or None.
    remedy
        What to do next, an imperative sentence.
    """

    default_code: ClassVar[str] = "internal"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        file: str | None = None,
        field: str | None = None,
        remedy: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.file = file
        self.field = field
        self.remedy = remedy

    def __str__(self) -> str:
        where = ""
        if self.file:
            where = self.file + (f": {self.field}" if self.field else "") + ": "
        elif self.field:
            where = f"{self.field}: "
        tail = f". {self.remedy}" if self.remedy else ""
        return f"{where}{self.message}{tail}"

    @property
    def docs(self) -> str:
        """Where the rule behind the code is explained."""
        return "docs/errors.md#" + self.code.replace(".", "-")

    def to_dict(self) -> dict[str, Any]:
        """Return the error as plain JSON data (keys: code, message, file, field, remedy)."""
        return {
            "code": self.code,
            "message": self.message,
            "file": self.file,
            "field": self.field,
            "remedy": self.remedy,
        }

    @staticmethod
    def from_dict(data: dict[str, Any]) -> WarmlineError:
        """Rebuild an error that crossed a process boundary; its class follows from the code's first part."""
        room = str(data.get("code", "internal")).split(".", 1)[0]
        return _BY_ROOM.get(room, WarmlineError)(
            str(data.get("message", "unknown error")),
            code=str(data.get("code", "internal")),
            file=data.get("file"),
            field=data.get("field"),
            remedy=str(data.get("remedy") or ""),
        )


class ConfigError(WarmlineError):
    """A workspace or variant file cannot be used as it is written (codes ``config.*``)."""

    default_code = "config.invalid"


class VariantError(WarmlineError):
    """A variant cannot be resolved or has no effect (codes ``variant.*``)."""

    default_code = "variant.invalid"


class ArtifactError(WarmlineError):
    """A model or adapter file is missing, malformed or incompatible (codes ``artifact.*``)."""

    default_code = "artifact.invalid"


class TrustError(WarmlineError):
    """A workspace brought something that the user has not approved (codes ``trust.*``)."""

    default_code = "trust.unapproved"


class StoreError(WarmlineError):
    """The user's store refuses a change, or cannot make it (codes ``store.*``)."""

    default_code = "store.failed"


class CatalogError(WarmlineError):
    """A catalog, or an entry of one, cannot be used (codes ``catalog.*``)."""

    default_code = "catalog.invalid"


class PromptError(WarmlineError):
    """A prompt cannot be rendered or does not fit (codes ``prompt.*``)."""

    default_code = "prompt.invalid"


class BackendError(WarmlineError):
    """The native library refused or failed (codes ``backend.*``)."""

    default_code = "backend.failed"


class EvaluationError(WarmlineError):
    """A suite cannot be used, or an evaluation cannot go on (codes ``evaluation.*``)."""

    default_code = "evaluation.failed"


class CertificateError(WarmlineError):
    """A certificate cannot be made, read or met (codes ``certificate.*``)."""

    default_code = "certificate.invalid"


_BY_ROOM: dict[str, type[WarmlineError]] = {
    "config": ConfigError,
    "variant": VariantError,
    "artifact": ArtifactError,
    "trust": TrustError,
    "store": StoreError,
    "catalog": CatalogError,
    "prompt": PromptError,
    "backend": BackendError,
    "evaluation": EvaluationError,
    "certificate": CertificateError,
}
