"""Fill-in-the-middle: which sentinels a base knows, in which order, and the prompt's token ids.

Formats, each from its model's own card or paper (order in brackets):

- Qwen2.5-Coder, CodeGemma (prefix-first): ``<|fim_prefix|>{p}<|fim_suffix|>{s}<|fim_middle|>``
- StarCoder2, Granite (prefix-first): ``<fim_prefix>{p}<fim_suffix>{s}<fim_middle>``
- CodeLlama (prefix-first): ``<PRE> {p} <SUF>{s} <MID>``; a space before a sentinel is part of its piece (``▁<SUF>``),
  the one after ``<PRE>`` belongs to the text
- DeepSeek-Coder (prefix-first): ``<｜fim▁begin｜>{p}<｜fim▁hole｜>{s}<｜fim▁end｜>``: *hole* stands where others put
  the suffix sentinel, *end* where others put the middle one
- Codestral (suffix-first): ``[SUFFIX]{s}[PREFIX]{p}``, no middle sentinel
- Mellum (suffix-first): ``<filename>name\\n<fim_suffix>{s}<fim_prefix>{p}<fim_middle>``
- Seed-Coder (suffix-first): ``<[fim-suffix]>{s}<[fim-prefix]>{p}<[fim-middle]>``

Suffix-first here always means suffix sentinel, suffix, prefix sentinel, prefix, middle sentinel. The other training
layout of that name (``<PRE><SUF>{s}<MID>{p}``, StarCoder and CodeLlama papers) is not offered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from warmline.errors import PromptError

FimOrder = Literal["prefix-first", "suffix-first", "prefix-only"]
Lookup = Callable[[str], int | None]
Tokenize = Callable[[str], list[int]]

_TokenText = Annotated[StrictStr, Field(min_length=1, max_length=256)]
_TokenId = Annotated[StrictInt, Field(ge=0)]


class FimTokens(BaseModel):
    """Sentinel texts as a person writes them in a profile; each must be exactly one token of the base."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    prefix: _TokenText = Field(description="The token before the text that is left of the cursor.")
    suffix: _TokenText = Field(description="The token before the text that is right of the cursor.")
    middle: _TokenText | None = Field(
        default=None, description="The token after which the middle is written; absent where the format has none."
    )


