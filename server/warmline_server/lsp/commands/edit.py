"""`warmline.edit` and `warmline.fix`: the selected code rewritten, as an edit to be looked at; never applied here."""

from __future__ import annotations

import re
import textwrap
from typing import Any, Final

from lsprotocol import types
from pydantic import Field
from warmline.host.wire import ChatRequest, ChatTurn, Outcome

from ...suggest.prose import is_sentence
from ..context_text import about
from ..documents import Snapshot
from ..initialize import Client
from .call import AboutDocument, Call, Span
from .chat import MAX_MESSAGE, ask

_FENCED: Final = re.compile(
    r"^[ \t]*(`{3,}|~{3,})[^\n]*(?:\n|\Z)(.*?)(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_LINE_END: Final = re.compile(r"\r\n?|\n")
_ONLY_CODE: Final = "Answer with the whole new text of the selected code in one fenced block, and nothing else."
_MOST_DIAGNOSTICS: Final = 20


class _Rewrite(AboutDocument):
    uri: str = Field(max_length=8192)
    range: Span
    variant: str | None = Field(default=None, max_length=80)


class EditArguments(_Rewrite):
    """What `warmline.edit` takes."""

    instruction: str = Field(min_length=1, max_length=MAX_MESSAGE)


class FixArguments(_Rewrite):
    """What `warmline.fix` takes: what is wrong, in the words of other tools."""

    diagnostics: tuple[str, ...] = Field(default=(), max_length=_MOST_DIAGNOSTICS)


async def edit(call: Call) -> dict[str, Any]:
    """Rewrite the selected code as told; answer ``{edit, reason, variant, text}``, `edit` being null with a reason."""
    given = call.arguments(EditArguments)
    return await _rewrite(call, given, given.instruction)


async def fix(call: Call) -> dict[str, Any]:
    """Rewrite the selected code so that what is wrong with it is right; the answer is as in `edit`."""
    given = call.arguments(FixArguments)
    wrong = "".join(f"\n- {text[:1000]}" for text in given.diagnostics)
    return await _rewrite(call, given, f"Fix the selected code.{' What is wrong with it:' if wrong else ''}{wrong}")


async def _rewrite(call: Call, given: _Rewrite, instruction: str) -> dict[str, Any]:
    session = call.session
    snapshot = call.document(given.uri)
    start, end = snapshot.offset_at(given.range.start), snapshot.offset_at(given.range.end)  # in order, as `Span` is
    place = call.place(given.uri)
    variant = call.variant(place, given.variant)
    message = f"{instruction}\n{_ONLY_CODE}{await about(session, place, given.uri, given.range)}"
    request = ChatRequest(
        client=session.client_id,
        conversation=f"edit:{given.uri}",
        variant=variant,
        messages=(ChatTurn(role="user", content=message),),
        max_tokens=session.settings.chat.edit_tokens,
    )
    stream = call.stream()
    stream.begin(f"{variant.name} writes")
    try:
        answer = await ask(session, request, stream)
    finally:
        stream.end()
    done = answer.done
    old = snapshot.slice(start, end)
    new = None if done.outcome is not Outcome.STOP else code_of(done.text)
    reason = str(done.outcome) if done.outcome is not Outcome.STOP else "no-code"
    if new is not None:
        new = fitted(new, old, snapshot, start)
        reason = "unchanged" if new == old else "written"
    # A plain edit says nothing of the version it is for, and would land wherever its lines are by now.
    if reason == "written" and not session.client.versioned_edits and _has_changed(call, snapshot):
        reason = "document-changed"
    change = workspace_edit(session.client, snapshot, given.range, new, variant.name) if reason == "written" else None
    return {"edit": change, "reason": reason, "variant": variant.name, "text": done.text}


def _has_changed(call: Call, snapshot: Snapshot) -> bool:
    now = call.session.documents.get(snapshot.uri)
    return now is None or not now.in_sync or (now.version, now.text) != (snapshot.version, snapshot.text)


def code_of(answer: str) -> str | None:
    """Take the code out of an answer: its first fenced block, else the whole where it is no prose; None without any."""
    answer = _LINE_END.sub("\n", answer)
    found = _FENCED.search(answer)
    code = found[2] if found else answer
    first = next((line for line in code.split("\n") if line.strip()), "")
    if not first or (found is None and is_sentence(first)):
        return None
    return code


def fitted(new: str, old: str, snapshot: Snapshot, offset: int) -> str:
    """Give new code the indentation, the line ends and the last line end of the code that it replaces."""
    lines = textwrap.dedent(new.strip("\n")).split("\n")
    column = offset - snapshot.offset_at(types.Position(snapshot.position_at(offset).line, 0))
    before = snapshot.line(snapshot.position_at(offset).line)[:column]
    first_old = next((line for line in _LINE_END.split(old) if line.strip()), "")
    inside = first_old[: len(first_old) - len(first_old.lstrip())]
    indent = before if not before.strip() and before else inside
    body = [indent + line if line.strip() else "" for line in lines]
    if body and before:
        body[0] = body[0].removeprefix(indent) if not before.strip() else body[0]
    tail = "\n" if old.endswith(("\n", "\r")) else ""
    return ("\n".join(body) + tail).replace("\n", snapshot.eol)


def workspace_edit(
    client: Client, snapshot: Snapshot, where: Span, new: str | None, variant: str
) -> types.WorkspaceEdit:
    """Make the edit for exactly this version of the document, to be confirmed where the client can ask for that."""
    span = types.Range(
        types.Position(where.start.line, where.start.character), types.Position(where.end.line, where.end.character)
    )
    text = new or ""
    if not client.versioned_edits:
        return types.WorkspaceEdit(changes={snapshot.uri: [types.TextEdit(span, text)]})
    document = types.OptionalVersionedTextDocumentIdentifier(uri=snapshot.uri, version=snapshot.version)
    if not client.annotated_edits:
        return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(document, [types.TextEdit(span, text)])])
    annotation = types.ChangeAnnotation(f"Warmline: {variant}", needs_confirmation=True)
    annotated = types.AnnotatedTextEdit(annotation_id="warmline", range=span, new_text=text)
    return types.WorkspaceEdit(
        document_changes=[types.TextDocumentEdit(document, [annotated])], change_annotations={"warmline": annotation}
    )
