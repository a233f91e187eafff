"""What a person sets about suggestions: when they are asked for, what is shown, what the model may see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..setting_fields import number


class SuggestSettings(BaseModel):
    """Suggestions. Immutable; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: What is in force in place of settings that keep files from the model, while their own values cannot be read.
    KEEPING_ALL_BACK: ClassVar[Mapping[str, Any]] = {
        "disabled_languages": ("*",),
        "disabled_paths": ("**",),
        "secret_paths": ("**",),
        "skip_gitignored": True,
    }

    automatic: bool = Field(default=True, description="Suggest while you type; off: only when you ask for it.")
    lines: Literal["auto", "one", "several"] = Field(
        default="auto",
        description="Length of a suggestion: `auto` gives several lines on a blank line, after what opens a block or a "
        "bracket, and whenever you ask; else the rest of the line.",
    )
    min_probability: float = number(
        0.0,
        0.0,
        1.0,
        "mean probability of a token",
        "Hide suggestions of which the model itself is less sure than this.",
        "0 shows all: how sure a model is when it is right differs from model to model; with the example adapters 0.5 "
        "hid one in ten, and none whose first line was right",
    )
    max_right: int = number(
        8,
        0,
        1000,
        "characters",
        "Suggest nothing by itself with more than this right of the cursor.",
        "in the middle of a line a suggestion nobody asked for mostly gets in the way; closers are fewer",
    )
    candidates: int = number(
        3, 1, 3, "suggestions", "Most different suggestions when you ask for them.", "each takes a decode of its own"
    )
    max_debounce_ms: int = number(
        300,
        0,
        5000,
        "milliseconds",
        "Longest wait for the next key before the model is asked; how long follows from your typing rhythm and from "
        "how fast answers come.",
        "longer than that between two keys is a pause, in which a suggestion is welcome",
    )
    reuse: int = number(
        250,
        0,
        10000,
        "suggestions",
        "Suggestions that are kept for when you come back to a place.",
        "some 10 MB at most",
    )
    speculate: bool = Field(
        default=True,
        description="While you read a suggestion, decode what would follow it, as long as nothing else is to do.",
    )
    context_excerpts: int = number(
        0,
        0,
        64,
        "excerpts",
        "Excerpts of recently edited and viewed documents of the folder that the model gets as context; 0 for none. "
        "Only where it gets any text of another document, the path of the one at hand stands in the prompt too.",
        "a new excerpt is some 300 tokens that the model reads before it answers again, and the small example model "
        "suggested worse with one (kept text 0.34 instead of 0.42 over 36 holes); 4 is a good begin for a coding model "
        "of a billion weights or more",
    )
    context_lines: int = number(
        32, 4, 256, "lines", "Lines of one excerpt.", "a function or two around the place that was looked at"
    )
    context_declarations: int = number(
        0,
        0,
        65536,
        "bytes",
        "Room for what recently edited and viewed documents of the folder declare (the first lines of functions, "
        "classes and types; C, C++, Go, Java, JavaScript, Lua, Python, Rust, TypeScript); 0 for none.",
        "they are text that the model reads before it answers again, as excerpts are; 2000 is a good begin where "
        "those help, some 600 tokens for about 50 declarations",
    )
    disabled_languages: tuple[str, ...] = Field(
        default=(),
        description="Language ids (`plaintext`, `markdown`) in whose documents nothing is suggested; `*` for all.",
    )
    disabled_paths: tuple[str, ...] = Field(
        default=(),
        description="Patterns (`*.txt`, `docs/**`) of files in which nothing is suggested and which are no context.",
    )
    enabled_paths: tuple[str, ...] = Field(
        default=(), description="Patterns of files that are exceptions to both; never to those that hold secrets."
    )
    secret_paths: tuple[str, ...] = Field(
        default=(),
        description="Patterns of files that hold secrets, besides the built-in list: no model gets text of theirs.",
    )
    skip_gitignored: bool = Field(
        default=False,
        description="Treat files that Git ignores as disabled: nothing is suggested there, nor taken as context.",
    )
