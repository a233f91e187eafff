"""What documents declare: found by a look at each line, whole, each once; and how the ring keeps it."""

from __future__ import annotations

import random
import time

import pytest
from warmline_server.context.declarations import MOST_LINES, Declaration, declarations
from warmline_server.context.ring import Excerpt, Ring

# Name: language, text, the lines that are found.
FOUND = {
    "python": (
        "python",
        """\
import os

@cached
def one(a: int,
        b: str = '') -> None:
    def inner(): ...
    x = f(3)


class Two(Base):
    async def three(self):
        return define(self)

# def four(): no
async def five(): ...
""",
        [
            "def one(a: int, b: str = '') -> None:",
            "    def inner(): ...",
            "class Two(Base):",
            "    async def three(self):",
            "async def five(): ...",
        ],
    ),
    "typescript": (
        "typescript",
        """\
import x from 'y';
export interface Shape {
  area(): number;
}
export type Id = string | number;
export default async function load<T>(
  url: string,
): Promise<T> {
  if (url) {
  return call(url);
}
export const twice = (n: number): number => n * 2;
const limit = 3;
abstract class Base extends Other {
  private async run(step: Step): Promise<void> {
    for (const a of b) {
  while (x) {
  }
}
enum Kind { A }
""",
        [
            "export interface Shape",
            "export type Id = string | number;",
            "export default async function load<T>(url: string,): Promise<T>",
            "export const twice = (n: number): number => n * 2;",
            "abstract class Base extends Other",
            "  private async run(step: Step): Promise<void>",
            "enum Kind { A }",
        ],
    ),
    "javascript": (
        "javascript",
        """\
class Cart {
  #items = [];
  add(item, { quantity }) {
    this.push(item);
  }
  static of(...items) {
  switch (a) {
  do_it(a, b);
}
function* walk(tree) {
const f = async x => x;
module.exports = Cart;
""",
        [
            "class Cart",
            "  add(item, { quantity })",
            "  static of(...items)",
            "function* walk(tree)",
            "const f = async x => x;",
        ],
    ),
    "go": (
        "go",
        """\
package a

type Server struct {
	addr string
}

func (s *Server) Start(
	ctx context.Context,
) error {
	return nil
}
func New[T any](a T) *Server { return nil }
var f = func() {}
""",
        [
            "type Server struct",
            "func (s *Server) Start(ctx context.Context,) error",
            "func New[T any](a T) *Server { return nil }",
        ],
    ),
    "rust": (
        "rust",
        """\
use a::b;
pub(crate) struct Ring<T> {
    size: usize,
}
impl<T: Clone> Ring<T> {
    pub const fn new(size: usize) -> Self {
        let fnord = 3;
    }
    async unsafe fn go(&self);
}
macro_rules! square {
extern "C" fn cb(x: i32) -> i32 {
""",
        [
            "pub(crate) struct Ring<T>",
            "impl<T: Clone> Ring<T>",
            "    pub const fn new(size: usize) -> Self",
            "    async unsafe fn go(&self);",
            "macro_rules! square",
            'extern "C" fn cb(x: i32) -> i32',
        ],
    ),
    "java": (
        "java",
        """\
package a;
import java.util.*;
public final class Bank implements Ledger {
    private int total;
    public Bank(int total) {
    static <T> Map<String, List<T>> group(List<T> all) throws IOException {
        return of(all);
    int[] ids() {
    if (x) {
    } else if (y) {
    call(a);
}
record Point(int x, int y) {
""",
        [
            "public final class Bank implements Ledger",
            "    public Bank(int total)",
            "    static <T> Map<String, List<T>> group(List<T> all) throws IOException",
            "    int[] ids()",
            "record Point(int x, int y)",
        ],
    ),
    "c": (
        "c",
        """\
#include <a.h>
typedef unsigned long size;
struct node {
    int x;
};
struct node *head;
int sum(const int *values,
        size_t count);
static inline void *grow(void *p)
{
    helper(p);
    return f(p);
}
int main(int argc, char **argv) {
    int y = sum(a, 3);
INIT(thing);
""",
        [
            "typedef unsigned long size;",
            "struct node",
            "int sum(const int *values, size_t count);",
            "static inline void *grow(void *p)",
            "int main(int argc, char **argv)",
        ],
    ),
    "c++": (
        "cpp",
        """\
namespace acme {
class Ledger : public Base {
  std::vector<int> rows() const {
  ~Ledger();
  Result r(3);
};
std::optional<Row> Ledger::find(const std::string &key) {
  return lookup(key);
}
using Rows = std::vector<Row>;
}
""",
        [
            "namespace acme",
            "class Ledger : public Base",
            "  std::vector<int> rows() const",
            "std::optional<Row> Ledger::find(const std::string &key)",
            "using Rows = std::vector<Row>;",
        ],
    ),
    "lua": (
        "lua",
        """\
local M = {}
local function one(a, b)
  return a
end
function M.two:three()
M.four = function(x)
print(function() end)
""",
        ["local function one(a, b)", "function M.two:three()", "M.four = function(x)"],
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_functions_classes_and_types_are_found(name: str) -> None:
    language, text, wanted = FOUND[name]
    assert [each.line for each in declarations(text, language)] == wanted


def test_members_know_what_they_belong_to_and_each_is_found_once() -> None:
    text = "class A:\n    def go(self):\nclass B:\n    def go(self):\n    def go(self):\n"
    assert declarations(text, "python") == (
        Declaration("class A:"),
        Declaration("    def go(self):", "class A:"),
        Declaration("class B:"),
        Declaration("    def go(self):", "class B:"),
    )


def test_prose_data_and_what_never_ends_declare_nothing() -> None:
    assert declarations("def f(): ...", "markdown") == ()
    assert declarations("def f(" + "a, " * 100 + "):\n", "python") == ()
    assert declarations("def f(\n" + "    a,\n" * 20, "python") == ()
    assert declarations("\n" * MOST_LINES + "def f(): ...", "python") == ()


@pytest.mark.parametrize("language", ["python", "typescript", "go", "rust", "java", "cpp", "lua"])
def test_no_text_takes_long(language: str) -> None:
    draw = random.Random(11)
    parts = [
        "static ",
        "a ",
        "* ",
        "&",
        "(",
        "(",
        ")",
        "<",
        ">",
        "= ",
        "{",
        "x",
        "::",
        " ",
        "export ",
        "[]",
        ", ",
        "def ",
    ]
    odd = ["".join(draw.choices(parts, k=60))[:199] for _ in range(MOST_LINES - 4)]
    giants = ["a b(" + " " * 300_000 + "x", "void f(", "a" * 300_000, "static " * 28 + "x"]
    begun = time.process_time()
    declarations("\n".join([*giants, *odd]), language)
    assert time.process_time() - begun < 0.5


# -- in the ring -----------------------------------------------------------------------------------------------------


def signatures(first: int, count: int) -> list[Declaration]:
    return [Declaration(f"def f{number}():") for number in range(first, first + count)]


def texts(ring: Ring, uri: str = "other", near: str = "") -> tuple[str, ...]:
    return tuple(each.text for each in ring.beside("ws", uri, near))


def test_what_is_new_is_appended_and_what_stood_there_stays() -> None:
    ring = Ring(lambda: 0, lambda: 4000)
    assert ring.declare("ws", "a", "# a.py\n", signatures(0, 2))
    assert not ring.declare("ws", "a", "# a.py\n", signatures(0, 2))
    before = texts(ring)
    assert before == ("# a.py\ndef f0():\ndef f1():\n\n",)
    assert ring.declare("ws", "a", "# a.py\n", signatures(0, 3))
    assert texts(ring) == (*before, "# a.py\ndef f2():\n\n")
    assert texts(ring, "a") == ()


def test_a_new_member_stands_below_what_it_belongs_to() -> None:
    ring = Ring(lambda: 0, lambda: 4000)
    known = declarations("class A:\n    def one(self):\nclass B:\n", "python")
    ring.declare("ws", "a", "# a.py\n", known)
    ring.declare(
        "ws", "a", "# a.py\n", declarations("class A:\n    def one(self):\n    def two(self):\nclass B:\n", "python")
    )
    assert texts(ring)[1:] == ("# a.py\nclass A:\n    def two(self):\n\n",)


def test_what_is_declared_no_more_is_not_told_any_more() -> None:
    ring = Ring(lambda: 0, lambda: 4000)
    ring.declare("ws", "a", "# a.py\n", [Declaration("def pay(sum):"), Declaration("def get():")])
    ring.declare("ws", "b", "# b.py\n", signatures(0, 1))
    ring.declare("ws", "a", "# a.py\n", [Declaration("def pay(sum, to):"), Declaration("def get():")])
    assert texts(ring) == ("# b.py\ndef f0():\n\n", "# a.py\ndef pay(sum, to):\ndef get():\n\n")
    ring.declare("ws", "a", "# a.py\n", [])
    assert texts(ring) == ("# b.py\ndef f0():\n\n",)


def test_no_line_is_told_twice() -> None:
    ring = Ring(lambda: 4, lambda: 4000)
    ring.add("ws", Excerpt("a", "// a.c\nint f(void) {\n  return 1;\n}\n"))
    ring.declare("ws", "a", "// a.c\n", [Declaration("int f(void)"), Declaration("int g(void)")])
    ring.declare("ws", "copy", "// copy.c\n", [Declaration("int g(void)")])
    assert texts(ring)[1:] == ("// a.c\nint g(void)\n\n",)
    assert len(texts(ring, near="// a.c\nint g(void)\nint x;")) == 1


def test_room_is_kept_and_a_block_of_the_oldest_leaves_at_once() -> None:
    ring = Ring(lambda: 0, lambda: 1000)
    cuts, before = 0, texts(ring)
    for number in range(40):
        ring.declare("ws", f"doc{number}", f"# doc{number}.py\n", signatures(number * 10, 6))
        now = texts(ring)
        assert sum(map(len, now)) <= 1000
        if now[: len(before)] != before:
            cuts += 1
            assert sum(map(len, now)) <= 500
            assert before[-(len(now) - 1) :] == now[:-1]
        before = now
    assert 2 < cuts < 8
    assert now[-1].startswith("# doc39.py\ndef f390():\n")


def test_one_document_leaves_room_for_others_and_is_not_written_again_and_again() -> None:
    ring = Ring(lambda: 0, lambda: 1000)
    ring.declare("ws", "b", "# b.py\n", signatures(5000, 1))
    assert ring.declare("ws", "giant", "# giant.py\n", signatures(0, 3000))
    for _ in range(5):
        assert not ring.declare("ws", "giant", "# giant.py\n", signatures(0, 3000))
    assert [text.split("\n")[0] for text in texts(ring)] == ["# b.py", "# giant.py"]
    assert 400 < len(texts(ring)[1]) <= 500


def test_excerpts_and_declarations_leave_each_others_blocks_alone() -> None:
    ring = Ring(lambda: 2, lambda: 4000)
    for number in range(5):
        ring.add("ws", Excerpt(f"d{number}", f"# d{number}.py\nvalue = {number}\n"))
        ring.declare("ws", f"d{number}", f"# d{number}.py\n", signatures(number, 1))
    kinds = [bool(each.declares) for each in ring.beside("ws", "other")]
    assert (kinds.count(True), kinds.count(False)) == (5, 2)


@pytest.mark.parametrize(
    ("size", "room", "kinds"), [(0, 400, {True}), (4, 0, {False}), (4, 400, {True, False}), (0, 0, set())]
)
def test_each_kind_is_given_only_while_it_is_wanted(size: int, room: int, kinds: set[bool]) -> None:
    wanted = [4, 400]
    ring = Ring(lambda: wanted[0], lambda: wanted[1])
    ring.add("ws", Excerpt("a", "# a.py\nvalue = 1\n"))
    ring.declare("ws", "a", "# a.py\n", signatures(0, 1))
    wanted[:] = [size, room]
    assert {bool(each.declares) for each in ring.beside("ws", "other")} == kinds
