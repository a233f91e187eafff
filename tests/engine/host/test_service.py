"""The engine service: reasons for every miss, errors that leave it alive, states that tell the truth."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fake_backend import FakeBackend, FakeSession, write_adapter, write_base
from warmline.digests import DigestCache
from warmline.errors import WarmlineError
from warmline.host import resident
from warmline.host.service import EngineService
from warmline.host.wire import (
    ChatRequest,
    ChatTurn,
    CompletionRequest,
    Delta,
    Done,
    EngineStatus,
    Event,
    Outcome,
    Started,
    State,
)
from warmline.kv.pool import ContextPool
from warmline.variant import DeclaredBase, Profile, ResolvedAdapter, ResolvedBase, ResolvedVariant


class Heard:
    """Collects one request's events."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.failure: WarmlineError | None = None
        self.over = threading.Event()

    def receive(self, events: Sequence[Event]) -> None:
        self.events.extend(events)
        if isinstance(events[-1], Done):
            self.over.set()

    def error(self, error: WarmlineError) -> None:
        self.failure = error
        self.over.set()

    @property
    def started(self) -> Started:
        return next(event for event in self.events if isinstance(event, Started))

    @property
    def done(self) -> Done:
        return next(event for event in self.events if isinstance(event, Done))


class Bench:
    def __init__(self, folder: Path, max_bases: int = 1) -> None:
        self.base = write_base(folder / "base.gguf")
        self.a = write_adapter(folder / "a.gguf", weights=b"\x0a")
        self.b = write_adapter(folder / "b.gguf", weights=b"\x0b")
        self.backend = FakeBackend()
        self.approved: set[str] = set()
        self.service = EngineService(
            self.backend,
            DigestCache(),
            lambda digest: digest in self.approved,
            pool=ContextPool(max_live=2),
            max_bases=max_bases,
        )

    def variant(self, *adapters: Path, scale: str = "1", workspace: bool = False, **profile: Any) -> ResolvedVariant:
        return ResolvedVariant(
            name="v",
            backend="llama",
            base=ResolvedBase(name="base", path=self.base),
            adapters=tuple(
                ResolvedAdapter(name=path.stem, path=path, scale=Decimal(scale), workspace=workspace)
                for path in adapters
            ),
            profile=Profile(**{"n_ctx": 512, "max_tokens": 8, "bos": "never", **profile}),
            file="v.json",
        )

    def ask(self, variant: ResolvedVariant, prefix: str = "abcdef", document: str = "d", **more: Any) -> Heard:
        heard = Heard()
        self.cancel = self.service.complete(
            CompletionRequest(client="c", document=document, variant=variant, prefix=prefix, **more), heard
        )
        return heard

    def complete(self, variant: ResolvedVariant, prefix: str = "abcdef", **more: Any) -> Heard:
        heard = self.ask(variant, prefix, **more)
        assert heard.over.wait(10)
        return heard

    def reason(self, variant: ResolvedVariant, prefix: str = "abcdef", **more: Any) -> str:
        heard = self.complete(variant, prefix, **more)
        assert heard.failure is None
        return heard.started.reason


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.service.close()


def test_events_come_in_order_and_add_up(bench: Bench) -> None:
    heard = bench.complete(bench.variant())
    assert isinstance(heard.events[0], Started)
    assert isinstance(heard.events[-1], Done)
    assert "".join(event.text for event in heard.events if isinstance(event, Delta)) == heard.done.text == "abc"
    assert heard.done.outcome is Outcome.STOP


