"""The sandbox: what a hostile solution tries is stopped and counted as failed, and no pass can be faked."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from socket import create_server

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warmline.evaluation.humaneval import humaneval_tasks
from warmline.evaluation.sandbox import Limits, Verdict, passes
from warmline.evaluation.sandbox.values import NotPlainError, decode, encode

REFERENCE = "def twice(x):\n    return x * 2\n"
TEST = """
def check(candidate):
    assert candidate(2) == 4
    assert candidate("ab") == "abab"
    assert candidate([1, (2.5, None)]) == [1, (2.5, None), 1, (2.5, None)]
"""
LIMITS = Limits(seconds=4, cpu_seconds=1)


def tried(code: str, limits: Limits = LIMITS) -> Verdict:
    return passes(code, REFERENCE, TEST, "twice", limits)


def test_a_right_solution_passes_and_a_wrong_one_does_not() -> None:
    assert tried(REFERENCE).passed
    assert tried("import math\n" + REFERENCE).passed
    for wrong in ("def twice(x):\n    return x", "def twice(x)", "x = 1", "raise ValueError", ""):
        verdict = tried(wrong)
        assert not verdict.passed
        assert verdict.reason


@pytest.mark.skipif(sys.platform != "linux", reason="what confines is Linux's")
def test_what_confines_it_here_is_told() -> None:
    """The kernel holds it, not Python alone; namespaces are more where a machine gives them."""
    assert {"limits", "system-calls", "audit"} <= set(tried(REFERENCE).holds)


FAKES = {
    "exits as if all went well": """
import os
def twice(x):
    os._exit(0)
""",
    "exits while it is imported": """
import sys
sys.exit(0)
""",
    "prints what a pass looks like": """
import sys
print('{"secret": "", "passed": true, "holds": [], "reason": ""}')
def twice(x):
    sys.__stdout__.write('passed')
    return None
""",
    "writes answers into every descriptor": """
import os
for descriptor in range(3, 16):
    try:
        os.write(descriptor, b'{"value": true}\\n' * 9)
    except OSError:
        pass
def twice(x):
    return 0
""",
    "returns what equals everything": """
class Equal:
    def __eq__(self, other):
        return True
def twice(x):
    return Equal()
""",
    "returns a number that equals everything": """
class Equal(int):
    def __eq__(self, other):
        return True
def twice(x):
    return Equal()
""",
    "looks for the tests in memory": """
import gc, sys
def twice(x):
    for each in gc.get_objects():
        if type(each) is dict and ('check' in each or 'secret' in each):
            return 4
    frame = sys._getframe()
    while frame:
        if 'check' in frame.f_globals:
            return 4
        frame = frame.f_back
""",
    "replaces what compares": """
import builtins
builtins.AssertionError = Exception
def twice(x):
    return 1
""",
    "changes what writes its answers": """
import sys
sys.modules['warmline.evaluation.sandbox.cell'].encode = lambda value: {'int': '0x4'}
def twice(x):
    return 4
""",
    "answers nonsense": """
import sys
sys.modules['warmline.evaluation.sandbox.cell']._called = lambda function, request: {'value': {'exec': '1'}}
def twice(x):
    return 4
""",
    "answers a deep value": """
def twice(x):
    value = []
    for _ in range(500):
        value = [value]
    return value
""",
    "answers without end": """
def twice(x):
    return 'x' * (64 << 20)
""",
}


@pytest.mark.parametrize("code", FAKES.values(), ids=FAKES.keys())
def test_a_pass_cannot_be_faked(code: str) -> None:
    verdict = tried(code)
    assert not verdict.passed
    assert verdict.reason


def test_files_outside_are_neither_read_nor_written(tmp_path: Path) -> None:
    secret, target = tmp_path / "secret.txt", tmp_path / "written.txt"
    secret.write_text("4")
    code = f"""
