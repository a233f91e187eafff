"""Closing brackets that the document has already, or for which it has no opener."""

from warmline_server.suggest import languages
from warmline_server.suggest.draft import Cut, Draft


def excess_closer(draft: Draft) -> Cut | None:
    context = draft.context
    if context.language in languages.UNPAIRED:
        return None
    excess = draft.walk.excess
    if excess is None:
        return None
    return Cut(draft.row, excess.column, "repeats-closer" if excess.char in context.closed else "unbalanced")