# The prefix-first prompt of FakeBackend: pre, prefix, suf, mid.
def test_each_reuse_has_its_named_reason(bench: Bench) -> None:
    base, a, half = bench.variant(), bench.variant(bench.a), bench.variant(bench.a, scale="0.5")
    assert bench.reason(base) == "cold"
    assert bench.reason(base) == "warm"
    assert bench.reason(base, "abcdefg").startswith("prefix:7/")
    assert bench.reason(base, "xyz").startswith("prefix:1/")
    assert bench.reason(a) == "identity:adapters"
    assert bench.reason(base, "xyz") == "warm"
    assert bench.reason(half) == "identity:adapters"
    assert bench.reason(a) == "identity:adapters[0].scale"
    b = bench.variant(bench.b)
    assert bench.reason(b) == "identity:adapters[0].digest"
    assert bench.reason(bench.variant(n_ctx=256)) == "identity:adapters"
    assert bench.reason(b, document="another") == "warm"


def test_the_first_request_after_loading_is_cold(bench: Bench) -> None:
    loaded = threading.Event()
    bench.service.load(bench.variant(), "c", lambda _status: loaded.set(), lambda _error: None)
    assert loaded.wait(10)
    assert bench.reason(bench.variant()) == "cold"


def test_an_evicted_context_says_so(bench: Bench) -> None:
    one, two, three = bench.variant(), bench.variant(bench.a), bench.variant(bench.b)
    for variant in (one, two, three):
        bench.complete(variant, document=f"d{variant.adapters}")
    assert bench.reason(one, document="new") == "evicted"
    assert sum(session.closed for session in bench.backend.sessions) == 2


def test_renaming_the_same_bytes_keeps_the_kv(bench: Bench, tmp_path: Path) -> None:
    bench.complete(bench.variant(bench.a))
    bench.a = bench.a.rename(tmp_path / "renamed.gguf")
    renamed = bench.variant(bench.a)
    assert bench.reason(renamed.model_copy(update={"name": "other"})) == "warm"
    assert len(bench.backend.sessions) == 1


def test_row_7_a_file_replaced_while_warm_is_another_identity(bench: Bench) -> None:
    variant = bench.variant(bench.a)
    before = bench.complete(variant).started.identity
    write_adapter(bench.a, weights=b"\x0c")
    after = bench.complete(variant)
    assert after.started.reason == "identity:adapters[0].digest"
    assert after.started.identity != before


def test_one_base_is_loaded_once_for_all_identities(bench: Bench) -> None:
    for variant in (bench.variant(), bench.variant(bench.a), bench.variant(bench.a, bench.b)):
        bench.complete(variant)
    assert len(bench.backend.loads) == 1


def test_another_base_replaces_the_first_after_its_sessions_are_closed(bench: Bench) -> None:
    bench.complete(bench.variant())
    write_base(bench.base, weights=b"\x09")
    assert bench.reason(bench.variant()) == "identity:base.digest"
    assert len(bench.backend.loads) == 2
    assert bench.backend.sessions[0].closed
    assert bench.backend.models[0].closed


def test_two_bases_stay_while_memory_allows(tmp_path: Path) -> None:
    bench = Bench(tmp_path, max_bases=2)
    first = bench.variant()
    bench.complete(first)
    bench.base = write_base(tmp_path / "second.gguf", weights=b"\x09")
    bench.complete(bench.variant())
    assert not bench.backend.models[0].closed
    assert bench.reason(first) == "warm"
    assert len(bench.backend.loads) == 2
    bench.service.close()


def test_a_base_leaves_when_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident, "available_bytes", lambda: 10)
    bench = Bench(tmp_path, max_bases=2)
    bench.complete(bench.variant())
    write_base(bench.base, weights=b"\x09")
    bench.complete(bench.variant())
    assert bench.backend.models[0].closed
    bench.service.close()


def chat(bench: Bench, variant: ResolvedVariant, **more: Any) -> Heard:
    heard = Heard()
    request = ChatRequest(
        client="c", conversation="1", variant=variant, messages=(ChatTurn(role="user", content="hi"),), **more
    )
    bench.service.chat(request, heard)
    return heard


