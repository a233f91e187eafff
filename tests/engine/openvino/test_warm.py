"""A memory budget decides how many pipelines stay: the one that was used longest ago leaves first."""

from __future__ import annotations

import pytest
from warmline.backends.openvino_warm import WarmPipelines
from warmline.capacity import default_budget
from warmline.settings import Settings

MIB = 1 << 20


class Machine:
    """Counts the memory of pipelines that are made and let go, as the system would."""

    def __init__(self, *, known: bool = True) -> None:
        self.bytes = 1000 * MIB
        self.known = known

    def resident(self) -> int:
        return self.bytes if self.known else 0


class Pipeline:
    """One of so many MiB (`Holder`)."""

    def __init__(self, machine: Machine, mib: int) -> None:
        self.machine, self.size, self.warm = machine, mib * MIB, False

    def make(self) -> Pipeline:
        self.warm = True
        self.machine.bytes += self.size
        return self

    def let_go(self) -> None:
        self.warm = False
        self.machine.bytes -= self.size


def filled(warm: WarmPipelines, machine: Machine, *sizes: int, least: int = 10) -> list[Pipeline]:
    made = [Pipeline(machine, size) for size in sizes]
    for one in made:
        assert warm.make(one, one.make, least * MIB) is one
    return made


def test_without_a_budget_the_count_decides() -> None:
    machine = Machine()
    warm = WarmPipelines(1, resident=machine.resident)
    a, b = filled(warm, machine, 100, 100)
    assert (a.warm, b.warm, len(warm)) == (False, True, 1)
    assert machine.bytes == 1100 * MIB


def test_the_budget_decides_and_the_one_used_longest_ago_leaves_first() -> None:
    machine = Machine()
    warm = WarmPipelines(16, 300 * MIB, resident=machine.resident)
    a, b, c = filled(warm, machine, 100, 100, 100)
    warm.used(a)
    (d,) = filled(warm, machine, 90)
    assert [one.warm for one in (a, b, c, d)] == [True, False, True, True]
    assert [taken.nbytes // MIB for taken in warm.taken] == [100, 100, 90]


def test_the_count_caps_what_the_budget_would_hold() -> None:
    machine = Machine()
    warm = WarmPipelines(2, 1000 * MIB, resident=machine.resident)
    assert [one.warm for one in filled(warm, machine, 1, 1, 1)] == [False, True, True]


def test_one_stays_whatever_it_takes() -> None:
    machine = Machine()
    warm = WarmPipelines(4, 50 * MIB, resident=machine.resident)
    a, b = filled(warm, machine, 30, 200)
    assert (a.warm, b.warm) == (False, True)
    warm.make_room()
    assert len(warm) == 0


def test_what_one_really_takes_counts_as_soon_as_it_is_known() -> None:
    machine = Machine()
    warm = WarmPipelines(4, 300 * MIB, resident=machine.resident)
    a, b = filled(warm, machine, 200, 200, least=90)  # by its weights the second one would have fitted
    assert (a.warm, b.warm) == (False, True)
    assert [(taken.nbytes, taken.measured) for taken in warm.taken] == [(200 * MIB, True)]


@pytest.mark.parametrize("known", [False, True])
def test_weights_and_kv_count_where_growth_tells_nothing(known: bool) -> None:
    """The system does not say, or the pipeline took memory that another one had left."""
    machine = Machine(known=known)
    warm = WarmPipelines(16, 250 * MIB, resident=machine.resident)
    found = filled(warm, machine, *([0, 0, 0] if known else [100, 100, 100]), least=100)
    assert [one.warm for one in found] == [False, True, True]
    assert [(taken.nbytes, taken.measured) for taken in warm.taken] == [(100 * MIB, False)] * 2


def test_what_was_closed_takes_nothing() -> None:
    machine = Machine()
    warm = WarmPipelines(16, 250 * MIB, resident=machine.resident)
    a, b = filled(warm, machine, 100, 100)
    a.let_go()
    warm.forget(a)
    (c,) = filled(warm, machine, 100)
    assert (b.warm, c.warm) == (True, True)


def test_the_settings_say_how_many() -> None:
    def pipelines(**settings: int) -> tuple[int, int | None]:
        return Settings.model_validate({key.replace("_", "-"): value for key, value in settings.items()}).pipelines()

    assert pipelines() == (1, default_budget())
    assert pipelines(warm_pipelines=3) == (3, default_budget())
    assert pipelines(pipeline_memory_mib=700) == (16, 700 * MIB)
    assert pipelines(pipeline_memory_mib=700, warm_pipelines=2) == (2, 700 * MIB)