class FimProfile(BaseModel):
    """How the base is asked to fill in the middle; what is absent is found by itself."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    order: FimOrder | None = Field(
        default=None,
        description="Which part comes first; absent: as the recognised family does. `prefix-only` forces plain "
        "continuation.",
    )
    tokens: FimTokens | None = Field(
        default=None, description="Texts of the sentinel tokens; they win over the base's metadata and vocabulary."
    )
    stops: tuple[_TokenText | _TokenId, ...] = Field(
        default=(), description="More tokens that end the middle: ids, or texts that are one token each."
    )


@dataclass(frozen=True)
class FimFormat:
    """How one base is asked for a middle; every sentinel is a token id.

    Parameters
    ----------
    order
        Which half stands first.
    prefix, suffix, middle
        Sentinel ids. All None for ``prefix-only``; middle may be None when suffix-first (Codestral).
    file_header
        Id of the sentinel that precedes a file name line (Mellum), or None.
    prefix_lead
        Text between the prefix sentinel and the prefix (CodeLlama's space).
    stops
        Ids that end the middle, sorted.
    source
        Which rule chose the sentinels: ``profile``, ``metadata``, ``token-text:<family>`` or ``prefix-only``.
    reason
        For a person: where the fill-in-the-middle tokens and their order come from, or why there are none.
    """

    order: FimOrder
    prefix: int | None = None
    suffix: int | None = None
    middle: int | None = None
    file_header: int | None = None
    prefix_lead: str = ""
    stops: tuple[int, ...] = ()
    source: str = "prefix-only"
    reason: str = ""

    def canonical(self) -> str:
        """Return the string that enters the identity: what is rendered and what ends it, not which rule chose it."""
        fields = {
            "file_header": self.file_header,
            "middle": self.middle,
            "order": self.order,
            "prefix": self.prefix,
            "prefix_lead": self.prefix_lead,
            "stops": list(self.stops),
            "suffix": self.suffix,
        }
        return "fim/1 " + json.dumps(fields, sort_keys=True, separators=(",", ":"))

    def describe(self) -> str:
        """Return one line for status and doctor: the order, and why it is that."""
        return f"{self.order.replace('-', ' ')}: {self.reason}"


@dataclass(frozen=True)
class _Family:
    """A sentinel convention that a vocabulary can be recognised by."""

    name: str
    order: FimOrder
    prefix: str
    suffix: str
    middle: str | None
    ends: tuple[str, ...] = ()  # texts which end a middle besides EOS and the sentinels
    needs: tuple[str, ...] = ()  # further texts that must be tokens, where families share their sentinels
    lacks: tuple[str, ...] = ()  # texts that must not be tokens
    file_header: str | None = None
    prefix_lead: str = ""


_BAR = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
_PLAIN = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")
_STAR_ENDS = ("<|endoftext|>", "<fim_pad>", "<file_sep>", "<filename>", "<repo_name>", "<reponame>")

# Order matters: the first family that matches wins, so one with `needs` stands before its look-alikes.
# Mellum's vocabulary is StarCoder's with ChatML tokens; Granite 3 has <|start_of_role|> instead. A Mellum without
# ChatML tokens is taken for Granite: its profile must state the order.
_FAMILIES: tuple[_Family, ...] = (
    _Family("codegemma", "prefix-first", *_BAR, ends=("<|file_separator|>",), needs=("<|file_separator|>",)),
    _Family("qwen", "prefix-first", *_BAR, ends=("<|endoftext|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>")),
    _Family(
        "mellum",
        "suffix-first",
        *_PLAIN,
        ends=_STAR_ENDS,
        needs=("<filename>", "<|im_start|>"),
        lacks=("<|start_of_role|>",),
        file_header="<filename>",
    ),
    _Family("starcoder2", "prefix-first", *_PLAIN, ends=_STAR_ENDS, needs=("<file_sep>", "<repo_name>")),
    _Family("granite", "prefix-first", *_PLAIN, ends=_STAR_ENDS),
    _Family("codellama", "prefix-first", "▁<PRE>", "▁<SUF>", "▁<MID>", ends=("▁<EOT>",), prefix_lead=" "),
    _Family("codellama", "prefix-first", "<PRE>", "<SUF>", "<MID>", ends=("<EOT>",), prefix_lead=" "),
    _Family("deepseek", "prefix-first", "<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", ends=("<|EOT|>",)),
    _Family("codestral", "suffix-first", "[PREFIX]", "[SUFFIX]", None),
    _Family("seed-coder", "suffix-first", "<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>"),
)


@dataclass(frozen=True)
class _Found:
    """A family with its sentinels' ids in one vocabulary."""

    family: _Family
    prefix: int
    suffix: int
    middle: int | None


def _recognise(lookup: Lookup) -> _Found | None:
    """Return the first family whose sentinels are all single tokens of the vocabulary."""
    for family in _FAMILIES:
        prefix, suffix = lookup(family.prefix), lookup(family.suffix)
        middle = lookup(family.middle) if family.middle is not None else None
        if prefix is None or suffix is None or (family.middle is not None and middle is None):
            continue
        if any(lookup(text) is None for text in family.needs) or any(lookup(t) is not None for t in family.lacks):
            continue
        return _Found(family, prefix, suffix, middle)
    return None


def choose_fim(
    profile: FimProfile | None,
    metadata_ids: Mapping[str, int],
    lookup: Lookup,
    eos_ids: Iterable[int],
) -> FimFormat:
    """Choose the fill-in-the-middle format of one variant; the choice says its source and reason.

    Sentinels, first rule that applies: the profile's own texts; the base's GGUF metadata; a known family by token
    text; else prefix-only. Order: the profile's; else the order of the family whose sentinels were chosen; else
    prefix-first (GGUF never states an order). ``order: prefix-only`` in the profile ends the matter.

    Parameters
    ----------
    profile
        The variant's ``fim`` section, or None.
    metadata_ids
        Values of ``tokenizer.ggml.fim_{pre,suf,mid,pad,rep,sep}_token_id``, keyed ``pre``, ``suf``, ``mid``, ...
    lookup
        Token text to its id when the text is exactly one token of the vocabulary, else None.
    eos_ids
        The base's end-of-generation ids; always stops.

    Raises
    ------
    PromptError
        ``prompt.fim_token``: the profile names a sentinel or a stop that is not one token of the vocabulary, two
        sentinels that are the same token, or prefix-first without a middle sentinel.
    """
    stops = set(eos_ids) | _profile_stops(profile, lookup)
    order = profile.order if profile else None

    if order == "prefix-only":
        return FimFormat("prefix-only", stops=tuple(sorted(stops)), reason="the profile asks for it")
    if profile and profile.tokens:
        # The profile's own stops are the whole list here: whoever names the sentinels knows what ends the middle.
        return _from_profile(profile.tokens, order, lookup, stops)

    found = _recognise(lookup)
    ids = {key: value for key, value in metadata_ids.items() if isinstance(value, int) and value >= 0}
    if "pre" in ids and "suf" in ids:
        same = found is not None and (found.prefix, found.suffix) == (ids["pre"], ids["suf"])
        family = found.family if found is not None and same else None
        chosen, why = _order(order, family)
        if "mid" in ids or chosen == "suffix-first":
            stops |= set(ids.values()) | _family_ends(family, lookup)
            return FimFormat(
                chosen,
                ids["pre"],
                ids["suf"],
                ids.get("mid"),
                file_header=_header(family, lookup),
                prefix_lead=family.prefix_lead if family else "",
                stops=tuple(sorted(stops)),
                source="metadata",
                reason=f"fill-in-the-middle tokens named by the base's file, {why}",
            )
    if found is not None:
        family = found.family
        chosen, why = _order(order, family)
        if found.middle is not None or chosen == "suffix-first":
            stops |= {i for i in (found.prefix, found.suffix, found.middle) if i is not None}
            stops |= _family_ends(family, lookup)
            return FimFormat(
                chosen,
                found.prefix,
                found.suffix,
                found.middle,
                file_header=_header(family, lookup),
                prefix_lead=family.prefix_lead,
                stops=tuple(sorted(stops)),
                source=f"token-text:{family.name}",
                reason=f"{family.name}'s fill-in-the-middle tokens, found in the base's vocabulary"
                + (f", {why}" if order else ""),
            )
        return FimFormat(
            "prefix-only",
            stops=tuple(sorted(stops)),
            reason=f"the profile asks for prefix-first, which {family.name}'s fill-in-the-middle tokens cannot do",
        )
    asked = f", so the profile's order ({order}) has nothing to apply to" if order else ""
    return FimFormat(
        "prefix-only",
        stops=tuple(sorted(stops)),
        reason=f"this base has no fill-in-the-middle tokens{asked}",
    )


def _order(asked: FimOrder | None, family: _Family | None) -> tuple[FimOrder, str]:
    if asked is not None:
        return asked, "in the profile's order"
    if family is not None:
        return family.order, f"in {family.name}'s order"
    return "prefix-first", "in the usual order, since nothing states another"


def _family_ends(family: _Family | None, lookup: Lookup) -> set[int]:
    ends = (lookup(text) for text in (family.ends if family else ()))
    return {token for token in ends if token is not None}


def _header(family: _Family | None, lookup: Lookup) -> int | None:
    return lookup(family.file_header) if family and family.file_header else None


def _profile_stops(profile: FimProfile | None, lookup: Lookup) -> set[int]:
    stops: set[int] = set()
    for index, stop in enumerate(profile.stops if profile else ()):
        stops.add(stop if isinstance(stop, int) else _one_token(stop, f"profile.fim.stops[{index}]", lookup))
    return stops


def _from_profile(tokens: FimTokens, order: FimOrder | None, lookup: Lookup, stops: set[int]) -> FimFormat:
    prefix = _one_token(tokens.prefix, "profile.fim.tokens.prefix", lookup)
    suffix = _one_token(tokens.suffix, "profile.fim.tokens.suffix", lookup)
    middle = None
    if tokens.middle is not None:
        middle = _one_token(tokens.middle, "profile.fim.tokens.middle", lookup)
    for name, token, others in (("suffix", suffix, {prefix}), ("middle", middle, {prefix, suffix})):
        if token in others:
            raise PromptError(
                "two FIM sentinels are the same token",
                code="prompt.fim_token",
                field=f"profile.fim.tokens.{name}",
                remedy="Give each sentinel its own token",
            )
    # A familiar trio keeps its family's order, header and spacing; foreign trios default to prefix-first.
    found = _recognise(lookup)
    same = found is not None and (found.prefix, found.suffix, found.middle) == (prefix, suffix, middle)
    family = found.family if found is not None and same else None
    chosen, why = _order(order, family)
    if middle is None and chosen == "prefix-first":
        raise PromptError(
            "prefix-first needs a middle sentinel",
            code="prompt.fim_token",
            field="profile.fim.tokens.middle",
            remedy='Name the middle sentinel, or set "order": "suffix-first"',
        )
    return FimFormat(
        chosen,
        prefix,
        suffix,
        middle,
        file_header=_header(family, lookup),
        prefix_lead=family.prefix_lead if family else "",
        stops=tuple(sorted(stops)),
        source="profile",
        reason=f"fill-in-the-middle tokens named by the profile, {why}",
    )


def _one_token(text: str, field: str, lookup: Lookup) -> int:
    token = lookup(text)
    if token is None:
        raise PromptError(
            f"{text!r} is not one token of the base's vocabulary",
            code="prompt.fim_token",
            field=field,
            remedy="Use a text that the base's tokenizer holds as a single token, or leave it out",
        )
    return token


def render(
    fim: FimFormat,
    prefix_text: str,
    suffix_text: str,
    *,
    tokenize: Tokenize,
    bos: int | None,
    path: str | None = None,
) -> list[int]:
    """Return the prompt's token ids.

    Parameters
    ----------
    tokenize
        Plain text to ids: no BOS, no special parsing, and no dummy space in front (a SentencePiece tokenizer adds
        one: the backend must take it off). Sentinel texts never pass through it, so a document that spells
        ``<|fim_middle|>`` stays text.
    bos
        The BOS id when the base's policy wants one, else None.
    path
        The document's name for formats with a file header; its line ends become spaces. None leaves the header out.
    """
    prefix_ids = tokenize(fim.prefix_lead + prefix_text) if fim.prefix_lead + prefix_text else []
    suffix_ids = tokenize(suffix_text) if suffix_text and fim.order != "prefix-only" else []
    return _layout(fim, prefix_ids, suffix_ids, tokenize=tokenize, bos=bos, path=path)


def assemble(
    fim: FimFormat,
    prefix_ids: Sequence[int],
    suffix_ids: Sequence[int],
    *,
    tokenize: Tokenize,
    bos: int | None,
    path: str | None = None,
    before: Sequence[int] = (),
) -> list[int]:
    """Return the prompt from halves that are tokens already (``window.fit``), so nothing is tokenised twice.

    Layout and parameters as in `render`; `before` stands right after BOS. ``prefix_lead`` becomes tokens of its own
    here. With both halves empty the length of the answer is the format's overhead, in tokens.
    """
    lead = tokenize(fim.prefix_lead) if fim.prefix_lead else []
    return _layout(fim, [*lead, *prefix_ids], suffix_ids, tokenize=tokenize, bos=bos, path=path, before=before)


def _layout(
    fim: FimFormat,
    prefix_ids: Sequence[int],
    suffix_ids: Sequence[int],
    *,
    tokenize: Tokenize,
    bos: int | None,
    path: str | None,
    before: Sequence[int] = (),
) -> list[int]:
    ids = [*([] if bos is None else [bos]), *before]
    if fim.order == "prefix-only":
        return [*ids, *prefix_ids]
    if fim.prefix is None or fim.suffix is None:
        raise PromptError("this FIM format lacks a sentinel", code="prompt.fim_token", remedy="Use choose_fim")
    if fim.file_header is not None and path is not None:
        ids += [fim.file_header, *tokenize(" ".join(path.splitlines()) + "\n")]
    middle = [] if fim.middle is None else [fim.middle]
    left, right = [fim.prefix, *prefix_ids], [fim.suffix, *suffix_ids]
    # Suffix-first keeps everything in place while a person types: the prompt changes only before its last token.
    first, second = (right, left) if fim.order == "suffix-first" else (left, right)
    return [*ids, *first, *second, *middle]
