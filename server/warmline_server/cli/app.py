"""The commands put together, and the one place where errors become text and exit codes."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from warmline.errors import WarmlineError

from warmline_server.paths import unreadable

from .output import HELP, Exit, Output

_HELP: Final = (
    "Local model variants for editors: a base model, LoRA adapters and a profile, kept warm by exact identity."
)
_COMMANDS: Final = (
    *("demo", "complete", "bench", "eval", "certify", "lsp", "acp"),
    *("chat", "status", "stats", "doctor", "schema"),
)
_GROUPS: Final = ("model", "adapter", "variant", "catalog", "config", "trust", "engine", "cache")
_SETTINGS: Final[dict[str, dict[str, Any]]] = {
    # Else `-:LINE:COL`, a place on stdin, would be taken for an option.
    "complete": {"ignore_unknown_options": True},
}

# Of what is written, stdout alone has no name.
_LOST_OUTPUT: Final = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EBADF})

# typer carries a copy of click in newer releases and depends on it in older ones; this is its error class in both.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("warmline")
        except PackageNotFoundError:
            number = "0+source"  # run from a checkout that is not installed
        typer.echo(f"warmline {number}")
        raise typer.Exit(Exit.OK)


def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(Exit.USAGE)


@lru_cache(maxsize=1)
def _model_group() -> typer.Typer:
    from . import model, pull

    model.app.command("pull")(pull.command)
    return model.app


def _app(first: str) -> typer.Typer:
    """Put the commands together: all of them, or the one that is asked for, which takes half the time to import."""
    app = typer.Typer(
        name="warmline",
        help=_HELP,
        epilog=HELP,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_root)
    known = first in _COMMANDS or first in _GROUPS
    for name in _COMMANDS:
        if name == first or not known:
            command = import_module(f".{name}", __package__).command
            app.command(name, epilog=HELP, context_settings=_SETTINGS.get(name))(command)
    for name in _GROUPS:
        if name == first or not known:
            group = _model_group() if name == "model" else import_module(f".{name}", __package__).app
            app.add_typer(group, name=name, epilog=HELP)
    return app


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; never raises and never shows a traceback unasked.

    ``WARMLINE_DEBUG=1`` in the environment adds the traceback, on stderr.
    """
    # Asked here as well as in the command: a usage error comes before any command has seen its options.
    output = Output("--json" in arguments)
    try:
        code = _run(arguments, output)
        output.stdout.flush()
        return code
    except BrokenPipeError:
        # Nobody reads stdout any more, which is no fault to speak of.
        output.abandon()
    except OSError as error:
        output.abandon()
        with contextlib.suppress(OSError):
            print(f"warmline: the output cannot be written: {error.strerror or error}", file=sys.stderr, flush=True)
    return Exit.ERROR


def _run(arguments: Sequence[str], output: Output) -> int:
    """As `run`; an `OSError` means that stdout or stderr cannot be written."""
    try:
        command = typer.main.get_command(_app(arguments[0] if arguments else ""))
        code = command.main(list(arguments), prog_name="warmline", standalone_mode=False)
        return int(code) if isinstance(code, int) else Exit.OK
    except WarmlineError as error:
        _trace()
        output.error(error)
        return Exit.ERROR
    except _USAGE_ERROR as error:
        context = getattr(error, "ctx", None)
        message: str = error.format_message()  # type: ignore[attr-defined]  # click's, see above
        output.error(
            WarmlineError(
                message.rstrip(".").replace(": Value error, ", ": "),  # newer typer's choices are pydantic's
                code="usage",
                remedy=f"Try: {context.command_path if context else 'warmline'} --help",
            )
        )
        return Exit.USAGE
    except (KeyboardInterrupt, typer.Abort):
        _trace()
        return Exit.INTERRUPTED
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None and error.errno in _LOST_OUTPUT:
            raise
        _trace()
        output.error(unreadable(error, Path.cwd()) if error.filename else _internal(error))
        return Exit.ERROR
    except Exception as error:  # the promise of this function: a person never sees a bare traceback
        _trace()
        output.error(_internal(error))
        return Exit.ERROR


def _internal(error: Exception) -> WarmlineError:
    return WarmlineError(
        f"Warmline itself failed: {type(error).__name__}: {error}",
        code="internal",
        remedy="Run it again with WARMLINE_DEBUG=1 in the environment, and report what it shows",
    )


def _trace() -> None:
    if os.environ.get("WARMLINE_DEBUG") == "1":
        traceback.print_exc(file=sys.stderr)