@pytest.mark.parametrize("same", [True, False], ids=["same identity", "another identity"])
def test_a_completion_interrupts_a_chat_which_goes_on_from_its_own_kv(bench: Bench, same: bool) -> None:
    write_base(bench.base, template="{{ messages[0].content * 30 }}")
    bench.backend.script = [*(ord(letter) for letter in "abcdefgh"), 0]
    undisturbed = chat(bench, bench.variant())
    assert undisturbed.over.wait(10)
    gate = bench.backend.sessions[0].on_decode = Gate()
    heard = chat(bench, bench.variant())
    assert gate.reached.wait(10)
    bench.backend.sessions[0].on_decode = None
    completion = bench.ask(bench.variant() if same else bench.variant(bench.a), "something else")
    gate.open.set()
    assert completion.over.wait(10)
    assert heard.over.wait(10)
    assert heard.done.text == undisturbed.done.text == "abcdefgh"
    assert bench.backend.sessions[0].tokens[:60] == [ord(letter) for letter in "hi" * 30]


def test_a_chat_without_room_is_a_typed_error(bench: Bench) -> None:
    write_base(bench.base, template="{{ messages[0].content * 400 }}")
    heard = chat(bench, bench.variant())
    assert heard.over.wait(10)
    assert heard.failure
    assert (heard.failure.code, heard.failure.file) == ("prompt.room", "v.json")


def test_pre_warming_prefills_what_is_asked_next(bench: Bench) -> None:
    request = CompletionRequest(client="c", document="d", variant=bench.variant(), prefix="abcdef")
    bench.service.prewarm(request)
    while not bench.backend.sessions or not bench.backend.sessions[0].tokens:
        threading.Event().wait(0.001)
    assert bench.reason(bench.variant()) == "warm"


def test_embeddings_are_served_by_bases_alone(bench: Bench) -> None:
    got: list[Any] = []
    over = threading.Event()

    def take(result: Any) -> None:
        got.append(result)
        over.set()

    for variant in (bench.variant(), bench.variant(bench.a)):
        over.clear()
        bench.service.embed(variant, "c", "text", take, take)
        assert over.wait(10)
    assert got[0] == [1.0]
    assert got[1].code == "backend.unsupported"


def test_metrics_count_requests_reasons_and_tokens_without_text(bench: Bench) -> None:
    bench.complete(bench.variant(), "secretword")
    bench.complete(bench.variant(), "secretword")
    bench.complete(bench.variant(n_ctx=128), max_tokens=120)
    text = bench.service.metrics_text()
    assert 'warmline_reuse_total{kind="complete",reason="cold"} 1.0' in text
    assert 'warmline_reuse_total{kind="complete",reason="warm"} 1.0' in text
    assert 'warmline_errors_total{code="prompt.room"} 1.0' in text
    assert "secretword" not in text


@pytest.mark.parametrize(("effect", "code"), [(0.0, "variant.no_effect"), (float("nan"), "variant.nan_effect")])
def test_row_9_an_adapter_without_effect_is_refused(bench: Bench, effect: float, code: str) -> None:
    bench.backend.effect = effect
    heard = bench.complete(bench.variant(bench.a))
    assert heard.failure
    assert (heard.failure.code, heard.failure.file, heard.failure.field) == (code, "v.json", "adapters[0]")
    assert bench.service.status("c").state is State.FAILED
    assert bench.reason(bench.variant()) == "identity:adapters" or bench.service.status("c").state is State.READY


def test_what_a_workspace_brings_is_not_loaded_before_its_digest_is_approved(bench: Bench) -> None:
    variant = bench.variant(bench.a, workspace=True)
    heard = bench.complete(variant)
    assert heard.failure
    assert heard.failure.code == "trust.unapproved"
    assert (heard.failure.file, heard.failure.field) == ("v.json", "adapters[0].path")
    assert "warmline trust add" in heard.failure.remedy
    assert bench.backend.sessions == []
    bench.approved.add(DigestCache().digest(bench.a))
    assert bench.complete(variant).failure is None
    write_adapter(bench.a, weights=b"\x0d")
    asked_again = bench.complete(variant).failure
    assert asked_again
    assert asked_again.code == "trust.unapproved"


