"""What people write in files: variants and workspace files. Unknown fields are errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from .errors import WarmlineError
from .filemodel import (
    MAX_FILE_BYTES,
    NAME_PATTERN,
    Backend,
    Digest,
    FileModel,
    Model,
    Name,
    Trust,
    field_path,
    load_file,
    parse,
)
from .prompts.fim import FimProfile
from .store.records import AdapterRecord, DeclaredBase

__all__ = [
    "MAX_FILE_BYTES",
    "MAX_SCALE",
    "NAME_PATTERN",
    "AdapterRecord",
    "AdapterSpec",
    "Backend",
    "BaseRef",
    "Claim",
    "DeclaredBase",
    "Digest",
    "FileModel",
    "KVType",
    "Model",
    "Name",
    "OpenVinoProfile",
    "Overrides",
    "Profile",
    "Reasoning",
    "ResolvedAdapter",
    "ResolvedBase",
    "ResolvedVariant",
    "Sampling",
    "Scale",
    "ToolFormat",
    "Trust",
    "VariantFile",
    "WorkspaceFile",
    "field_path",
    "json_schema",
    "load_file",
    "parse",
]

MAX_SCALE: Final = Decimal(4)

KVType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]


def _checked_scale(value: Decimal) -> Decimal:
    if value == 0:
        raise ValueError("a scale of 0 switches the adapter off; leave the adapter out instead")
    if not -MAX_SCALE <= value <= MAX_SCALE:
        raise ValueError(f"a scale must lie within -{MAX_SCALE} and {MAX_SCALE}")
    if len(value.as_tuple().digits) > 20 or value.adjusted() < -9:
        raise ValueError("a scale has at most 20 digits and is at least 0.000000001 in size")
    return value


Scale = Annotated[Decimal, Field(allow_inf_nan=False), AfterValidator(_checked_scale)]


class Sampling(Model):
    """How tokens are picked. Temperature 0 is greedy: the most probable token, the lowest id on a tie."""

    temperature: Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)] = Field(
        default=0.0, description="0 takes the most probable token; above it one is drawn, more evenly the higher it is."
    )
    top_k: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=40, description="Draw among so many of the most probable tokens; 0: among all."
    )
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = Field(
        default=0.9, description="Draw among the most probable tokens that together have this probability; 1: all."
    )
    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(
        default=0, description="Begins the random numbers: the same seed draws the same tokens."
    )


class OpenVinoProfile(Model):
    """What OpenVINO alone is told."""

    device: Annotated[str, Field(pattern=r"^[A-Z]{3,8}(\.[0-9]{1,2})?$")] = Field(
        default="CPU", description="Where the model runs: `CPU`, `GPU`, `NPU`, or one of several by number (`GPU.1`)."
    )
    precise: bool = Field(
        default=True, description="Compute what the model says, in place of the plugin's faster roundings."
    )
    prompt_lookup: bool = Field(
        default=False, description="Guess tokens from the prompt's own text and check several at once."
    )


#: What a profile may claim its variant is good for; `warmline certify` runs suites for each.
Claim = Literal["completion", "chat", "tools", "reasoning"]
ToolFormat = Literal["hermes", "llama3"]
_Mark = Annotated[str, Field(min_length=1, max_length=64)]


class Reasoning(Model):
    """How a model marks its thoughts, which are no part of its answer."""

    open: _Mark = Field(default="<think>", description="What stands before a thought.")
    close: _Mark = Field(default="</think>", description="What stands behind it.")
    prompted: bool = Field(
        default=False, description="The chat template has written `open` already: every answer begins within a thought."
    )
    keep: bool = Field(
        default=False, description="Send thoughts back with what was said; most models want them left out."
    )

    def canonical(self) -> str:
        """Write it in the one form that is identity."""
        return json.dumps([self.open, self.close, self.prompted, self.keep], ensure_ascii=False)


class Profile(Model):
    """How a variant is prompted and run."""

    fim: FimProfile | None = Field(default=None, description="Fill-in-the-middle format; found by itself when absent.")
    bos: Literal["auto", "always", "never"] = Field(
        default="auto", description="Whether a prompt begins with BOS; auto follows the base's metadata."
    )
    chat_template: Annotated[str, Field(max_length=65536)] | None = Field(
        default=None, description="Jinja2 chat template in place of the base's own."
    )
    reasoning: Reasoning | None = Field(
        default=None, description="How thoughts are marked; absent: all that the model writes is its answer."
    )
    tools: ToolFormat | None = Field(
        default=None,
        description="The agent's tool calls in the model's own format, which its chat template has to render from "
        "`tools`: `hermes` (`<tool_call>` around JSON) or `llama3` (bare JSON); absent: Warmline's own, to which any "
        "model can be held.",
    )
    n_ctx: Annotated[int, Field(ge=128, le=1 << 20)] = Field(
        default=4096, description="Context size in tokens; clamped to what the base was trained for."
    )
    type_k: KVType = Field(default="f16", description="Type of the KV cache's keys.")
    type_v: KVType = Field(default="f16", description="Type of the KV cache's values.")
    max_tokens: Annotated[int, Field(ge=1, le=4096)] = Field(
        default=64, description="Most tokens that one completion decodes."
    )
    sampling: Sampling = Field(default=Sampling(), description="How tokens are picked.")
    claims: Annotated[tuple[Claim, ...], Field(max_length=4)] = Field(
        default=(),
        description="What the variant is said to be good for, and `warmline certify` tests: `completion`, `chat`, "
        "`tools`, `reasoning`.",
    )
    openvino: OpenVinoProfile = Field(
        default=OpenVinoProfile(), description="Settings of the OpenVINO backend; llama.cpp ignores them."
    )


class BaseRef(Model):
    """Which base a variant stands on: an installed one by its `name` alone, or a file by `path` or `package`."""

    name: Name | None = Field(
        default=None,
        description="An installed base (`warmline model list`); beside `path` or `package`, what people call that one.",
    )
    path: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        default=None, description="The model file, relative to this file."
    )
    package: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*:[^/\\][^\\]*$", max_length=512)] | None = Field(
        default=None, description="`import_name:file` inside an installed Python package."
    )
    digest: Digest | None = Field(default=None, description="Refuse any other bytes.")

    @model_validator(mode="after")
    def _one_place(self) -> BaseRef:
        if self.path is not None and self.package is not None:
            raise ValueError("name one of `path` and `package`, not both")
        if self.path is None and self.package is None and self.name is None:
            raise ValueError("name an installed base by `name`, or a file by `path` or `package`")
        return self

    @property
    def installed(self) -> bool:
        """Whether the base is one of the store's, named by its name alone."""
        return self.path is None and self.package is None


