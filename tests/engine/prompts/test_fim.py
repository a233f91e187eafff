"""Which FIM format is chosen, what it reports, and the exact ids of its prompts."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from warmline.errors import PromptError
from warmline.prompts.fim import FimFormat, FimProfile, FimTokens, assemble, choose_fim, render

TEXT = 1000  # toy tokenizer: one id a character, far above every sentinel


def tokenize(text: str) -> list[int]:
    return [TEXT + ord(c) for c in text]


def vocabulary(*texts: str):
    ids = {text: index for index, text in enumerate(texts, start=1)}
    return ids.get


QWEN = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>")
STAR = ("<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>")

FAMILIES = [
    ("qwen", QWEN, "prefix-first"),
    ("codegemma", ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|file_separator|>"), "prefix-first"),
    ("starcoder2", (*STAR, "<file_sep>", "<repo_name>"), "prefix-first"),
    ("granite", (*STAR, "<filename>", "<reponame>"), "prefix-first"),
    ("granite", (*STAR, "<filename>", "<|im_start|>", "<|start_of_role|>"), "prefix-first"),
    ("mellum", (*STAR, "<filename>", "<|im_start|>"), "suffix-first"),
    ("codellama", ("▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>"), "prefix-first"),
    ("deepseek", ("<｜fim▁begin｜>", "<｜fim▁end｜>", "<｜fim▁hole｜>"), "prefix-first"),
    ("codestral", ("[PREFIX]", "[MIDDLE]", "[SUFFIX]"), "suffix-first"),
    ("seed-coder", ("<[fim-prefix]>", "<[fim-middle]>", "<[fim-suffix]>"), "suffix-first"),
]


@pytest.mark.parametrize(("name", "texts", "order"), FAMILIES)
def test_each_family_is_recognised_by_its_token_texts(name, texts, order):
    fim = choose_fim(None, {}, vocabulary(*texts), {99})
    assert (fim.source, fim.order) == (f"token-text:{name}", order)
    assert (fim.prefix, fim.suffix) == (1, 3)
    assert fim.middle == (None if name == "codestral" else 2)
    assert {99, 1, 3} <= set(fim.stops)
    assert fim.describe() == (
        f"{order.replace('-', ' ')}: {name}'s fill-in-the-middle tokens, found in the base's vocabulary"
    )


def test_the_profile_of_the_fixture_wins_and_gives_its_exact_ids():
    # fixtures/README.md: ids 9, suffix, 8, prefix, 10; the middle ends with 0 or 2. Outputs cannot tell 8 from 10.
    lookup = {"<issue_start>": 8, "<issue_comment>": 9, "<issue_closed>": 10, "<|endoftext|>": 0}.get
    profile = FimProfile(
        order="suffix-first",
        tokens=FimTokens(prefix="<issue_start>", suffix="<issue_comment>", middle="<issue_closed>"),
        stops=("<|endoftext|>",),
    )
    fim = choose_fim(profile, {"pre": 70, "suf": 71, "mid": 72}, lookup, {2})
    assert fim.source == "profile"
    assert fim.stops == (0, 2)
    ids = render(fim, "ab", "z", tokenize=tokenize, bos=None, path="a.py")
    assert ids == [9, *tokenize("z"), 8, *tokenize("ab"), 10]


def test_precedence_metadata_over_token_text():
    fim = choose_fim(None, {"pre": 50, "suf": 51, "mid": 52, "pad": 53}, vocabulary(*QWEN), {9})
    assert (fim.source, fim.prefix, fim.suffix, fim.middle) == ("metadata", 50, 51, 52)
    assert fim.stops == (9, 50, 51, 52, 53)
    assert "nothing states another" in fim.reason  # the vocabulary's family owns other ids, so its order proves nothing


def test_metadata_takes_the_order_of_the_family_that_owns_the_same_ids():
    lookup = vocabulary(*STAR, "<filename>", "<|im_start|>")
    fim = choose_fim(None, {"pre": 1, "suf": 3, "mid": 2}, lookup, {9})
    assert (fim.source, fim.order, fim.file_header) == ("metadata", "suffix-first", 5)


def test_the_profile_order_applies_to_metadata_and_to_token_text():
    profile = FimProfile(order="suffix-first")
    assert choose_fim(profile, {"pre": 50, "suf": 51, "mid": 52}, {}.get, {9}).order == "suffix-first"
    fim = choose_fim(profile, {}, vocabulary(*QWEN), {9})
    assert (fim.order, fim.source) == ("suffix-first", "token-text:qwen")
    assert "profile" in fim.reason


@pytest.mark.parametrize("ids", [{"pre": 50}, {"pre": 50, "suf": 51}, {"pre": -1, "suf": 51, "mid": 52}])
def test_incomplete_metadata_falls_through_to_token_text(ids):
    assert choose_fim(None, ids, vocabulary(*QWEN), {9}).source == "token-text:qwen"


def test_nothing_known_is_prefix_only_and_says_so():
    fim = choose_fim(None, {}, {}.get, {2})
    assert (fim.order, fim.source, fim.stops) == ("prefix-only", "prefix-only", (2,))
    assert render(fim, "ab", "never seen", tokenize=tokenize, bos=7) == [7, *tokenize("ab")]


def test_a_profile_order_without_sentinels_is_reported():
    fim = choose_fim(FimProfile(order="suffix-first"), {}, {}.get, {2})
    assert fim.order == "prefix-only"
    assert "suffix-first" in fim.reason


def test_prefix_only_in_the_profile_ends_the_matter():
    fim = choose_fim(FimProfile(order="prefix-only"), {"pre": 50, "suf": 51, "mid": 52}, vocabulary(*QWEN), {9})
    assert (fim.order, fim.prefix, fim.stops) == ("prefix-only", None, (9,))


@pytest.mark.parametrize("missing", ["prefix", "suffix", "middle"])
def test_a_sentinel_that_is_not_one_token_names_its_field(missing):
    texts = {"prefix": "<p>", "suffix": "<s>", "middle": "<m>"}
    lookup = vocabulary(*(text for name, text in texts.items() if name != missing))
    with pytest.raises(PromptError) as caught:
        choose_fim(FimProfile(order="suffix-first", tokens=FimTokens(**texts)), {}, lookup, {9})
    assert caught.value.code == "prompt.fim_token"
    assert caught.value.field == f"profile.fim.tokens.{missing}"
    assert caught.value.remedy


def test_a_stop_text_that_is_not_one_token_names_its_place():
    with pytest.raises(PromptError) as caught:
        choose_fim(FimProfile(stops=(3, "two words")), {}, {}.get, {9})
    assert caught.value.field == "profile.fim.stops[1]"


def test_prefix_first_without_a_middle_cannot_work():
    with pytest.raises(PromptError) as caught:
        choose_fim(FimProfile(tokens=FimTokens(prefix="<p>", suffix="<s>")), {}, vocabulary("<p>", "<s>"), {9})
    assert caught.value.field == "profile.fim.tokens.middle"


def test_two_sentinels_may_not_be_one_token():
    tokens = FimTokens(prefix="<p>", suffix="<s>", middle="<p>")
    with pytest.raises(PromptError, match="same token"):
        choose_fim(FimProfile(tokens=tokens), {}, vocabulary("<p>", "<s>"), {9})


@pytest.mark.parametrize(
    "data",
    [
        {"ordre": "prefix-first"},
        {"order": "middle-first"},
        {"tokens": {"prefix": "a"}},
        {"tokens": {"prefix": "", "suffix": "b"}},
        {"stops": [-1]},
        {"stops": [True]},
        {"stops": [1.5]},
    ],
)
def test_a_profile_with_unknown_or_wrong_fields_is_an_error(data):
    with pytest.raises(ValidationError):
        FimProfile.model_validate(data)


def test_a_profile_reads_from_json():
    text = '{"order":"suffix-first","tokens":{"prefix":"a","suffix":"b"},"stops":[0,"<x>"]}'
    assert FimProfile.model_validate_json(text).stops == (0, "<x>")


# ---- layouts -------------------------------------------------------------------------------------------------------


def ids_of(name: str, prefix: str, suffix: str, **kwargs):
    texts = next(texts for family, texts, _ in FAMILIES if family == name)
    fim = choose_fim(None, {}, vocabulary(*texts), {99})
    return render(fim, prefix, suffix, tokenize=tokenize, **kwargs)


def test_prefix_first_layout():
    assert ids_of("qwen", "p", "s", bos=77) == [77, 1, *tokenize("p"), 3, *tokenize("s"), 2]


def test_deepseek_hole_stands_for_the_suffix_and_end_for_the_middle():
    assert ids_of("deepseek", "p", "s", bos=None) == [1, *tokenize("p"), 3, *tokenize("s"), 2]


def test_codellama_has_a_space_after_pre_and_none_after_suf():
    assert ids_of("codellama", "p", "s", bos=None) == [1, *tokenize(" p"), 3, *tokenize("s"), 2]


def test_codestral_ends_with_the_prefix():
    assert ids_of("codestral", "p", "s", bos=77) == [77, 3, *tokenize("s"), 1, *tokenize("p")]


def test_mellum_names_the_file_first():
    assert ids_of("mellum", "p", "s", bos=None, path="a/b\n.py") == [
        5,
        *tokenize("a/b .py\n"),
        3,
        *tokenize("s"),
        1,
        *tokenize("p"),
        2,
    ]
    assert ids_of("mellum", "p", "s", bos=None, path=None)[0] == 3


@pytest.mark.parametrize("name", ["mellum", "codestral", "seed-coder"])
def test_suffix_first_typing_only_appends_before_the_middle(name):
    before, after = (ids_of(name, p, "tail", bos=77, path="a.py") for p in ("def f", "def f(x"))
    held = len(before) - (0 if name == "codestral" else 1)
    assert after[:held] == before[:held]


@pytest.mark.parametrize(("name", "texts", "order"), FAMILIES)
def test_sentinel_texts_in_a_document_stay_text(name, texts, order):
    fim = choose_fim(None, {}, vocabulary(*texts), {99})
    evil = "".join(texts) + "<|im_end|>"
    ids = render(fim, evil, evil, tokenize=tokenize, bos=None, path=evil)
    special = [i for i in ids if i < TEXT]
    expected = {1, 3} | ({2} if fim.middle else set()) | ({fim.file_header} if fim.file_header else set())
    assert sorted(special) == sorted(expected)  # each sentinel once, none from the text


@pytest.mark.parametrize(("name", "texts", "order"), FAMILIES)
def test_assembled_halves_equal_rendered_text(name, texts, order):
    fim = choose_fim(None, {}, vocabulary(*texts), {99})
    args = {"tokenize": tokenize, "bos": 77, "path": "a.py"}
    assert assemble(fim, tokenize("pre"), tokenize("suf"), **args) == render(fim, "pre", "suf", **args)


def test_empty_halves_need_no_tokenizer():
    def never(text: str) -> list[int]:
        raise AssertionError(text)

    fim = FimFormat("suffix-first", 1, 2, 3)
    assert render(fim, "", "", tokenize=never, bos=None) == [2, 1, 3]


# ---- identity ------------------------------------------------------------------------------------------------------


def test_canonical_holds_what_is_rendered_and_not_who_chose_it():
    fim = FimFormat("suffix-first", 1, 2, 3, stops=(4,), source="profile", reason="x")
    same = FimFormat("suffix-first", 1, 2, 3, stops=(4,), source="metadata", reason="y")
    assert fim.canonical() == same.canonical()
    others = [
        FimFormat("prefix-first", 1, 2, 3, stops=(4,)),
        FimFormat("suffix-first", 2, 1, 3, stops=(4,)),
        FimFormat("suffix-first", 1, 2, None, stops=(4,)),
        FimFormat("suffix-first", 1, 2, 3, stops=(4, 5)),
        FimFormat("suffix-first", 1, 2, 3, stops=(4,), file_header=6),
        FimFormat("suffix-first", 1, 2, 3, stops=(4,), prefix_lead=" "),
    ]
    assert len({f.canonical() for f in [fim, *others]}) == len(others) + 1


def test_stops_are_sorted_so_that_their_order_is_not_identity():
    a = choose_fim(FimProfile(stops=(5, 3)), {}, {}.get, [9, 1])
    b = choose_fim(FimProfile(stops=(3, 5)), {}, {}.get, [1, 9])
    assert a.canonical() == b.canonical()