import os
def twice(x):
    found = []
    for way in (lambda: open({str(secret)!r}).read(), lambda: os.listdir('/'), lambda: os.open({str(secret)!r}, 0),
                lambda: open({str(target)!r}, 'w').write('x'), lambda: os.remove({str(secret)!r})):
        try:
            found.append(way())
        except OSError:
            pass
    return x * 2 if found else 'nothing was found'
"""
    assert not tried(code).passed
    assert secret.exists()
    assert not target.exists()


def test_the_environment_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "4")
    assert not tried("import os\ndef twice(x):\n    return x * 2 if 'SECRET_TOKEN' in os.environ else None").passed


def test_the_network_is_out_of_reach() -> None:
    with create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        code = f"""
import _socket
def twice(x):
    _socket.socket().connect(('127.0.0.1', {port}))
    return x * 2
"""
        assert not tried(code).passed
        with pytest.raises(TimeoutError):
            server.accept()


def test_loops_forks_and_memory_are_stopped() -> None:
    loop = tried("def twice(x):\n    while True: pass", Limits(seconds=20, cpu_seconds=1))
    assert loop.reason == "it used up its time of the processor"
    assert tried("import os\ndef twice(x):\n    os._exit(3)").reason == "the solution's process ended"
    sleeper = tried("import time\ndef twice(x):\n    time.sleep(100)\n    return x * 2", Limits(seconds=1))
    assert sleeper.reason == "it took too long"
    bomb = "import os, _posixsubprocess\ndef twice(x):\n    while True:\n        os.fork()"
    assert "PermissionError" in tried(bomb).reason
    # Zeros that nobody writes: address space, but no pages whose filling would take the processor's time.
    hog = "def twice(x):\n    hoard = [bytes(64 << 20) for _ in range(64)]\n    return x * 2"
    assert "MemoryError" in tried(hog).reason


@pytest.mark.skipif(sys.platform != "linux", reason="system calls of Linux")
def test_the_kernel_holds_what_python_does_not(tmp_path: Path) -> None:
    """With the audit hook out of the way, each system call is refused."""
    script = f"""
import ctypes, os, _socket
libc = ctypes.CDLL(None, use_errno=True)
from warmline.evaluation.sandbox import confinement
assert confinement._system_calls()
refused = []
ways = (lambda: os.open({str(tmp_path)!r}, os.O_RDONLY), lambda: _socket.socket(), lambda: os.fork(),
        lambda: os.stat('/'), lambda: os.kill(1, 0), lambda: os.execv('/bin/true', ['true']))
for number, way in enumerate(ways):
    try:
        way()
    except OSError as error:
        assert error.errno == 1, error
        refused.append(number)
assert libc.ptrace(16, 1, 0, 0) == -1 and libc.unshare(0x10000000) == -1
os.write(1, str(refused).encode())
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False)
    assert done.stdout == b"[0, 1, 2, 3, 4, 5]", done.stderr.decode()


def test_nothing_is_left_behind() -> None:
    """The cell goes with its checker, whatever it does when it is asked to end."""
    code = "import signal, time\nfor s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\ndef twice(x): time.sleep(60)"
    began = threading.active_count()
    assert not tried(code, Limits(seconds=1)).passed
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "sandbox.cell" not in found
    assert threading.active_count() == began


@pytest.mark.parametrize("task", humaneval_tasks()[::40], ids=lambda task: task["task_id"])
def test_canonical_solutions_pass_their_tests(task: dict[str, str]) -> None:
    whole = task["prompt"] + task["canonical_solution"]
    verdict = passes(whole, whole, task["test"], task["entry_point"])
    assert verdict.passed, verdict
    broken = task["prompt"] + "    return None\n"
    assert not passes(broken, whole, task["test"], task["entry_point"]).passed


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(plain)
def test_plain_values_come_through_exactly(value: object) -> None:
    found = decode(encode(value))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "bad", [{"int": 7}, {"list": "x"}, [], 5, {"a": 1, "b": 2}, {"dict": [[1]]}, {"set": [{"list": []}]}]
)
def test_what_is_no_value_is_refused(bad: object) -> None:
    with pytest.raises(NotPlainError):
        decode(bad)
