"""What makes raw model text a good suggestion: one filter, one file; `pipeline` runs them in order."""

from warmline_server.suggest.context import Context
from warmline_server.suggest.pipeline import Suggestion, is_settled, suggest

__all__ = ["Context", "Suggestion", "is_settled", "suggest"]