def break_base(bench: Bench) -> None:
    bench.base.write_bytes(b"GGUF" + b"\xff" * 60)


def other_shape(bench: Bench) -> None:
    from gguf_writer import TENSOR_F16, lora

    bench.a.write_bytes(
        lora(
            {
                "blk.0.attn_q.weight.lora_a": ([32, 4], TENSOR_F16),
                "blk.0.attn_q.weight.lora_b": ([4, 32], TENSOR_F16),
            }
        )
    )


def other_architecture(bench: Bench) -> None:
    bench.a.write_bytes(bench.a.read_bytes().replace(b"llama", b"qwen2"))


def a_folder(bench: Bench) -> None:
    bench.a.unlink()
    bench.a.mkdir()


def truncated(bench: Bench) -> None:
    bench.a.write_bytes(bench.a.read_bytes()[:-40])


FAULTS: dict[str, tuple[Callable[[Bench], object], str, str]] = {
    "missing base": (lambda t: t.base.unlink(), "artifact.missing", "base.path"),
    "broken base": (break_base, "artifact.gguf.version", "base.path"),
    "missing adapter": (lambda t: t.a.unlink(), "artifact.missing", "adapters[0].path"),
    "folder as adapter": (a_folder, "artifact.not_a_file", "adapters[0].path"),
    "truncated adapter": (truncated, "artifact.gguf.truncated", "adapters[0].path"),
    "adapter of another shape": (other_shape, "artifact.adapter.input_width", "adapters[0].path"),
    "adapter of another architecture": (
        other_architecture,
        "artifact.adapter.architecture_mismatch",
        "adapters[0].path",
    ),
    "backend that cannot load": (lambda t: setattr(t.backend, "fail_load", True), "backend.load", ""),
}


@pytest.mark.parametrize("name", FAULTS)
def test_bad_files_are_named_and_the_engine_lives_on(bench: Bench, name: str, tmp_path: Path) -> None:
    fault, code, field = FAULTS[name]
    variant = bench.variant(bench.a)
    fault(bench)
    heard = bench.complete(variant)
    assert heard.failure
    assert heard.failure.code == code
    if field:
        assert (heard.failure.file, heard.failure.field) == ("v.json", field)
        assert str(tmp_path) in heard.failure.message
    assert heard.failure.remedy
    status = bench.service.status("c")
    assert status.state is State.FAILED
    assert status.error
    assert status.error.code == code
    # mended
    bench.backend.fail_load = False
    if bench.a.is_dir():
        bench.a.rmdir()
    write_base(bench.base)
    write_adapter(bench.a)
    assert bench.complete(variant).failure is None
    assert bench.service.status("c").state is State.READY
    assert bench.service.status("c").error is None


def test_a_wrong_digest_is_refused_at_its_field(bench: Bench) -> None:
    variant = bench.variant(bench.a)
    wrong = variant.adapters[0].model_copy(update={"digest": "sha256:" + "0" * 64})
    heard = bench.complete(variant.model_copy(update={"adapters": (wrong,)}))
    assert heard.failure
    assert (heard.failure.code, heard.failure.field) == ("artifact.digest", "adapters[0].digest")


def test_an_internal_fault_is_an_error_not_the_end(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def burn(_session: FakeSession) -> None:
        raise ZeroDivisionError

    bench.backend.on_decode = burn
    heard = bench.complete(bench.variant())
    assert heard.failure
    assert heard.failure.code == "backend.internal"
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError]
    bench.backend.on_decode = None
    bench.backend.sessions[0].on_decode = None
    assert bench.complete(bench.variant()).failure is None


class Gate:
    """Holds a decode until it is opened."""

    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    def __call__(self, _session: FakeSession) -> None:
        self.reached.set()
        assert self.open.wait(10)


