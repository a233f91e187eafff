"""The sandbox of chat templates: what a template may call, hold, output and spend, within hard bounds.

A template is untrusted code (CVE-2024-34359, CVE-2026-5760). Jinja's immutable sandbox keeps it from Python's
internals, but not from hanging or eating memory: it only caps ``range``. The bound here is a budget that the template
itself pays from. Its syntax tree is rewritten before it is compiled, so that each loop turn, comparison, literal,
slice, concatenation and piece of output charges the budget; calls, operators and filters are charged where Jinja lets
them be intercepted, and whatever could allocate much in one native call is charged *before* it runs.

Why not something simpler: a signal works in the main thread only, a subprocess costs 50 ms for each message, a thread
cannot be killed, and ``sys.settrace`` neither stops one long native call (``'a' * 10**9``, ``|center(10**9)``) nor
leaves debuggers and coverage alone. A budget is also deterministic: the same template and messages end in the same
way on every machine. A deadline, looked at on each charge, backs it up where a charge underestimates the work.

Rendering follows Hugging Face's ``apply_chat_template``: ``trim_blocks``, ``lstrip_blocks``, loop controls,
``raise_exception``, ``tojson``, a transparent ``{% generation %}``.
"""

from __future__ import annotations

import datetime
import json
import re
import time
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace, pass_context
from jinja2.visitor import NodeTransformer

from warmline.errors import PromptError

# Llama 3's own template falls back to this date. A real clock would give the system prompt another text each day:
# warm KV would be lost at midnight and equal requests would not be equal. Leaving the function out breaks templates
# that call it unguarded (gpt-oss).
_TODAY = datetime.date(2024, 7, 26)

MARK = "\ufdd0"  # a Unicode noncharacter: never in text that is meant for interchange

_STEP = 256  # budget units of one loop turn, call or operator: about 1 µs each, as copying some hundred characters
_ITEM = 16  # budget units of making or visiting one container slot
_INT_BITS = 4096
_MACRO_DEPTH = 64


@dataclass(frozen=True)
class TemplateLimits:
    """Bounds of one rendering.

    Parameters
    ----------
    template_chars
        Longest template that is compiled, in characters; the largest in use are some 20,000.
    output_chars
        Longest output, in characters.
    work
        Budget: characters that are produced + 16 for each container slot + 256 for each step. The default allows
        250,000 steps, and about 64 MB (256 MB of wide text) held at once.
    seconds
        Wall-clock backstop.
    """

    template_chars: int = 131_072
    output_chars: int = 4_000_000
    work: int = 64_000_000
    seconds: float = 5.0


class Meter:
    """The budget of one rendering."""

    def __init__(self, limits: TemplateLimits) -> None:
        self.left = limits.work
        self.depth = 0
        self.deadline = time.monotonic() + limits.seconds

    def charge(self, amount: int) -> None:
        self.left -= amount
        if self.left < 0:
            raise limit_error("the chat template does too much work for one rendering")
        if time.monotonic() > self.deadline:
            raise limit_error("the chat template takes too long to render")

    def size(self, value: Any) -> int:
        """Return a value's size as a tree, charging for the visit only.

        As a tree, because ``[x, x]`` nested forty times holds forty lists but takes 2**40 visits to print or compare.
        Every container is measured when it is made and cannot change afterwards, so no such value ever exists.
        """
        total, visits, todo = 0, 0, [value]
        while todo:
            item = todo.pop()
            visits += 1
            if isinstance(item, str):
                total += len(item)
            elif isinstance(item, Mapping):
                todo += [part for pair in item.items() for part in pair]
            elif isinstance(item, (list, tuple)):
                todo += item
            elif isinstance(item, Namespace):
                # Mutable: its size could change after it was measured.
                raise SecurityError("a namespace can be neither printed nor stored in another value")
            elif isinstance(item, int):
                total += item.bit_length() // 8
            total += _ITEM
            if total > self.left:
                raise limit_error("the chat template builds too large a value")
        self.charge(_ITEM * visits)
        return total

    def operand(self, value: Any) -> None:
        """Charge for reading one operand, at its top level: what it holds was measured when it was made."""
        if isinstance(value, Namespace):
            self.size(value)
        self.charge(len(value) if isinstance(value, (str, list, tuple, dict)) else 1)

    def pay(self, value: Any) -> Any:
        """Charge for a value just produced; a lazy one is drawn into a list first."""
        if isinstance(value, _LAZY):
            drawn = []
            for item in value:
                self.charge(_STEP)
                drawn.append(item)
            value = drawn
        if isinstance(value, str):
            self.charge(len(value))
        else:
            self.size(value)
            self.charge(_ITEM * len(value) if isinstance(value, (list, tuple, dict)) else 0)
        return value


