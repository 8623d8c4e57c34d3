"""`torchlean lower`: the graph, plan and generated source of a function in a Python file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from torchlean.cli.options import PROFILES, echo_json, json_option


@click.command()
@click.argument("target", metavar="FILE:FUNCTION")
@click.option(
    "--arg",
    "arguments",
    multiple=True,
    metavar="TYPE",
    help="The type of one argument, in order: f32[32,4], f32[], (f32[2], f32[3]) or {w: f32[8,2]}.",
)
@click.option("--grad", is_flag=True, help="Lower value_and_grad of the function, by its first argument.")
@click.option("--profile", type=click.Choice(PROFILES), default="checked_cpu", show_default=True)
@json_option
def lower(target: str, arguments: tuple[str, ...], grad: bool, profile: str, as_json: bool) -> None:
    """Print what would run: the typed graph, the accepted plan, the generated source.

    The file is imported, so its top level runs.

    Example: torchlean lower model.py:loss --arg f32[8,2] --arg f32[32,2] --grad
    """
    from torchlean.cli.types import parse_type

    types = [parse_type(text) for text in arguments]
    function = load_function(target)

    program = lowered(function, types, grad=grad, profile=profile, target=target)
    graph, plan, source = program.as_text(), str(program.plan), program.source
    if as_json:
        echo_json({"target": target, "profile": profile, "graph": graph, "plan": plan, "source": source})
        return
    for title, text in (("graph", graph), ("plan", plan), ("source", source)):
        click.echo(f"== {title} ==\n{text.rstrip()}\n")


def lowered(function: Callable[..., Any], types: list[Any], *, grad: bool, profile: str, target: str) -> Any:
    """`tl.lower`, with what the user's own code raises while it is traced told as an error of the input."""
    import inspect

    import torchlean as tl
    from torchlean.backends import profiles
    from torchlean.errors import DataError, TorchLeanError, message

    try:
        inspect.signature(function).bind(*types)
    except TypeError as error:
        raise DataError(
            message(f"{target} does not take {len(types)} arguments: {error}", fix="give one --arg for each argument")
        ) from None
    except ValueError:
        pass  # a callable without a signature: tracing will tell
    try:
        return tl.lower(tl.value_and_grad(function) if grad else function, *types, profile=profiles.named(profile))
    except TorchLeanError:
        raise
    except Exception as error:
        where = _place(error, target.rpartition(":")[0])
        if where is None:
            raise
        raise DataError(message(f"{where} fails while it is traced: {type(error).__name__}: {error}")) from error


def _place(error: BaseException, file: str) -> str | None:
    """`file:line` of the last frame of an exception that lies in `file`; None when none does."""
    import traceback

    if isinstance(error, SyntaxError) and error.filename == file:
        return f"{file}:{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{file}:{lines[-1]}" if lines else None


def load_function(target: str) -> Callable[..., Any]:
    """The function that `FILE:FUNCTION` names; DataError, in one line, when there is none."""
    from torchlean.errors import DataError, message

    file, colon, name = target.rpartition(":")
    if not colon or not file or not name.isidentifier():
        raise click.UsageError(f"{target!r} does not name a function; write FILE:FUNCTION, as in model.py:loss")
    namespace = _run(Path(file))
    found = namespace.get(name)
    if not callable(found):
        names = ", ".join(key for key, value in namespace.items() if callable(value) and not key.startswith("_"))
        raise DataError(message(f"{file} has no function {name!r}", expected=names or "a file that defines functions"))
    return found


def _run(path: Path) -> dict[str, Any]:
    """The names a Python file defines when it runs as an import."""
    import importlib.util
    import sys

    from torchlean.errors import DataError, TorchLeanError, message

    if not path.is_file():
        raise DataError(message(f"cannot read {str(path)!r}", got="not a file" if path.exists() else "no such file"))
    spec = importlib.util.spec_from_file_location(f"_torchlean_lowered_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise DataError(message(f"{str(path)!r} is not a Python file", expected="a name that ends in .py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and typing look their module up
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except TorchLeanError:
        raise
    except (Exception, SystemExit) as error:
        where = _place(error, str(path)) or str(path)
        raise DataError(message(f"{where} cannot be imported: {type(error).__name__}: {error}")) from error
    finally:
        sys.path.remove(str(path.resolve().parent))
    return vars(module)
