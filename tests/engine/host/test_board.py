"""What watchers are told, and in which order it came about."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from served_host import full
from warmline.errors import BackendError
from warmline.host.board import ANYONE, Board
from warmline.host.wire import EngineStatus, LastRequest, State, VariantStatus

CLIENTS = ("one", "two", ANYONE)
ERROR = BackendError("it broke", code="backend.decode")
CHANGES = st.tuples(
    st.sampled_from(("engine", "begins", "loaded", "last", "failed")), st.sampled_from(CLIENTS), st.sampled_from(State)
)


@given(st.lists(CHANGES, max_size=30))
def test_who_watches_knows_what_an_answer_would_say_and_which_is_newer(changes: list[tuple[str, str, State]]) -> None:
    board = Board()
    told: dict[str, list[EngineStatus]] = {client: [] for client in CLIENTS}
    for client in CLIENTS:
        board.watch(told[client].append, client)
    for what, client, state in changes:
        if what == "engine":
            board.engine(state, percent=7 if state is State.LOADING else None)
        elif what == "failed":
            board.failed(client, ERROR, resting=State.READY)
        elif what == "last":
            board.last(client, full(LastRequest))
        else:
            getattr(board, what)(client, full(VariantStatus))
    for client in CLIENTS:
        revisions = [status.revision for status in told[client]]
        assert revisions == sorted(set(revisions))
        answer = board.status(client)
        assert answer.revision >= revisions[-1]
        assert answer.model_copy(update={"revision": revisions[-1]}) == told[client][-1]
