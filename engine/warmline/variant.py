"""What people write in files: variants, workspace files, adapter records. Unknown fields are errors."""

from __future__ import annotations

import difflib
import json
import os
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from .digests import DIGEST_PATTERN, open_regular
from .errors import ArtifactError, ConfigError
from .prompts.fim import FimProfile

NAME_PATTERN: Final = r"^[a-z0-9][a-z0-9._-]{0,63}$"
MAX_SCALE: Final = Decimal(4)
MAX_FILE_BYTES: Final = 1 << 20

Backend = Literal["llama", "openvino"]
KVType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Digest = Annotated[str, Field(pattern=DIGEST_PATTERN)]


def _checked_scale(value: Decimal) -> Decimal:
    if value == 0:
        raise ValueError("a scale of 0 switches the adapter off; leave the adapter out instead")
    if abs(value) > MAX_SCALE:
        raise ValueError(f"a scale must lie within -{MAX_SCALE} and {MAX_SCALE}")
    if len(value.as_tuple().digits) > 20 or value.adjusted() < -9:
        raise ValueError("a scale has at most 20 digits and is at least 0.000000001 in size")
    return value


Scale = Annotated[Decimal, Field(allow_inf_nan=False), AfterValidator(_checked_scale)]


class Trust(StrEnum):
    """Who vouches for an artifact: a catalog that the user added, or the user alone."""

    CURATED = "curated"
    USER = "user"


class Model(BaseModel):
    """Base of all file models: immutable, unknown fields refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class FileModel(Model):
    """Base of whole files: an editor may put ``$schema`` in them."""

    json_schema: str | None = Field(default=None, alias="$schema", description="For editors; ignored.")


class Sampling(Model):
    """How tokens are picked. Temperature 0 is greedy: the most probable token, the lowest id on a tie."""

    temperature: Annotated[float, Field(ge=0, le=5, allow_inf_nan=False)] = 0.0
    top_k: Annotated[int, Field(ge=0, le=1000)] = 40
    top_p: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.9
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0


class Profile(Model):
    """How a variant is prompted and run."""

    fim: FimProfile | None = Field(default=None, description="Fill-in-the-middle format; found by itself when absent.")
    bos: Literal["auto", "always", "never"] = Field(
        default="auto", description="Whether a prompt begins with BOS; auto follows the base's metadata."
    )
    chat_template: Annotated[str, Field(max_length=65536)] | None = Field(
        default=None, description="Jinja2 chat template in place of the base's own."
    )
    n_ctx: Annotated[int, Field(ge=128, le=1 << 20)] = Field(
        default=4096, description="Context size in tokens; clamped to what the base was trained for."
    )
    type_k: KVType = Field(default="f16", description="Type of the KV cache's keys.")
    type_v: KVType = Field(default="f16", description="Type of the KV cache's values.")
    max_tokens: Annotated[int, Field(ge=1, le=4096)] = Field(
        default=64, description="Most tokens that one completion decodes."
    )
    sampling: Sampling = Sampling()


class BaseRef(Model):
    """Which base a variant stands on: exactly one of `path` and `package`."""

    name: Name | None = Field(default=None, description="What people call it; taken from the file when absent.")
    path: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        default=None, description="The model file, relative to this file."
    )
    package: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*:[^/\\][^\\]*$", max_length=512)] | None = Field(
        default=None, description="`import_name:file` inside an installed Python package."
    )
    digest: Digest | None = Field(default=None, description="Refuse any other bytes.")

    @model_validator(mode="after")
    def _one_place(self) -> BaseRef:
        if (self.path is None) == (self.package is None):
            raise ValueError("name exactly one of `path` and `package`")
        return self


class AdapterSpec(Model):
    """One adapter of a variant and how strongly it acts."""

    name: Name
    path: Annotated[str, Field(min_length=1, max_length=4096)] = Field(
        description="The adapter file, relative to this file."
    )
    digest: Digest | None = Field(default=None, description="Refuse any other bytes.")
    scale: Scale = Field(default=Decimal(1), description="Finite, not 0, within -4 and 4; times alpha / rank.")


class VariantFile(FileModel):
    """`variants/<backend>/<name>.json` in the user's store, `.warmline/variants/<name>.json` in a workspace."""

    name: Name
    backend: Backend = "llama"
    description: Annotated[str, Field(max_length=1000)] = ""
    base: BaseRef
    adapters: Annotated[tuple[AdapterSpec, ...], Field(max_length=16)] = ()
    profile: Profile = Profile()

    @model_validator(mode="after")
    def _unlike_names(self) -> VariantFile:
        names = [adapter.name for adapter in self.adapters]
        if len(set(names)) != len(names):
            raise ValueError("two adapters have the same name")
        return self


class Overrides(Model):
    """What a workspace changes of the variant it selects."""

    scales: dict[Name, Scale] = Field(default_factory=dict, description="Scale by adapter name.")
    profile: Profile = Field(default=Profile(), description="Only the fields that are written here change.")


class WorkspaceFile(FileModel):
    """`.warmline/config.json`: which variant this workspace works with."""

    variant: Annotated[str, Field(pattern=r"^((llama|openvino)/)?[a-z0-9][a-z0-9._-]{0,63}$")]
    overrides: Overrides = Overrides()


class DeclaredBase(Model):
    """The base an adapter was made for, as its maker says."""

    name: Annotated[str, Field(max_length=200)] | None = None
    digest: Digest | None = None