def test_a_newer_request_ends_the_older_at_once_and_its_decode_soon(bench: Bench) -> None:
    gate = bench.backend.on_decode = Gate()
    old = bench.ask(bench.variant())
    assert gate.reached.wait(10)
    new = bench.ask(bench.variant(), "abcdefgh")
    assert old.over.wait(10)
    assert old.done.outcome is Outcome.SUPERSEDED
    gate.open.set()
    assert new.over.wait(10)
    assert new.done.outcome is Outcome.STOP
    assert isinstance(old.events[-1], Done)


def test_other_documents_and_clients_supersede_nothing(bench: Bench) -> None:
    gate = bench.backend.on_decode = Gate()
    one = bench.ask(bench.variant())
    assert gate.reached.wait(10)
    two = bench.ask(bench.variant(), document="other")
    gate.open.set()
    for heard in (one, two):
        assert heard.over.wait(10)
        assert heard.done.outcome is Outcome.STOP


def test_cancelling_ends_a_request_and_the_next_is_served(bench: Bench) -> None:
    gate = bench.backend.on_decode = Gate()
    heard = bench.ask(bench.variant())
    assert gate.reached.wait(10)
    bench.cancel()
    assert heard.over.is_set()
    assert heard.done.outcome is Outcome.CANCELLED
    gate.open.set()
    assert bench.complete(bench.variant()).done.outcome is Outcome.STOP


def test_watchers_see_states_in_order(bench: Bench) -> None:
    seen: list[EngineStatus] = []
    stop = bench.service.watch(seen.append, "c")
    bench.complete(bench.variant())
    bench.complete(bench.variant(bench.a))
    assert bench.service.status("c").state is State.READY  # it is told when all of the request is noted
    states = [status.state for status in seen]
    distinct = [state for index, state in enumerate(states) if index == 0 or states[index - 1] != state]
    assert distinct == [
        State.EMPTY,
        State.LOADING,
        State.BUSY,
        State.READY,
        State.SWITCHING,
        State.BUSY,
        State.READY,
    ]
    stop()
    count = len(seen)
    bench.complete(bench.variant())
    assert len(seen) == count


def test_the_last_request_is_told(bench: Bench) -> None:
    bench.complete(bench.variant())
    last = bench.service.status("c").last
    assert last
    assert (last.reason, last.outcome, last.reused_tokens) == ("cold", "stop", 0)
    assert last.total_ms >= last.ttft_ms > 0


def test_who_asks_when_the_answer_has_come_is_told_of_it(bench: Bench) -> None:
    told: list[tuple[EngineStatus, str]] = []
    asking: list[threading.Thread] = []

    class Curious(Heard):
        def receive(self, events: Sequence[Event]) -> None:
            if isinstance(events[-1], Done):  # in the engine's thread, which has yet to note that the request ended
                ask = threading.Thread(
                    target=lambda: told.append((bench.service.status("c"), bench.service.metrics_text()))
                )
                asking.append(ask)
                ask.start()
                ask.join(0.05)
            super().receive(events)

    heard = Curious()
    bench.service.complete(CompletionRequest(client="c", document="d", variant=bench.variant(), prefix="abc"), heard)
    assert heard.over.wait(10)
    asking[0].join(10)
    (status, metrics), *_ = told
    assert status.state is State.READY
    assert status.last
    assert status.last.outcome == "stop"
    assert 'warmline_requests_total{kind="complete",outcome="stop"} 1.0' in metrics


def test_a_long_document_is_cut_to_the_context_and_typing_keeps_the_kv(bench: Bench) -> None:
    text = "".join(f"line {number}\n" for number in range(200))
    variant = bench.variant(fim={"order": "prefix-only"})
    cold = 0
    for keys in range(100):
        started = bench.complete(variant, text + "x" * keys).started
        assert started.prompt_tokens <= 512 - 8
        cold += started.reused_tokens < started.prompt_tokens - 2
    # The window's start moves once or not at all in a hundred keys, besides the first prompt.
    assert cold <= 2


def test_a_context_without_room_is_a_typed_error(bench: Bench) -> None:
    heard = bench.complete(bench.variant(n_ctx=128), max_tokens=120)
    assert heard.failure
    assert (heard.failure.code, heard.failure.field) == ("prompt.room", "profile.n_ctx")


