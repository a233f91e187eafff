"""The engine's gRPC interface: method names, codecs, and how typed errors cross the channel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, Protocol, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from ..errors import BackendError, WarmlineError
from ..variant import ResolvedVariant
from .wire import Message

SERVICE: Final = "warmline.v1.Engine"
MAX_MESSAGE: Final = 16 << 20
_BOTH_SIDES: Final = (
    ("grpc.max_send_message_length", MAX_MESSAGE),
    ("grpc.max_receive_message_length", MAX_MESSAGE),
    ("grpc.max_metadata_size", 64 << 10),
    ("grpc.enable_http_proxy", 0),
)
# A host that stands still is noticed while a call waits for it: who is not answered when it asks whether anybody is
# there gives the call up. gRPC would take a client that asks this often for a hostile one.
_PING_MS: Final = 20_000
CLIENTS_OPTIONS: Final = (
    *_BOTH_SIDES,
    ("grpc.keepalive_time_ms", _PING_MS),
    ("grpc.keepalive_timeout_ms", _PING_MS),
    ("grpc.http2.max_pings_without_data", 0),
)
HOSTS_OPTIONS: Final = (
    *_BOTH_SIDES,
    ("grpc.http2.min_recv_ping_interval_without_data_ms", _PING_MS // 2),
    ("grpc.http2.max_ping_strikes", 0),
)
_ERROR_CHARS: Final = 2000
M = TypeVar("M", bound=Message)
R = TypeVar("R", bound=Message, covariant=True)


def encode(message: Message, variant: int | None = None) -> bytes:
    """Write a message as JSON, its request's variant as the number given, if there is one.

    Raises
    ------
    BackendError
        ``backend.message`` for text that is not Unicode.
    """
    try:
        return message.model_dump_json(context=variant).encode()
    except PydanticSerializationError:
        raise BackendError(
            "a name or text is not Unicode and cannot be sent to the engine",
            code="backend.message",
            remedy="Give the file or folder a name in UTF-8",
        ) from None


class Decode(Protocol[R]):
    """Reads a message; raises BackendError ``backend.message``."""

    def __call__(self, data: bytes, variants: Mapping[int, ResolvedVariant] | None = None) -> R:
        """Read a message, whose request's variant may be one of `variants` by its number."""
        ...


def decoder(model: type[M]) -> Decode[M]:
    """Return what reads a message of `model` back."""

    def decode(data: bytes, variants: Mapping[int, ResolvedVariant] | None = None) -> M:
        try:
            return model.model_validate_json(data, context=variants)
        except ValidationError as error:
            raise malformed(error) from None

    return decode


def malformed(error: ValidationError) -> BackendError:
    """Say what is wrong with a message, without its content: that may be somebody's code."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    return BackendError(
        f"malformed message: {first['msg']}",
        code="backend.message",
        field=field or None,
        remedy="End the engine, which is of another version: `warmline engine stop`; the next request starts it "
        "anew. If it stays, start this program again",
    )


def too_large() -> BackendError:
    """Return the error for a request beyond `MAX_MESSAGE`."""
    return BackendError(
        "the request is larger than the engine takes",
        code="backend.message_size",
        remedy="Send less text",
    )


def stopping() -> BackendError:
    """Return the error for what the engine did not begin, or could not end, because it is about to leave."""
    return BackendError(
        "the engine is about to leave",
        code="backend.stopping",
        remedy="Ask again: it is started anew when it is needed",
    )


def error_details(error: WarmlineError) -> str:
    """Write a typed error as gRPC status details."""
    data = {key: value[:_ERROR_CHARS] if isinstance(value, str) else value for key, value in error.to_dict().items()}
    return json.dumps(data)


def error_from_details(details: str | None) -> WarmlineError | None:
    """Read `error_details` back; None when it is something else."""
    try:
        data = json.loads(details or "")
    except ValueError:
        return None
    return WarmlineError.from_dict(data) if isinstance(data, dict) and "code" in data else None


def method_path(method: str) -> str:
    """Return a method's name on the channel."""
    return f"/{SERVICE}/{method}"
