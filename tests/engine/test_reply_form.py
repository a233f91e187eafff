"""What a reply is held to beside JSON: a model's own marks around it, a text instead, a thought before it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from warmline.backends.native import captured_log, llama
from warmline.backends.reply_grammar import reply_grammar
from warmline.errors import BackendError, ConfigError, PromptError
from warmline.host.chat_form import template_message, template_variables
from warmline.host.wire import ChatRequest, ChatTurn, ToolUse
from warmline.prompts.chat import ChatTemplate
from warmline.variant import Profile, Reasoning, parse

SCHEMA = json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
CALL = '{"a": 1}'
HERMES = {"before": "<tool_call>\n", "after": "\n</tool_call>", "or_text_without": "<tool_call>"}


def as_pattern(gbnf: str) -> Any:
    """Read the rules that are searches for a mark: a slow and obvious machine over their text."""
    rules = dict(re.findall(r"^((?:text|thought)-\d+) ::= (.*)$", gbnf, re.MULTILINE))
    term = re.compile(
        r'"((?:[^"\\]|\\.)*)"(?: ((?:text|thought)-\d+))?|\[\^((?:[^\]\\]|\\.)*)\] ((?:text|thought)-\d+)'
    )

    def plain(text: str) -> str:
        known = {"n": "\n", "r": "\r", "t": "\t"}
        return re.sub(
            r"\\(x[0-9A-F]{2}|.)", lambda m: chr(int(m[1][1:], 16)) if len(m[1]) > 1 else known.get(m[1], m[1]), text
        )

    def accepts(start: str, text: str) -> bool:
        states = {start}
        for sign in text:
            after = set()
            for state in states - {""}:
                for literal, then, none_of, other in term.findall(rules[state]):
                    if other and sign not in plain(none_of):
                        after.add(other)
                    elif not other and literal and plain(literal) == sign:
                        after.add(then)
            states = after
        return any(state == "" or '""' in rules[state].split(" | ") for state in states)

    return accepts


@settings(deadline=None)  # the machine may be busy
@given(st.text(alphabet='<a/>]^-\\"', min_size=1, max_size=5), st.text(alphabet='<a/>]^-\\"\u00e9', max_size=12))
@example("<<a", "<<<a")
@example("aab", "aaab")
def test_a_search_lets_through_what_it_says(mark: str, text: str) -> None:
    accepts = as_pattern(reply_grammar(SCHEMA, or_text_without=mark, reasoning=Reasoning(close=mark)))
    assert accepts("text-0", text) == (mark not in text)
    assert accepts("thought-0", text) == (text.find(mark) == len(text) - len(mark) and mark in text)


@pytest.mark.parametrize(
    "form",
    [{}, HERMES, {"or_text_without": '{"name"'}, {"reasoning": Reasoning()}, {"reasoning": Reasoning(prompted=True)}],
    ids=["json", "hermes", "llama3", "thought", "thought begun"],
)
def test_the_library_reads_every_form(form: dict[str, Any]) -> None:
    assert parsed(reply_grammar(SCHEMA, **form))
    assert not parsed(reply_grammar(SCHEMA, **form) + "broken ::= nowhere")


def test_a_reply_that_can_be_a_text_alone() -> None:
    assert parsed(reply_grammar(None, or_text_without='<tool_call> "]^-\\\n'))


def parsed(grammar: str) -> bool:
    """Tell whether llama.cpp reads a grammar; without a vocabulary it can do nothing else with it."""
    with captured_log():
        made = llama().llama_sampler_init_grammar(None, grammar.encode(), b"root")
    if made:
        llama().llama_sampler_free(made)
    return bool(made)


def test_a_schema_that_is_its_own_part_is_refused() -> None:
    with pytest.raises(BackendError) as caught:
        reply_grammar(json.dumps({"type": "array", "items": {"$ref": "#"}}))
    assert caught.value.code == "backend.schema"


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(b'{"tools": "xml"}', Profile, "v.json")
    assert "hermes" in str(caught.value) and "llama3" in str(caught.value)


def request(**more: Any) -> ChatRequest:
    variant: Any = object()
    return ChatRequest.model_construct(client="c", conversation="d", variant=variant, messages=(), tools=None, **more)


def test_a_template_is_given_tools_and_calls_as_it_reads_them() -> None:
    template = ChatTemplate(
        "{{ tools | map(attribute='name') | join(',') }}"
        "{% for m in messages %}[{{ m.role }}:{{ m.content }}"
        "{% for c in m.tool_calls or [] %}{{ c.function.name }}={{ c.function.arguments | tojson }}{% endfor %}]"
        "{% endfor %}"
    )
    turns = (
        ChatTurn(role="assistant", content="", call=ToolUse(name="read", arguments='{"path": "a"}')),
        ChatTurn(role="tool", content="text"),
    )
    given = template_variables(request().model_copy(update={"tools": '[{"name": "read"}, {"name": "list"}]'}))
    text = template.generate_prompt([template_message(turn) for turn in turns], variables=given)
    assert text == 'read,list[assistant:read={"path": "a"}][tool:text]'
    with pytest.raises(PromptError):
        template_variables(request().model_copy(update={"tools": "[1"}))
    with pytest.raises(PromptError):
        template_message(ChatTurn(role="assistant", content="", call=ToolUse(name="x", arguments="[]")))
