"""Parts a model's thoughts from its answer while both stream in, as the variant's profile says that they are marked."""

from __future__ import annotations

from typing import Literal, NamedTuple

from warmline.variant import Reasoning

_State = Literal["undecided", "opening", "thought", "closing", "answer"]


class Part(NamedTuple):
    """A piece of text: of a thought, or of the answer."""

    thought: bool
    text: str


class Thoughts:
    """Parts one reply. However the text is cut into pieces, what the parts of a kind join to is the same.

    A thought stands before the answer: what looks like one later on belongs to the answer. Blanks around it belong to
    neither. One that is never closed reaches to the end.

    Parameters
    ----------
    reasoning
        How thoughts are marked; None: all is the answer.
    """

    def __init__(self, reasoning: Reasoning | None) -> None:
        self._reasoning = reasoning or Reasoning()
        self._state: _State = "undecided" if reasoning is not None else "answer"
        self._held = ""

    def feed(self, piece: str) -> list[Part]:
        """Take more of the reply and give the parts that became known with it; none is empty."""
        self._held += piece
        parts = []
        while self._held and self._moves():
            text = self._taken()
            if text:
                parts.append(Part(self._state == "thought", text))
            if self._state == "answer":
                break
            if self._state == "thought" and not self._leaves_thought():
                break
        return parts

    def finish(self) -> list[Part]:
        """Give what was held back, at the reply's end."""
        held, self._held = self._held, ""
        if self._state in ("opening", "closing"):
            held = held.lstrip()
        return [Part(self._state in ("opening", "thought"), held)] if held else []

    def _moves(self) -> bool:
        """Go on to the state that what is held belongs to; False where more has to come first."""
        if self._state == "undecided":
            text = self._held.lstrip()
            if text.startswith(self._reasoning.open):
                self._state, self._held = "opening", text[len(self._reasoning.open) :]
            elif self._reasoning.open.startswith(text):
                return False
            else:
                self._state = "opening" if self._reasoning.prompted else "answer"
        if self._state in ("opening", "closing"):
            self._held = self._held.lstrip()
            if not self._held:
                return False
            self._state = "thought" if self._state == "opening" else "answer"
        return True

    def _taken(self) -> str:
        """Take what is known to belong to the state out of what is held."""
        at = len(self._held)
        if self._state == "thought":
            close = self._reasoning.close
            found = self._held.find(close)
            at = found if found >= 0 else at - begun(self._held, close)
        text, self._held = self._held[:at], self._held[at:]
        return text

    def _leaves_thought(self) -> bool:
        if not self._held.startswith(self._reasoning.close):
            return False
        self._state, self._held = "closing", self._held[len(self._reasoning.close) :]
        return True


def parted(text: str, reasoning: Reasoning | None) -> tuple[str, str]:
    """Give the thought and the answer of a whole reply."""
    thoughts = Thoughts(reasoning)
    parts = [*thoughts.feed(text), *thoughts.finish()]
    return "".join(part.text for part in parts if part.thought), "".join(
        part.text for part in parts if not part.thought
    )


def begun(text: str, mark: str) -> int:
    """Tell how many characters at a text's end may be the beginning of a mark."""
    return next((size for size in range(min(len(mark) - 1, len(text)), 0, -1) if text.endswith(mark[:size])), 0)