class AdapterRecord(FileModel):
    """`adapter.json` beside an adapter file: where it came from and what it was made for."""

    name: Name
    backend: Backend = "llama"
    format: Literal["gguf", "safetensors"] = "gguf"
    digest: Digest
    size: Annotated[int, Field(ge=0)]
    rank: Annotated[int, Field(ge=1)]
    alpha: Annotated[float, Field(allow_inf_nan=False)] | None = None
    base: DeclaredBase = DeclaredBase()
    source: Annotated[str, Field(max_length=2000)] = ""
    licence: Annotated[str, Field(max_length=200)] = ""
    installed_at: Annotated[str, Field(max_length=40)] = ""
    trust: Trust = Trust.USER


SCHEMAS: Final[dict[str, type[FileModel]]] = {
    "variant": VariantFile,
    "workspace": WorkspaceFile,
    "adapter": AdapterRecord,
}

F = TypeVar("F", bound=FileModel)


def json_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a file kind: variant, workspace or adapter."""
    schema = SCHEMAS[kind].model_json_schema(by_alias=True, mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"warmline {kind} file", **schema}


def load_file(path: str | os.PathLike[str], model: type[F]) -> F:
    """Read and validate one file.

    Raises
    ------
    ConfigError
        ``config.missing``, ``config.unreadable``, ``config.too_large``, ``config.json`` (not JSON, duplicate keys),
        ``config.unknown_field`` or ``config.field``; `file` and, for the last two, `field` are set.
    """
    name = os.fspath(path)
    try:
        with open_regular(name) as fd:
            data = os.pread(fd, MAX_FILE_BYTES + 1, 0)
    except ArtifactError as error:
        code = "config.missing" if error.code == "artifact.missing" else "config.unreadable"
        raise ConfigError(error.message, code=code, file=name, remedy="Create the file or correct its name") from None
    except OSError as error:
        raise ConfigError(
            f"the file cannot be read: {error.strerror}",
            code="config.unreadable",
            file=name,
            remedy="Check the disk and the file's permissions",
        ) from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(
            f"the file is larger than {MAX_FILE_BYTES} bytes",
            code="config.too_large",
            file=name,
            remedy="This is no Warmline file; correct the name",
        )
    return parse(data, model, name)


def parse(data: bytes | str, model: type[F], file: str) -> F:
    """Validate the text of a file; errors as in `load_file`."""
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        raw = json.loads(text, parse_float=Decimal, object_pairs_hook=_no_duplicates)
    except _DuplicateKeyError as error:
        raise ConfigError(
            "the key is there twice",
            code="config.json",
            file=file,
            field=str(error.args[0]),
            remedy="Remove one of the two",
        ) from None
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}",
            code="config.json",
            file=file,
            remedy="Correct the file there",
        ) from None
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ConfigError(
            f"not readable as JSON: {type(error).__name__}",
            code="config.json",
            file=file,
            remedy="Write the file as UTF-8 JSON",
        ) from None
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise _as_config_error(error, model, file) from None


class _DuplicateKeyError(Exception):
    pass


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _DuplicateKeyError(key)
        result[key] = value
    return result


def _as_config_error(error: ValidationError, model: type[FileModel], file: str) -> ConfigError:
    problems = error.errors(include_url=False)
    # An unknown field is the likeliest slip and explains the others (a misspelt name also looks like a missing one).
    first = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    field = field_path(first["loc"])
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    if first["type"] == "extra_forbidden":
        known = _known_fields(model, first["loc"][:-1])
        near = difflib.get_close_matches(str(first["loc"][-1]), known, n=1)
        remedy = f"Did you mean `{near[0]}`?" if near else f"Known fields here: {', '.join(known)}"
        return ConfigError(
            f"there is no such field{more}", code="config.unknown_field", file=file, field=field, remedy=remedy
        )
    if first["type"] == "missing":
        return ConfigError(
            f"the field is missing{more}", code="config.field", file=file, field=field, remedy="Add the field"
        )
    message = first["msg"].removeprefix("Value error, ")
    return ConfigError(
        message[0].lower() + message[1:] + more,
        code="config.field",
        file=file,
        field=field or None,
        remedy="Correct the value",
    )


def field_path(location: tuple[int | str, ...]) -> str:
    """Write a field's place as people read it: ``adapters[0].scale``."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else (f".{part}" if path else part)
    return path


def _known_fields(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    here: type[BaseModel] = model
    for part in location:
        if isinstance(part, int):
            continue
        info = here.model_fields.get(part)
        inner = info and _model_in(info.annotation)
        if not inner:
            return []
        here = inner
    return [info.alias or name for name, info in here.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        found = _model_in(argument)
        if found:
            return found
    return None


class ResolvedBase(Model):
    """A base with its place on this machine."""

    name: str
    path: Path
    digest: Digest | None = None
    source: str = ""
    workspace: bool = False


class ResolvedAdapter(Model):
    """An adapter with its place on this machine and what is known of it.

    `workspace` artifacts are loaded only after the user approved their digest; `declared_base` comes from the record
    beside the file.
    """

    name: str
    path: Path
    scale: Scale
    digest: Digest | None = None
    declared_base: DeclaredBase = DeclaredBase()
    trust: Trust = Trust.USER
    source: str = ""
    workspace: bool = False


class ResolvedVariant(Model):
    """A variant ready to be asked for: everything found, nothing loaded or verified yet."""

    name: str
    backend: Backend
    base: ResolvedBase
    adapters: tuple[ResolvedAdapter, ...]
    profile: Profile
    file: str