class AdapterSpec(Model):
    """One adapter of a variant and how strongly it acts."""

    name: Name = Field(description="An installed adapter (`warmline adapter list`), unless there is a `path`.")
    path: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        default=None, description="The adapter file, relative to this file; absent for an installed adapter."
    )
    digest: Digest | None = Field(default=None, description="Refuse any other bytes.")
    scale: Scale = Field(default=Decimal(1), description="Finite, not 0, within -4 and 4; times alpha / rank.")


class VariantFile(FileModel):
    """`variants/<backend>/<name>.json` in the user's store, `.warmline/variants/<name>.json` in a workspace."""

    name: Name = Field(description="What it is selected by; the file is called the same.")
    backend: Backend = Field(
        default="llama", description="What runs it: `llama` (llama.cpp) or `openvino` (OpenVINO GenAI)."
    )
    description: Annotated[str, Field(max_length=1000)] = Field(
        default="", description="One line for whoever chooses between variants."
    )
    base: BaseRef = Field(description="The base model that it stands on.")
    adapters: Annotated[tuple[AdapterSpec, ...], Field(max_length=16)] = Field(
        default=(), description="LoRA adapters that act on the base together, none to sixteen."
    )
    profile: Profile = Field(default=Profile(), description="How it is prompted and run.")

    @model_validator(mode="after")
    def _unlike_names(self) -> VariantFile:
        names = [adapter.name for adapter in self.adapters]
        if len(set(names)) != len(names):
            raise ValueError("two adapters have the same name")
        return self

    def to_json(self) -> bytes:
        """Write the file as a person would: only what was set, numbers as numbers."""
        data = self.model_dump(mode="python", by_alias=True, exclude_unset=True)
        data |= {"name": self.name, "backend": self.backend}
        return (json.dumps(data, indent=2, ensure_ascii=False, default=_plain) + "\n").encode()


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        # A float where that is exactly the number that was meant, else its digits as text, which reads back exactly.
        return float(value) if Decimal(repr(float(value))) == value else str(value)
    raise TypeError(f"not JSON: {type(value).__name__}")


