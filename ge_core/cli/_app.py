# SPDX-License-Identifier: Apache-2.0
"""The command's frame: one line per error, exit codes, tables."""

from __future__ import annotations

import json
import sys
import traceback
from typing import Annotated, Any

import typer
import typer.core

_USAGE_ERROR: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


class _Group(typer.core.TyperGroup):
    """Turns every exception into one line on stderr; `--debug` anywhere before `--` adds the traceback."""

    def main(
        self, args=None, prog_name=None, complete_var=None, standalone_mode=True, windows_expand_args=True, **extra
    ) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):  # names that the terminal's encoding lacks must not end a command
                stream.reconfigure(errors="backslashreplace")
        args = list(sys.argv[1:] if args is None else args) or ["--help"]
        own = args[: args.index("--")] if "--" in args else args
        debug = "--debug" in own
        args = [argument for argument in own if argument != "--debug"] + args[len(own) :]
        try:
            code = super().main(args, prog_name or "ge-core", complete_var, False, windows_expand_args, **extra)
        except typer.Abort:
            code = 130
        except _USAGE_ERROR as error:
            code = _complain(error.format_message(), debug, getattr(error, "exit_code", 1))
        except Exception as error:
            text = str(error) or type(error).__name__
            known = isinstance(error, (ValueError, OSError, RuntimeError, MemoryError))
            code = _complain(text if known else f"{type(error).__name__}: {text}", debug)
        if standalone_mode:
            sys.exit(code if isinstance(code, int) else 0)
        return code


def _complain(message: str, debug: bool, code: int = 1) -> int:
    if debug:
        traceback.print_exc()
    print(f"error: {message}", file=sys.stderr)
    return code


app = typer.Typer(
    cls=_Group,
    name="ge-core",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    help="Compile, inspect, run and serve compiled Ascend models (.om). GE_CORE_RUNTIME=npu|cpu says where they run.",
    epilog="--debug, anywhere, shows the traceback of an error.",
)


def _version(asked: bool) -> None:
    if asked:
        from ge_core import __version__

        print(f"ge-core {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def print_json(value: Any) -> None:
    """One JSON object on stdout."""
    print(json.dumps(value, ensure_ascii=False, indent=2))


def print_table(title: str, columns: list[str], rows: list[list[Any]], width: int = 10_000) -> None:
    """A table on stdout, as wide as the terminal, or up to `width` where there is none; long cells are folded."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, show_header=any(columns))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    console = Console()
    (console if console.is_terminal else Console(width=width)).print(table)


def shape_text(shape) -> str:
    """A shape with -1 for unknown dims."""
    return f"[{', '.join('-1' if dim is None else str(dim) for dim in shape)}]"