def test_the_context_is_clamped_to_what_the_base_was_trained_for(bench: Bench) -> None:
    status = bench.service.describe(bench.variant(n_ctx=65536))
    assert (status.context.n_ctx, status.context.clamped) == (8192, True)


def test_describing_loads_nothing_and_says_everything(bench: Bench) -> None:
    status = bench.service.describe(bench.variant(bench.a, scale="0.5"))
    assert bench.backend.loads == []
    adapter = status.adapters[0]
    assert (adapter.scale, adapter.effective_scale, adapter.trust, adapter.verified) == ("0.5", "1", "user", False)
    assert status.identity.startswith("sha256:")


def test_an_empty_document_has_a_prompt(bench: Bench) -> None:
    assert bench.complete(bench.variant(fim={"order": "prefix-only"}), "").done.outcome is Outcome.STOP


def test_the_same_content_twice_is_refused(bench: Bench, tmp_path: Path) -> None:
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(bench.a.read_bytes())
    heard = bench.complete(bench.variant(bench.a, copy))
    assert heard.failure
    assert (heard.failure.code, heard.failure.field) == ("variant.same_adapter", "adapters[1]")


def test_what_is_no_adapter_is_not_hashed(bench: Bench) -> None:
    with bench.a.open("wb") as file:
        file.truncate(1 << 42)
    heard = bench.complete(bench.variant(bench.a))
    assert heard.failure
    assert heard.failure.code == "artifact.gguf.magic"


def test_an_adapter_made_for_another_base_is_refused(bench: Bench) -> None:
    variant = bench.variant(bench.a)
    declared = DeclaredBase(name="another", digest="sha256:" + "3" * 64)
    adapter = variant.adapters[0].model_copy(update={"declared_base": declared})
    heard = bench.complete(variant.model_copy(update={"adapters": (adapter,)}))
    assert heard.failure
    assert heard.failure.code == "artifact.adapter.base"


def test_the_mean_probability_is_that_of_the_texts_tokens_and_only_told_if_asked_for(bench: Bench) -> None:
    heard = bench.complete(bench.variant(), probability=True)
    assert heard.done.text == "abc"
    assert heard.done.mean_probability == pytest.approx((0.5 + 0.25 + 0.5) / 3)
    deltas = [event.mean_probability for event in heard.events if isinstance(event, Delta)]
    assert deltas == pytest.approx([0.5, 0.375, 1.25 / 3])
    heard = bench.complete(bench.variant())
    assert {event.mean_probability for event in heard.events if isinstance(event, Delta | Done)} == {None}


def test_candidates_do_not_supersede_each_other(bench: Bench) -> None:
    heard = [bench.ask(bench.variant(), candidate=number) for number in range(3)]
    for each in heard:
        assert each.over.wait(10)
        assert each.done.outcome is Outcome.STOP
    assert [each.done.text[0] for each in heard] == ["a", "b", "c"]


def test_what_nobody_waits_for_is_dropped_for_whatever_comes(bench: Bench) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def hold(_session: object) -> None:
        begun.set()
        go_on.wait(10)

    bench.backend.on_decode = hold
    idle = bench.ask(bench.variant(), idle=True)
    assert begun.wait(10)
    real = bench.ask(bench.variant())
    assert idle.over.wait(10)
    assert idle.done.outcome is Outcome.CANCELLED
    go_on.set()
    assert real.over.wait(10)
    assert real.done.outcome is Outcome.STOP
    alone = bench.complete(bench.variant(), idle=True)
    assert alone.done.text == "abc"


def test_context_from_other_documents_comes_first_in_the_prompt(bench: Bench) -> None:
    bench.complete(bench.variant(), context=("one\n", "two\n"), header="# a\n")
    tokens = "".join(map(chr, bench.backend.sessions[-1].tokens))
    assert tokens.startswith("one\ntwo\n# a\n")
