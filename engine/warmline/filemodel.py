"""JSON files that people and the store write: their common types, and reading with errors that name file and field."""

from __future__ import annotations

import difflib
import json
import os
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from .digests import DIGEST_PATTERN, open_regular
from .errors import ArtifactError, ConfigError

NAME_PATTERN: Final = r"^[a-z0-9][a-z0-9._-]{0,63}$"
_LARGEST_EXPONENT: Final = 300
MAX_FILE_BYTES: Final = 1 << 20
_SHOWN: Final = 80  # characters of a wrong value in its error
# Windows opens a device by these names, whatever folder or extension they stand with.
RESERVED_NAMES: Final = frozenset({"con", "prn", "aux", "nul"} | {f"{d}{n}" for d in ("com", "lpt") for n in range(10)})

Backend = Literal["llama", "openvino"]
BACKENDS: Final[tuple[Backend, ...]] = ("llama", "openvino")


def _checked_name(name: str) -> str:
    if name.partition(".")[0] in RESERVED_NAMES:
        raise ValueError(f"`{name}` is the name of a device on Windows; choose another name")
    if name.endswith("."):
        raise ValueError("a name does not end with a full stop, which Windows would drop")
    return name


Name = Annotated[str, Field(pattern=NAME_PATTERN), AfterValidator(_checked_name)]
Digest = Annotated[str, Field(pattern=DIGEST_PATTERN)]


class Trust(StrEnum):
    """Who vouches for an artifact: a catalog that the user added, or the user alone."""

    CURATED = "curated"
    USER = "user"


class Model(BaseModel):
    """Base of all file models: immutable, unknown fields refused."""

    # Built at first use: a command needs few of them, and they are most of what importing them takes.
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)


class FileModel(Model):
    """Base of whole files: an editor may put ``$schema`` in them."""

    json_schema: str | None = Field(default=None, alias="$schema", description="For editors; ignored.")


NEWER_SCHEMA: Final = "newer_schema"

F = TypeVar("F", bound=FileModel)


def load_file(path: str | os.PathLike[str], model: type[F], *, max_bytes: int = MAX_FILE_BYTES) -> F:
    """Read and validate one file of at most `max_bytes`.

    Raises
    ------
    ConfigError
        ``config.missing``, ``config.unreadable``, ``config.too_large``, ``config.json`` (not JSON, duplicate keys),
        ``config.unknown_field``, ``config.field`` or ``config.newer`` (a record that a newer Warmline wrote); `file` is
        set, and `field` where one is at fault.
    """
    name = os.fspath(path)
    try:
        with open_regular(name) as fd:
            data = _at_most(fd, max_bytes + 1)
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
    if len(data) > max_bytes:
        raise ConfigError(
            f"the file is larger than {max_bytes} bytes",
            code="config.too_large",
            file=name,
            remedy="This is no Warmline file; correct the name",
        )
    return parse(data, model, name)


def _at_most(fd: int, count: int) -> bytes:
    # What is asked for is allocated before it is read: ask for little more than is there.
    asked = min(os.fstat(fd).st_size + 1, count)
    data = os.pread(fd, asked, 0)
    if len(data) < asked:
        return data
    while len(data) < count and (more := os.pread(fd, count - len(data), len(data))):  # it has grown meanwhile
        data += more
    return data


def parse(data: bytes | str, model: type[F], file: str) -> F:
    """Validate the text of a file; errors as in `load_file`."""
    try:
        text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
        raw = _DECODER.decode(text)
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
        why = str(error) if type(error) is ValueError else type(error).__name__
        raise ConfigError(
            f"not readable as JSON: {why}",
            code="config.json",
            file=file,
            remedy="Write the file as UTF-8 JSON",
        ) from None
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise _as_config_error(error, model, file) from None


def _number(text: str) -> Decimal:
    """Read a number that is not an integer, exactly; one that could only be written with hundreds of digits is none."""
    try:
        value = Decimal(text)
    except ArithmeticError:
        raise ValueError("a number is out of range") from None
    if value.is_finite() and value and abs(value.adjusted()) > _LARGEST_EXPONENT:
        # Turned into an integer, 1e999999999 would take the process with it.
        raise ValueError("a number is out of range")
    return value


class _DuplicateKeyError(Exception):
    pass


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise _DuplicateKeyError(key)
        result[key] = value
    return result


_DECODER: Final = json.JSONDecoder(parse_float=_number, object_pairs_hook=_no_duplicates)


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
    if first["type"] == NEWER_SCHEMA:
        return ConfigError(message, code="config.newer", file=file, field="schema", remedy="Update Warmline")
    given = f", not {given!r}" if isinstance(given := first["input"], str) and 0 < len(given) <= _SHOWN else ""
    return ConfigError(
        message[0].lower() + message[1:] + given + more,
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
        inner = info and model_in(info.annotation)
        if not inner:
            return []
        here = inner
    return [info.alias or name for name, info in here.model_fields.items()]


def model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that a field's annotation holds, itself or inside a list, a mapping or a union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        found = model_in(argument)
        if found:
            return found
    return None
