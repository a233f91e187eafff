"""Chat templates from model files, rendered to prompt text within the sandbox's bounds."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import jinja2
from jinja2.exceptions import SecurityError

from ..errors import PromptError
from .sandbox import MARK, METER, Meter, Metered, RefusedError, Sandbox, TemplateLimits, limit_error

__all__ = ["CHATML", "ChatTemplate", "TemplateLimits", "TemplateSource", "choose_template"]

TemplateSource = Literal["profile", "metadata", "default"]

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""What is rendered when neither the profile nor the base brings a template."""


def choose_template(profile: str | None, metadata: str | None) -> tuple[str, TemplateSource]:
    """Return the text that is rendered and who brought it: the profile, else the base's metadata, else ChatML."""
    if profile is not None:
        return profile, "profile"
    if metadata is not None and metadata.strip():
        return metadata, "metadata"
    return CHATML, "default"


class ChatTemplate:
    """One compiled chat template; safe to share between threads.

    Parameters
    ----------
    text
        The Jinja source.
    source
        Who brought it; named in errors and in status.

    Attributes
    ----------
    template_digest
        SHA-256 (hex) of the UTF-8 bytes that are rendered; part of the identity.

    Raises
    ------
    PromptError
        ``prompt.template_syntax``, ``prompt.template_security`` (a construct that is not offered) or
        ``prompt.template_limit`` (too long, or nested too deeply).
    """

    def __init__(self, text: str, *, source: TemplateSource = "profile", limits: TemplateLimits | None = None) -> None:
        self.text = text
        self.source = source
        self.limits = limits or TemplateLimits()
        self._template: jinja2.Template | None = None
        if len(text) > self.limits.template_chars:
            raise self._error("limit", f"the chat template is longer than {self.limits.template_chars} characters")
        try:
            self.template_digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
            sandbox = Sandbox()
            tree = Metered().visit(sandbox.parse(text))
            tree.set_environment(sandbox)
            self._template = sandbox.from_string(tree)
        except Exception as error:
            raise self._explain(error, compiling=True) from error

    @classmethod
    def choose(cls, profile: str | None, metadata: str | None, *, limits: TemplateLimits | None = None) -> ChatTemplate:
        """Return the profile's template, else the base's own (``tokenizer.chat_template``), else ChatML."""
        text, source = choose_template(profile, metadata)
        return cls(text, source=source, limits=limits)

    def generate_prompt(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        bos_token: str = "",
        eos_token: str = "",
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """Render messages to the prompt's text.

        Parameters
        ----------
        messages
            JSON-like mappings, usually ``role`` and ``content``. The template sees a copy.
        add_generation_prompt
            Whether the text ends where the assistant's answer begins.
        bos_token, eos_token
            Texts of the base's tokens. A template that writes BOS itself must not get a second one later.
        variables
            Further JSON-like variables (``tools``, ``enable_thinking``); they never replace those above.

        Raises
        ------
        PromptError
            ``prompt.template_limit``, ``prompt.template_security``, ``prompt.template_undefined``,
            ``prompt.template_refused`` (the template's own ``raise_exception``), ``prompt.template_failed``, or
            ``prompt.messages`` (values that are not JSON-like).
        """
        return "".join(
            self.generate_pieces(
                messages,
                (),
                add_generation_prompt=add_generation_prompt,
                bos_token=bos_token,
                eos_token=eos_token,
                variables=variables,
            )
        )

    def generate_pieces(
        self,
        messages: Sequence[Mapping[str, Any]],
        special_texts: Iterable[str],
        *,
        add_generation_prompt: bool = True,
        bos_token: str = "",
        eos_token: str = "",
        variables: Mapping[str, Any] | None = None,
    ) -> tuple[str, ...]:
        """Render as `generate_prompt` does, cut so that messages cannot speak in special tokens.

        The pieces joined are the prompt. Wherever a message spells one of ``special_texts`` (two characters or more),
        a cut goes through it: pieces that are tokenised one by one, special parsing on, give the template's own
        sentinels as tokens and those in the messages as plain text.
        """
        texts = sorted((re.escape(text) for text in special_texts if len(text) > 1), key=len, reverse=True)
        special = re.compile(f"(?=({'|'.join(texts)}))") if texts else None
        context = _plain(dict(variables or {}), special, "variables")
        context |= {
            "messages": _plain(list(messages), special, "messages"),
            "add_generation_prompt": bool(add_generation_prompt),
            "bos_token": bos_token,
            "eos_token": eos_token,
        }
        assert self._template is not None
        meter = Meter(self.limits)
        token = METER.set(meter)
        try:
            meter.size(context)
            parts, length = [], 0
            for part in self._template.root_render_func(self._template.new_context(context)):
                length += len(part)
                if length > self.limits.output_chars:
                    raise limit_error(
                        f"the chat template's output is longer than {self.limits.output_chars} characters"
                    )
                parts.append(part)
        except Exception as error:
            raise self._explain(error) from error
        finally:
            METER.reset(token)
        return tuple(piece for piece in "".join(parts).split(MARK) if piece)

    def _explain(self, error: Exception, *, compiling: bool = False) -> PromptError:
        """Turn whatever came out of Jinja into a typed error that names the template's line."""
        line = getattr(error, "lineno", None) if compiling else self._line(error)
        where = f" (line {line})" if line else ""
        said = str(error)[:300] or type(error).__name__
        if isinstance(error, PromptError):
            return self._error("limit", error.message + where)
        if isinstance(error, (RecursionError, MemoryError, OverflowError)):
            return self._error("limit", f"the chat template goes beyond Python's limits{where}: {said}")
        if isinstance(error, SecurityError):
            return self._error("security", f"the chat template does what the sandbox forbids{where}: {said}")
        if isinstance(error, RefusedError):
            return self._error("refused", f"the chat template refuses these messages{where}: {said}")
        if isinstance(error, jinja2.UndefinedError):
            return self._error("undefined", f"the chat template uses what is not defined{where}: {said}")
        if compiling or isinstance(error, jinja2.TemplateSyntaxError):
            return self._error("syntax", f"the chat template is not valid{where}: {said}")
        return self._error("failed", f"the chat template failed{where}: {type(error).__name__}: {said}")

    def _error(self, kind: str, message: str) -> PromptError:
        fields = {"profile": "profile.chat_template", "metadata": "tokenizer.chat_template", "default": None}
        remedy = "Set another chat template in the variant's profile"
        if kind == "refused":
            remedy = "Send the messages in the order and with the roles that this template expects"
        return PromptError(message, code=f"prompt.template_{kind}", field=fields[self.source], remedy=remedy)

    def _line(self, error: Exception) -> int | None:
        found, trace = None, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == "<template>" and self._template is not None:
                found = self._template.get_corresponding_lineno(trace.tb_lineno)
            trace = trace.tb_next
        return found


def _plain(value: Any, special: re.Pattern[str] | None, place: str, depth: int = 0) -> Any:
    """Copy a JSON-like value: no foreign object reaches a template, no lone surrogate reaches a tokenizer."""
    if isinstance(value, str):
        text = str(value).replace(MARK, "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if special is None:
            return text
        starts = [match.start() + 1 for match in special.finditer(text)]
        return MARK.join(text[a:b] for a, b in zip([0, *starts], [*starts, len(text)], strict=True))
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if depth < 32 and isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {str(key): _plain(part, special, f"{place}.{key}", depth + 1) for key, part in value.items()}
    if depth < 32 and isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return [_plain(part, special, f"{place}[{index}]", depth + 1) for index, part in enumerate(value)]
    raise PromptError(
        f"{type(value).__name__} is not JSON-like, or nested too deeply",
        code="prompt.messages",
        field=place,
        remedy="Send strings, numbers, true, false, null, lists and mappings with string keys",
    )
