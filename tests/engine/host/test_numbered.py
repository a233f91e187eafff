"""Variants by number: whatever is lost on the way, the host runs the variant that was meant."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from served_host import Raw, Served, answered, completion, full
from warmline.errors import BackendError
from warmline.host import calls, numbered
from warmline.host.numbered import KNOWN_VARIANTS, SentVariants
from warmline.host.rpc import encode
from warmline.host.wire import Ask, Done, Message
from warmline.variant import ResolvedVariant

VARIANTS = [full(ResolvedVariant).model_copy(update={"name": f"v{number}"}) for number in range(9)]


async def test_a_variant_goes_over_the_stream_whole_once(
    tmp_path: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[bytes] = []

    def watched(message: Message, variant: int | None = None) -> bytes:
        sent.append(encode(message, variant))
        return sent[-1]

    monkeypatch.setattr(calls, "encode", watched)
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Done)]
        for variant in (VARIANTS[0], VARIANTS[0], VARIANTS[1], VARIANTS[0], VARIANTS[1]):
            assert await answered(served, completion(variant=variant)) == [full(Done)]
        assert [asked.variant.name for asked in served.echo.asked] == ["v0", "v0", "v1", "v0", "v1"]
        named = [json.loads(data) for data in sent]
        assert [ask["variant"] for ask in named] == [1, 0, 2, 0, 0]
        assert [ask["complete"]["variant"] for ask in named if not ask["variant"]] == [1, 1, 2]
        assert served.echo.asked[0].variant is served.echo.asked[1].variant


steps = st.lists(
    st.tuples(st.integers(0, len(VARIANTS) - 1), st.sampled_from(["ask", "ask", "ask", "give up", "garble"])),
    min_size=1,
    max_size=40,
)


@given(steps, st.integers(1, 4))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_host_runs_the_variant_that_was_meant(
    tmp_path: Path, runtime: Path, steps: list[tuple[int, str]], known: int
) -> None:
    """The document says which variant was meant; a garbled message is one that the host cannot read."""

    async def run() -> None:
        garbled = False

        def encoded(message: Message, variant: int | None = None) -> bytes:
            data = encode(message, variant)
            return data[:-1] + b',"surprise":1}' if garbled else data

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(numbered, "KNOWN_VARIANTS", known)
            patch.setattr(calls, "encode", encoded)
            async with Served(tmp_path, runtime) as served:
                served.echo.events = [full(Done)]
                for index, what in steps:
                    request = completion(variant=VARIANTS[index], document=VARIANTS[index].name)
                    garbled = what == "garble"
                    if what == "give up":
                        task = asyncio.create_task(answered(served, request))
                        await asyncio.sleep(0)
                        task.cancel()
                    elif what == "garble":
                        with pytest.raises(BackendError) as caught:
                            await answered(served, request)
                        assert caught.value.code == "backend.message"
                    else:
                        assert await answered(served, request) == [full(Done)]
                assert {asked.variant.name == asked.document for asked in served.echo.asked} <= {True}
                assert len(served.echo.asked) >= sum(what == "ask" for _, what in steps)
                for call in served.host._calls:
                    assert len(call._variants) <= known

    asyncio.run(run())


async def test_a_number_that_the_host_does_not_know_is_an_error_never_another_variant(
    tmp_path: Path, runtime: Path
) -> None:
    async with Served(tmp_path, runtime) as served:
        served.echo.events = [full(Done)]
        raw = await Raw.of(served)
        raw.say(encode(Ask(number=1, variant=7, complete=completion())))
        assert (await raw.hear()).events == (full(Done),)
        for number in (0, 6, 8):
            raw.say(encode(Ask(number=2, complete=completion()), number))
            tell = await raw.hear()
            assert (tell.number, tell.error and tell.error.code) == (2, "backend.message")
        assert len(served.echo.asked) == 1
        raw.writer.close()


def test_a_variant_whose_number_the_host_forgot_is_new() -> None:
    sent = SentVariants()
    variants = [VARIANTS[0].model_copy() for _ in range(KNOWN_VARIANTS + 1)]
    for number, variant in enumerate(variants, 1):
        assert (sent.number(variant), sent.next_number) == (None, number)
        sent.sent(variant)
    assert [sent.number(variant) for variant in variants] == [None, *range(2, KNOWN_VARIANTS + 2)]
    sent.forget(variants[5])
    assert sent.number(variants[5]) is None
