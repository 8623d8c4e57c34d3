"""Failures as `error: <command>: <message>` on stderr, and the exit code each kind has."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Generator

import click

from torchlean import errors

DONE, NO, USAGE, REFUSED, LIMIT, MISSING = 0, 1, 2, 3, 4, 5
INTERNAL = 70  # EX_SOFTWARE of sysexits.h: our fault
INTERRUPTED = 130
CUT_OFF = 141  # 128 + SIGPIPE: whoever read stdout left, as `head` does

_CODES: tuple[tuple[type[Exception], int], ...] = (
    (errors.InternalError, INTERNAL),
    (errors.BackendMissing, MISSING),
    (errors.LimitExceeded, LIMIT),
    (errors.PlanRejected, NO),
    (errors.ConfigError, USAGE),
    (errors.TorchLeanError, REFUSED),
)
_ONE_LINE = (errors.ConfigError, errors.BackendMissing, errors.DataError, errors.SerializationError)


@contextlib.contextmanager
def reported(ctx: click.Context) -> Generator[None]:
    """Turn every exception of a command into a message and an exit."""
    try:
        shows_traceback()
        try:
            yield
        finally:
            sys.stdout.flush()
    except click.UsageError as error:
        _say(ctx, error.format_message())
        if error.ctx is not None:
            click.echo(f"try: {error.ctx.command_path} --help", err=True)
        ctx.exit(USAGE)
    except (click.exceptions.Exit, click.ClickException):
        raise
    except BrokenPipeError:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        ctx.exit(CUT_OFF)
    except (KeyboardInterrupt, click.Abort):
        _say(ctx, "interrupted")
        ctx.exit(INTERRUPTED)
    except Exception as error:
        if _traceback_wanted():
            traceback.print_exc()
        _say(ctx, _text(error))
        ctx.exit(exit_code(error))


def exit_code(error: Exception) -> int:
    """The exit code of an exception: the first kind of `_CODES` it is, else INTERNAL."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), INTERNAL)


def _text(error: Exception) -> str:
    if not isinstance(error, errors.TorchLeanError):
        return (
            f"unexpected {type(error).__name__}: {error}; this is a bug in torchlean, "
            "please report it with the output under TORCHLEAN_TRACEBACK=full"
        )
    lines = str(error).splitlines()
    return "; ".join(" ".join(line.split()) for line in lines) if isinstance(error, _ONE_LINE) else "\n".join(lines)


def _say(ctx: click.Context, text: str) -> None:
    known = isinstance(ctx.command, click.Group) and ctx.invoked_subcommand in ctx.command.commands
    command = f"{ctx.invoked_subcommand}: " if known else ""
    with contextlib.suppress(BrokenPipeError):
        click.echo(f"error: {command}{text}", err=True)


def _traceback_wanted() -> bool:
    return os.environ.get("TORCHLEAN_TRACEBACK") == "full"


def shows_traceback() -> None:
    """Refuse a value of TORCHLEAN_TRACEBACK that means nothing."""
    held = os.environ.get("TORCHLEAN_TRACEBACK", "")
    if held not in ("", "full", "short"):
        raise errors.ConfigError(f"TORCHLEAN_TRACEBACK is {held!r}; choose full or short")
