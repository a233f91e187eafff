"""Messages between the faces and the engine: pydantic models, JSON on the wire."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.json_schema import models_json_schema

from ..capacity import Capacity
from ..variant import ResolvedVariant
from .numbered import AskedVariant


class Message(BaseModel):
    """Base of all messages: immutable, unknown fields refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="null")


def _scalars(text: object) -> object:
    """Put U+FFFD in the place of each lone surrogate: an editor may send one, and UTF-8 has none."""
    return _SURROGATE.sub("\ufffd", text) if isinstance(text, str) and not text.isascii() else text


_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# Text of a document or a person.
Text = Annotated[str, BeforeValidator(_scalars)]


class State(StrEnum):
    """What the engine is doing."""

    EMPTY = "empty"
    LOADING = "loading"
    READY = "ready"
    BUSY = "busy"
    SWITCHING = "switching"
    FAILED = "failed"
    STOPPING = "stopping"


class ErrorInfo(Message):
    """A `WarmlineError` as data."""

    code: str
    message: str
    file: str | None = None
    field: str | None = None
    remedy: str = ""


class CompletionRequest(Message):
    """Ask for the text at a cursor.

    `prefix` and `suffix` are the document around the cursor with ``\\n`` line ends, already cut to a bounded window;
    `first_line` is the document line (0-based) on which `prefix` starts, so that the engine can cut further in steps
    that do not move with every key. `client`, `document` and `candidate` form the latest-wins key.

    `context` is text from other documents, each whole and with whatever names it, oldest first; `header` names this
    document where the prompt's format has no place for `path`. `candidate` 0 is the variant's own answer, another
    number the one that begins with a token of that rank. `probability` asks how sure the model was. `idle` asks for
    an answer that nobody waits for: it is decoded while nothing else is to do, and dropped for whatever comes.
    """

    client: str
    document: str
    variant: AskedVariant
    prefix: Text
    suffix: Text = ""
    first_line: Annotated[int, Field(ge=0)] = 0
    path: Text | None = None
    context: tuple[Text, ...] = ()
    header: Text = ""
    candidate: Annotated[int, Field(ge=0, lt=1 << 16)] = 0
    probability: bool = False
    idle: bool = False
    max_tokens: Annotated[int, Field(ge=1, le=4096)] | None = None
    stop: tuple[Text, ...] = ()
    max_prefill_ms: Annotated[int, Field(ge=1)] | None = None
    max_predict_ms: Annotated[int, Field(ge=1)] | None = None


class ToolUse(Message):
    """A call of a tool, for templates that write it as their model does. `arguments` is a JSON object."""

    name: Text
    arguments: Text


class ChatTurn(Message):
    """One message of a conversation; an assistant's may be a `call`, and its `content` stands before that."""

    role: Annotated[str, Field(min_length=1, max_length=32)]
    content: Text
    call: ToolUse | None = None


class ReplyForm(Message):
    """What stands around the JSON that a message is held to; with `or_text_without` it may be a text without that.

    With that and no schema it may be nothing else.
    """

    before: Annotated[str, Field(max_length=64)] = ""
    after: Annotated[str, Field(max_length=64)] = ""
    or_text_without: Annotated[str, Field(max_length=64)] = ""


class ChatRequest(Message):
    """Ask for the assistant's next message. `client` and `conversation` form the latest-wins key.

    With a `json_schema` the message is JSON that validates under it, unless `max_tokens` or a deadline ends it before;
    a schema that cannot be held to is ``backend.schema``. Its ``oneOf`` is held to as ``anyOf``. `form` says what
    stands around it; a thought may stand before it where the variant's profile says how one is marked.

    `tools` is a JSON list of what can be called, which the chat template is given by that name.
    """

    client: str
    conversation: str
    variant: AskedVariant
    messages: Annotated[tuple[ChatTurn, ...], Field(min_length=1)]
    max_tokens: Annotated[int, Field(ge=1, le=65536)] = 512
    json_schema: Annotated[str, Field(max_length=65536)] | None = None
    form: ReplyForm = ReplyForm()
    tools: Annotated[str, Field(max_length=65536)] | None = None
    stop: tuple[str, ...] = ()
    max_prefill_ms: Annotated[int, Field(ge=1)] | None = None
    max_predict_ms: Annotated[int, Field(ge=1)] | None = None


class VariantRequest(Message):
    """Name a variant to load or to describe."""

    variant: ResolvedVariant
    client: str = ""


class StatusRequest(Message):
    """Ask for the status as a client sees it; without a client, as whichever was latest sees it."""

    client: str = ""


class EmbedRequest(Message):
    """Ask for the embedding of a text by a variant's base."""

    variant: ResolvedVariant
    text: str
    client: str = ""


class Embedding(Message):
    """A vector of length 1."""

    values: tuple[float, ...]


class MetricsText(Message):
    """All metrics in Prometheus' text format."""

    text: str


class Empty(Message):
    """Nothing to say."""


class HostInfo(Message):
    """Which engine host answers; `metrics_port` is that of its Prometheus endpoint on 127.0.0.1, 0 without one.

    `protocol` is the host's `protocol()`, empty where it has none yet. Unknown fields are ignored, unlike elsewhere: it
    is by this message that hosts and clients that differ find out.
    """

    model_config = ConfigDict(extra="ignore")

    pid: int
    version: str
    home: str
    started_at: str
    requests: int
    metrics_port: int = 0
    protocol: str = ""