class Overrides(Model):
    """What a workspace changes of the variant it selects."""

    scales: dict[Name, Scale] = Field(default_factory=dict, description="Scale by adapter name.")
    profile: Profile = Field(default=Profile(), description="Only the fields that are written here change.")


class WorkspaceFile(FileModel):
    """`.warmline/config.json`: which variant this workspace works with."""

    variant: Annotated[str, Field(pattern=r"^((llama|openvino)/)?[a-z0-9][a-z0-9._-]{0,63}$")] = Field(
        description="The variant to work with: its name, or backend/name where both backends have one."
    )
    chat: Annotated[str, Field(pattern=r"^((llama|openvino)/)?[a-z0-9][a-z0-9._-]{0,63}$")] | None = Field(
        default=None,
        description="The variant to chat with, in the editor's chat and commands, the agent and `warmline chat`, as "
        "its own file says. Unset: `variant`.",
    )
    overrides: Overrides = Field(default=Overrides(), description="What changes of `variant` here.")

    def selects(self, *, chat: bool = False) -> tuple[str, Overrides]:
        """Return the name of the variant to complete or to chat with, and what changes of it here."""
        if chat and self.chat not in (None, self.variant):
            return self.chat or "", Overrides()
        return self.variant, self.overrides


def json_schema(kind: str) -> dict[str, Any]:
    """See `schemas.json_schema`, which knows all kinds of files."""
    from .schemas import json_schema as of

    return of(kind)


# The field of a variant's file that says which artifact it is; an installed one is named by its name alone.
NamedBy = Literal["name", "path", "package"]


class ResolvedBase(Model):
    """A base with its place on this machine; `workspace` and `named_by` as in `ResolvedAdapter`.

    `merged_from` says what a merged model was made of (``qwen+acme``); None for any other. `source_digest` is the GGUF
    file that the store imported it from.
    """

    name: str
    path: Path
    digest: Digest | None = None
    digest_recorded: bool = False
    source_digest: Digest | None = None
    source: str = ""
    workspace: bool = False
    named_by: NamedBy = "path"
    trust: Trust = Trust.USER
    merged_from: str | None = None


class ResolvedAdapter(Model):
    """An adapter with its place on this machine and what is known of it.

    What a workspace brings or picks (`workspace`) is loaded only if the user approved its digest, by installing it or
    by answering; `declared_base` comes from the store's record, or from the record beside the file. `named_by` is the
    field of the variant's file that says which one it is. The `digest` stands in that file too, or with
    `digest_recorded` in the artifact's record.
    """

    name: str
    path: Path
    scale: Scale
    digest: Digest | None = None
    digest_recorded: bool = False
    declared_base: DeclaredBase = DeclaredBase()
    trust: Trust = Trust.USER
    source: str = ""
    workspace: bool = False
    named_by: NamedBy = "path"


class ResolvedVariant(Model):
    """A variant ready to be asked for: everything found, nothing loaded or verified yet."""

    name: str
    backend: Backend
    base: ResolvedBase
    adapters: tuple[ResolvedAdapter, ...]
    profile: Profile
    file: str


@contextmanager
def blamed(variant: ResolvedVariant, part: str, named_by: str = "") -> Iterator[None]:
    """Point errors about an artifact at the field of the variant file that names it; the artifact stays in the text."""
    try:
        yield
    except WarmlineError as error:
        if error.file == variant.file:
            raise
        inner = error.field
        if inner in ("digest", "scale"):
            error.field = f"{part}.{inner}"
        elif inner is None or not inner.startswith(part):
            error.field = f"{part}.{named_by}" if named_by else part
            if inner:
                error.message = f"{inner}: {error.message}"
        if error.file:
            error.message = f"{error.file}: {error.message}"
        error.file = variant.file
        raise