_LAZY = (Iterator, KeysView, ValuesView, ItemsView)
METER: ContextVar[Meter] = ContextVar("meter")


def limit_error(message: str) -> PromptError:
    return PromptError(
        message, code="prompt.template_limit", remedy="Set another chat template in the variant's profile"
    )


# ---- what a template may call --------------------------------------------------------------------------------------


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STR_METHODS = _words(
    "capitalize casefold count endswith find format index isalnum isalpha isascii isdecimal isdigit islower isnumeric "
    "isspace istitle isupper join lower lstrip partition removeprefix removesuffix replace rfind rindex rpartition "
    "rsplit rstrip split splitlines startswith strip swapcase title upper"
)
_BOX_METHODS = _words("copy count get index items keys values")


# A field of four digits' width or one whose width is an argument. With a mapping key the text is not parsed here, any
# long number refuses it.
_WIDE = {
    "{": re.compile(r"\{[^}]*(\d{4}|\{)"),
    "%": re.compile(r"%[-+ #0]*(\d{4}|\*|\d*\.(\d{4}|\*))"),
    "%(": re.compile(r"\d{4}|\*"),
}


def _check_format(meter: Meter, text: str, values: Any, sign: str) -> None:
    """Refuse huge widths, and pay for every field as if it held all values."""
    if _WIDE["%(" if sign == "%" and "(" in text else sign].search(text):
        raise limit_error("the chat template asks for too wide a field")
    meter.charge(text.count(sign) * (10 * meter.size(values) + 1000))


def _check_join(meter: Meter, glue: str, items: Any) -> Sequence[Any]:
    drawn: Sequence[Any] = items if isinstance(items, (list, tuple)) else meter.pay(iter(items))
    meter.charge(meter.size(drawn) + len(str(glue)) * len(drawn))
    return drawn