class StopRequest(Message):
    """Ask the host to end; `reason` goes into its log."""

    reason: str = ""


class Started(Message):
    """First event of a generation: the prompt is in the KV and the first token is known.

    `reason` says how warm it was: `warm` (all but the last token reused), `prefix:<reused>/<prompt>`, `cold`,
    `identity:<field>` (the document's last request ran as another identity, whose KV may not be used), `evicted`, or
    `rejected:<why>` (what lay on disk failed its check: `checksum`, `truncated`, `identity`, `format`,
    `owner`, `unreadable`). `reused_estimated` is set where the library does not tell, and `reused_tokens` are those
    that it must have had.
    """

    kind: Literal["started"] = "started"
    identity: str
    prompt_tokens: int
    reused_tokens: int
    reused_estimated: bool = False
    reason: str
    fim: str
    ttft_ms: float


def reused_words(of: Started | LastRequest) -> str:
    """Say how much of a prompt was reused, and whether that is an estimate."""
    estimated = ", estimated" if of.reused_estimated else ""
    return f"{of.reused_tokens} of {of.prompt_tokens} prompt tokens reused{estimated} ({of.reason})"


class Delta(Message):
    """More text. `mean_probability` is that of all tokens so far, if the request asked for it (`Done`)."""

    kind: Literal["delta"] = "delta"
    text: str
    mean_probability: float | None = None


class Outcome(StrEnum):
    """How a generation ended."""

    STOP = "stop"
    LENGTH = "length"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


class Done(Message):
    """Last event. `text` is everything decoded, stop tokens and stop strings cut off.

    `mean_probability` is the mean, over the tokens of the text, of the probability that the model itself gave each
    (softmax of its logits, before temperature and cut-offs); None unless the request asked and the backend tells.
    """

    kind: Literal["done"] = "done"
    outcome: Outcome
    text: str
    predicted_tokens: int
    total_ms: float
    mean_probability: float | None = None


Event = Annotated[Started | Delta | Done, Field(discriminator="kind")]


class Ask(Message):
    """What a client says on its stream of generations: begin number `number`, or, without a request, end it.

    A request holds its variant whole, and with `variant` a number, by which later ones may call it on this stream.
    See `numbered`.
    """

    number: Annotated[int, Field(ge=1)]
    variant: Annotated[int, Field(ge=0)] = 0
    complete: CompletionRequest | None = None
    chat: ChatRequest | None = None


class Tell(Message):
    """What the host says of the generation `number`: events that became known together, in order, or its error.

    Number 0 is no generation's: a message could not be read, not even whose it is, so all who wait get the error.
    """

    number: int
    events: tuple[Event, ...] = ()
    error: ErrorInfo | None = None


class BaseStatus(Message):
    """The base at work; `merged_from` says what a merged model was made of, and is None for any other."""

    name: str
    digest: str
    source: str = ""
    architecture: str = ""
    trust: str = "user"
    merged_from: str | None = None


class AdapterStatus(Message):
    """One adapter at work. `verified` is true when the adapter's declared base digest is the base's own."""

    name: str
    digest: str
    scale: str
    effective_scale: str
    trust: str
    verified: bool
    source: str = ""
    declared_base: str = ""
    rank: int = 0
    alpha: float | None = None
    effect: float | None = None
    zero_pairs: int = 0


class BackendStatus(Message):
    """Which native library runs, in its own words."""

    name: str
    version: str


class ContextStatus(Message):
    """The context in force, in tokens; `clamped` when the profile asked for more than the base was trained for."""

    n_ctx: int
    clamped: bool


class LastRequest(Message):
    """The latest request that reached a first token; times in milliseconds."""

    reused_tokens: int
    prompt_tokens: int
    reused_estimated: bool = False
    reason: str
    ttft_ms: float
    total_ms: float
    outcome: str


class VariantStatus(Message):
    """A variant, verified: what answers, and where it came from.

    `identity_fields` are what the identity digest is made of: `identity.differences` of two names what differs.
    `capacity` is what it takes in memory.
    """

    variant: str
    identity: str
    base: BaseStatus
    adapters: tuple[AdapterStatus, ...]
    backend: BackendStatus
    context: ContextStatus
    fim: str
    template: str
    bos: str
    identity_fields: tuple[tuple[str, str], ...] = ()
    capacity: Capacity | None = None


class EngineStatus(Message):
    """The engine's state, and of the variant it was last asked for what is known.

    While it loads, `loading` names the base and `percent` says how far it is. `revision` grows with each change, from 1
    on in each engine: an answer may arrive after news that are newer. It is 0 where no engine was asked.
    """

    state: State
    loading: str | None = None
    percent: Annotated[int, Field(ge=0, le=100)] | None = None
    active: VariantStatus | None = None
    last: LastRequest | None = None
    error: ErrorInfo | None = None
    revision: Annotated[int, Field(ge=0)] = 0


# How messages travel, which their schemas do not say: to be changed with that.
_TRANSPORT: Final = "gRPC, and frames with four bytes of length for generations"


@functools.cache
def protocol() -> str:
    """Return a short digest of all messages and of how they travel: programs with the same understand each other."""
    models = sorted((model for model in Message.__subclasses__() if model.__module__ == __name__), key=str)
    _, schemas = models_json_schema([(model, "validation") for model in models])
    return hashlib.sha256(json.dumps([_TRANSPORT, schemas], sort_keys=True).encode()).hexdigest()[:16]
