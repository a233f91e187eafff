"""The commands put together, and the one place where errors become text and exit codes."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from warmline.errors import WarmlineError

from warmline_server.paths import unreadable

from . import (
    adapter,
    cache,
    catalog,
    chat,
    complete,
    config,
    demo,
    doctor,
    engine,
    lsp,
    model,
    pull,
    schema,
    stats,
    status,
    trust,
    variant,
)
from .output import HELP, Exit, Output

app = typer.Typer(
    name="warmline",
    help="Local model variants for editors: a base model, LoRA adapters and a profile, kept warm by exact identity.",
    epilog=HELP,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo", epilog=HELP)(demo.command)
# Else `-:LINE:COL`, a place on stdin, would be taken for an option.
app.command("complete", epilog=HELP, context_settings={"ignore_unknown_options": True})(complete.command)
app.command("lsp", epilog=HELP)(lsp.command)
app.command("chat", epilog=HELP)(chat.command)
app.command("status", epilog=HELP)(status.command)
app.command("stats", epilog=HELP)(stats.command)
app.command("doctor", epilog=HELP)(doctor.command)
app.command("schema", epilog=HELP)(schema.command)
model.app.command("pull")(pull.command)
app.add_typer(model.app, name="model", epilog=HELP)
app.add_typer(adapter.app, name="adapter", epilog=HELP)
app.add_typer(variant.app, name="variant", epilog=HELP)
app.add_typer(catalog.app, name="catalog", epilog=HELP)
app.add_typer(config.app, name="config", epilog=HELP)
app.add_typer(trust.app, name="trust", epilog=HELP)
app.add_typer(engine.app, name="engine", epilog=HELP)
app.add_typer(cache.app, name="cache", epilog=HELP)

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


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(Exit.USAGE)


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
        code = typer.main.get_command(app).main(list(arguments), prog_name="warmline", standalone_mode=False)
        return int(code) if isinstance(code, int) else Exit.OK
    except WarmlineError as error:
        _trace()
        output.error(error)
        return Exit.ERROR
    except _USAGE_ERROR as error:
        context = getattr(error, "ctx", None)
        output.error(
            WarmlineError(
                error.format_message().rstrip("."),  # type: ignore[attr-defined]  # click's, see above
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
