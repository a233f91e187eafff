"""Latest wins; equal questions share one answer; the last to leave stops the work."""

from __future__ import annotations

import asyncio

import pytest
from warmline_server.lsp.requests import LatestWins


class Work:
    """Work that waits to be told its answer."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = False
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.clean_up: asyncio.Event | None = None

    async def __call__(self) -> str:
        self.begun.set()
        try:
            return await self.answer
        except asyncio.CancelledError:
            self.cancelled = True
            if self.clean_up is not None:
                await self.clean_up.wait()
            raise


async def test_the_latest_question_wins_and_the_other_answers_none() -> None:
    requests: LatestWins[str] = LatestWins(grace=0)
    first, second = Work(), Work()
    one = asyncio.ensure_future(requests.ask("doc", 1, first))
    await first.begun.wait()
    two = asyncio.ensure_future(requests.ask("doc", 2, second))
    assert await one is None
    await second.begun.wait()
    assert first.cancelled
    second.answer.set_result("late")
    assert await two == "late"


async def test_equal_questions_share_one_answer() -> None:
    requests: LatestWins[str] = LatestWins(grace=0)
    first, second = Work(), Work()
    asked = [asyncio.ensure_future(requests.ask("doc", 1, work)) for work in (first, second)]
    await first.begun.wait()
    first.answer.set_result("both")
    assert await asyncio.gather(*asked) == ["both", "both"]
    assert not second.begun.is_set()


async def test_documents_do_not_disturb_each_other() -> None:
    requests: LatestWins[str] = LatestWins(grace=0)
    first, second = Work(), Work()
    asked = [asyncio.ensure_future(requests.ask(name, 1, work)) for name, work in (("a", first), ("b", second))]
    await asyncio.gather(first.begun.wait(), second.begun.wait())
    first.answer.set_result("a")
    second.answer.set_result("b")
    assert await asyncio.gather(*asked) == ["a", "b"]


async def test_work_goes_on_until_the_last_who_waits_has_left() -> None:
    requests: LatestWins[str] = LatestWins(grace=0)
    work = Work()
    one, two = (asyncio.ensure_future(requests.ask("doc", 1, work)) for _ in range(2))
    await work.begun.wait()
    one.cancel()
    with pytest.raises(asyncio.CancelledError):
        await one
    assert not work.cancelled
    two.cancel()
    with pytest.raises(asyncio.CancelledError):
        await two
    await asyncio.wait([two])
    fresh = Work()
    again = asyncio.ensure_future(requests.ask("doc", 1, fresh))
    await fresh.begun.wait()  # the stopped work is not joined
    assert work.cancelled
    fresh.answer.set_result("again")
    assert await again == "again"


async def test_work_that_hangs_while_it_is_stopped_holds_nobody_up() -> None:
    requests: LatestWins[str] = LatestWins(grace=0)
    hanging, next_one = Work(), Work()
    hanging.clean_up = asyncio.Event()
    one = asyncio.ensure_future(requests.ask("doc", 1, hanging))
    await hanging.begun.wait()
    two = asyncio.ensure_future(requests.ask("doc", 2, next_one))
    assert await one is None
    next_one.answer.set_result("fine")
    assert await two == "fine"
    hanging.clean_up.set()


async def test_an_error_reaches_everyone_who_waits() -> None:
    requests: LatestWins[str] = LatestWins(grace=0)
    work = Work()
    asked = [asyncio.ensure_future(requests.ask("doc", 1, work)) for _ in range(2)]
    await work.begun.wait()
    work.answer.set_exception(ValueError("broken"))
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(result) for result in results] == [ValueError, ValueError]


async def test_stop_answers_none() -> None:
    requests: LatestWins[str] = LatestWins(grace=0)
    work = Work()
    asked = asyncio.ensure_future(requests.ask("doc", 1, work))
    await work.begun.wait()
    requests.stop("doc")
    requests.stop("other")
    assert await asked is None


async def test_in_a_storm_only_the_last_is_answered() -> None:
    requests: LatestWins[str] = LatestWins(grace=0)
    works = [Work() for _ in range(200)]
    for number, work in enumerate(works):
        work.answer.set_result(str(number)) if number == 199 else None
    asked = [asyncio.ensure_future(requests.ask("doc", number, work)) for number, work in enumerate(works)]
    assert await asyncio.gather(*asked) == [None] * 199 + ["199"]