def _check_method(meter: Meter, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Charge in advance for string methods whose result may be much larger than their operands."""
    text, name = method.__self__, method.__name__
    if not isinstance(text, str):
        return args
    meter.charge(len(text))
    if name == "join" and args:
        return (_check_join(meter, text, args[0]), *args[1:])
    if name == "replace" and len(args) > 1 and isinstance(args[0], str) and isinstance(args[1], str):
        meter.charge(text.count(args[0]) * len(args[1]))
    elif name in ("split", "rsplit"):
        glue = args[0] if args else kwargs.get("sep")
        meter.charge(_ITEM * (text.count(glue) if isinstance(glue, str) and glue else len(text) // 2))
    elif name == "splitlines":
        meter.charge(_ITEM * len(text))
    elif name == "format":
        _check_format(meter, text, [*args, *kwargs.values()], "{")
    return args


def _raise_exception(message: Any) -> None:
    raise RefusedError(str(message)[:500])


class RefusedError(Exception):
    """The template itself refused the messages."""


def _strftime_now(layout: str) -> str:
    return _TODAY.strftime(str(layout)[:64])


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter escapes for HTML, which no model was trained on.
    if not (indent is None or (isinstance(indent, int) and 0 <= indent <= 16)):
        raise limit_error("the chat template asks for too wide an indent")
    if separators is not None and len("".join(separators)) > 16:
        raise limit_error("the chat template asks for too long separators")
    encoder = json.JSONEncoder(ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    meter, parts = METER.get(), []
    for part in encoder.iterencode(value):
        meter.charge(len(part))
        parts.append(part)
    return "".join(parts)


def _join(value: Any, d: str = "", attribute: str | int | None = None) -> str:
    if attribute is not None:
        value = [item[attribute] for item in value]
    return str(d).join(map(str, _check_join(METER.get(), d, value)))


def _replace(value: Any, old: str, new: str, count: int | None = None) -> str:
    text, old, new = str(value), str(old), str(new)
    METER.get().charge(text.count(old) * len(new))
    return text.replace(old, new, -1 if count is None else count)


def _indent(text: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    pad = width if isinstance(width, str) else " " * min(int(width), 1000)
    lines = str(text).split("\n")
    METER.get().charge(len(lines) * (len(pad) + _ITEM))
    return "\n".join(pad + x if (x or blank) and (i or first) else x for i, x in enumerate(lines))


def _format(text: Any, *args: Any, **kwargs: Any) -> str:
    _check_format(METER.get(), str(text), [*args, *kwargs.values()], "%")
    return str(text) % (kwargs or args)


def _sum(values: Iterable[Any], attribute: str | int | None = None, start: float = 0) -> Any:
    # Numbers only: adding up lists is quadratic inside one native call.
    numbers = [item if attribute is None else item[attribute] for item in values]
    if not all(isinstance(number, (int, float)) for number in [*numbers, start]):
        raise TypeError("sum takes numbers")
    return sum(numbers, start)


def _round(value: float, precision: int = 0, method: str = "common") -> float:
    if not -20 <= precision <= 20 or method not in ("common", "ceil", "floor"):
        raise limit_error("the chat template rounds beyond twenty digits")
    if method == "common":
        return round(value, precision)
    scaled = value * 10.0**precision
    return float(scaled // 1 if method == "floor" else -(-scaled // 1)) / 10.0**precision


def _as_list(value: Any) -> list[Any]:
    METER.get().charge(_ITEM * len(value) if hasattr(value, "__len__") else 0)
    return list(value)


def _slice(value: Any, start: Any, stop: Any, step: Any) -> Any:
    return value[start:stop:step]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        METER.get().charge(METER.get().size(value))
    return str(value)


def _concat(parts: list[Any]) -> str:
    METER.get().charge(METER.get().size(parts))
    return "".join(map(str, parts))


def _same(value: Any) -> Any:
    return value


# Jinja's filters that are linear in their operands. Left out: `attr` (escapes), `random` (another prompt each time),
# `center`, `batch`, `slice`, `wordwrap` (amplify), and those for HTML pages.
_DEEP_FILTERS = _words("dictsort groupby max min sort unique")  # they compare what the operand holds
_JINJA_FILTERS = _words(
    "abs capitalize count d default dictsort first float groupby int items last length lower map max min reject "
    "rejectattr reverse select selectattr sort title trim truncate unique upper wordcount"
)
_OWN_FILTERS: dict[str, Callable[..., Any]] = {
    "format": _format,
    "indent": _indent,
    "join": _join,
    "list": _as_list,
    "replace": _replace,
    "round": _round,
    "safe": _text,  # nothing is escaped for HTML here
    "string": _text,
    "sum": _sum,
    "tojson": _tojson,
    # Put in by `Metered`.
    "concat!": _concat,
    "same!": _same,
    "slice!": _slice,
}


def _metered(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a filter: its operands and its result are paid for."""
    skip = 1 if hasattr(function, "jinja_pass_arg") else 0

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        meter = METER.get()
        meter.charge(_STEP)
        for operand in (*args[skip:], *kwargs.values()):
            meter.operand(operand)
        if name in _DEEP_FILTERS and len(args) > skip:
            meter.charge(meter.size(args[skip]))
        return meter.pay(function(*args, **kwargs))

    return call


# ---- the sandbox ---------------------------------------------------------------------------------------------------


class Metered(NodeTransformer):
    """Rewrites a template's tree so that what Jinja would compile to bare Python goes through a metered filter."""

    def _through(self, name: str, node: nodes.Expr, *args: nodes.Expr) -> nodes.Filter:
        return nodes.Filter(node, name, list(args), [], None, None, lineno=node.lineno)

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Node:
        return nodes.Const(node.data, lineno=node.lineno)  # so that it passes `finalize`, where output is paid for

    def _measured(self, node: nodes.Expr) -> nodes.Node:
        return self._through("same!", self.generic_visit(node))  # type: ignore[arg-type]

    visit_List = visit_Dict = visit_Compare = visit_Test = _measured

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        return self._measured(node) if node.ctx == "load" else self.generic_visit(node)

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return self._through("concat!", nodes.List(node.nodes, lineno=node.lineno))

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        parts = (node.arg.start, node.arg.stop, node.arg.step)
        return self._through("slice!", node.node, *(part or nodes.Const(None) for part in parts))

    def visit_For(self, node: nodes.For) -> nodes.Node:
        if node.recursive:
            raise SecurityError("recursive loops are not offered to chat templates")
        self.generic_visit(node)
        turn = self._through("same!", nodes.Const(True, lineno=node.lineno))
        node.body.insert(0, nodes.ExprStmt(turn, lineno=node.lineno))
        if node.test is not None:  # a filtered loop turns without reaching its body
            node.test = nodes.And(turn, node.test, lineno=node.lineno)
        return node

    def _refused(self, node: nodes.Node) -> nodes.Node:
        raise SecurityError(f"{type(node).__name__.lower()} is not offered to chat templates")

    visit_Include = visit_Import = visit_FromImport = visit_Extends = visit_Block = _refused
    visit_ScopedEvalContextModifier = visit_EvalContextModifier = _refused


class _Generation(Extension):
    """``{% generation %}`` marks the assistant's text for training; for rendering it is transparent."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's immutable sandbox with an allow-list of callables and a budget."""

    intercepted_binops = frozenset(["+", "-", "*", "/", "//", "%", "**"])

    def __init__(self) -> None:
        # `finalize` takes the context and the optimizer is off: otherwise constant expressions would be evaluated
        # while compiling, outside of the budget.
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            cache_size=0,
            finalize=_finalize,
            extensions=[loopcontrols, _Generation],
        )
        jinja_filters = {name: self.filters[name] for name in _JINJA_FILTERS}
        self.filters = {name: _metered(name, function) for name, function in (jinja_filters | _OWN_FILTERS).items()}
        allowed = {"range": self.globals["range"], "namespace": Namespace, "dict": dict}
        self.globals = allowed | {"raise_exception": _raise_exception, "strftime_now": _strftime_now}
        self._callables = tuple(self.globals.values())

    def is_safe_callable(self, obj: Any) -> bool:
        if isinstance(obj, (Macro, Undefined)) or any(obj is known for known in self._callables):
            return True  # calling an undefined value raises the error that names it
        owner, name = getattr(obj, "__self__", None), getattr(obj, "__name__", "")
        if isinstance(owner, LoopContext):
            return name in ("cycle", "changed")
        if isinstance(owner, str):
            return name in _STR_METHODS
        return isinstance(owner, (dict, list, tuple)) and name in _BOX_METHODS

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        # Jinja hands out an undefined value, which prints as nothing; no honest template comes here.
        raise SecurityError(f"access to attribute {attribute!r} of {type(obj).__name__}")

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        wrapped = super().wrap_str_format(value)
        if wrapped is not None and value.__name__ == "format":
            # Keeps the owner visible to `is_safe_callable`; format_map stays without one and is refused.
            wrapped.__self__ = value.__self__  # type: ignore[attr-defined]
        return wrapped

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        meter = METER.get()
        meter.charge(_STEP)
        macro = isinstance(__obj, Macro)
        if not __self.is_safe_callable(__obj):
            raise SecurityError(f"{getattr(__obj, '__name__', type(__obj).__name__)} may not be called")
        if not macro and isinstance(getattr(__obj, "__self__", None), str):
            args = _check_method(meter, __obj, args, kwargs)
        if macro and (__obj.catch_varargs or __obj.catch_kwargs):
            meter.size([v for k, v in kwargs.items() if k not in ("caller", "_loop_vars", "_block_vars")])
            meter.size(args)  # they become a tuple that the macro may hold on to
        meter.depth += macro
        if meter.depth > _MACRO_DEPTH:
            raise limit_error("the chat template's macros call each other too deeply")
        result = super().call(__context, __obj, *args, **kwargs)
        meter.depth -= macro
        return result if isinstance(result, (Namespace, range)) else meter.pay(result)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        meter = METER.get()
        meter.charge(_STEP)
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if operator == "%" and isinstance(left, str):
            _check_format(meter, left, right, "%")
        elif operator == "*" and not numbers:
            count = next((n for n in (left, right) if isinstance(n, int)), 1)
            meter.charge(max(count, 0) * (meter.size(left) + meter.size(right)))
        elif operator in "**" and isinstance(left, int) and isinstance(right, int):
            bits = left.bit_length() + right.bit_length() if operator == "*" else left.bit_length() * abs(right)
            if bits > _INT_BITS:
                raise limit_error("the chat template computes too large a number")
        elif not numbers:
            for value in (left, right):
                meter.operand(value)
            return meter.pay(super().call_binop(context, operator, left, right))
        return super().call_binop(context, operator, left, right)


@pass_context
def _finalize(context: Context, value: Any) -> Any:
    text = _text(value)
    METER.get().charge(len(text) + _ITEM)
    return text
