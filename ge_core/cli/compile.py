# SPDX-License-Identifier: Apache-2.0
"""ge-core compile: ATC's command line."""

from __future__ import annotations

import shlex

import typer

from ge_core.cli._app import app

_HELP = """\
Compile an ONNX file to an om. Takes ATC's command line: put `ge-core compile` in place of `atc`.

  ge-core compile --model=m.onnx --framework=5 --output=m --soc_version=Ascend910B3 \\
      --input_shape="input:-1,3,224,224" --dynamic_batch_size="1,2,4,8"

--option=value and --option value are the same, and so are - and _ in names; `-o` is --output, and an argument without
a dash is --model. --runtime=npu|cpu (default: GE_CORE_RUNTIME, else npu): for npu the atc on PATH is run with the same
options; cpu compiles for the CPU implementation of AscendCL, from ONNX or from a JSON file that describes a synthetic
model.
"""


def _help_text() -> str:
    from ge_core.compiler import atc

    lines = [_HELP, "Options for the cpu runtime:"]
    lines += [f"  --{name:22}{row.help}" for name, row in atc.OPTIONS.items() if row.treatment == atc.HONOURED]
    for treatment, title in ((atc.IGNORED, "Accepted, without effect:"), (atc.REFUSED, "Refused, with the reason:")):
        lines += ["", title]
        names = sorted(name for name, row in atc.OPTIONS.items() if row.treatment == treatment)
        line = " "
        for name in names:
            if len(line) + len(name) > 108:
                lines.append(line)
                line = " "
            line += f" --{name}"
        lines.append(line)
    return "\n".join(lines)


@app.command(
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
)
def compile(context: typer.Context) -> None:
    """Compile ONNX to om with ATC's options (`ge-core compile --help` lists them)."""
    from ge_core.compiler import AtcError, atc, compile_model

    if not context.args or set(context.args) & {"-h", "--help", "--h"}:
        print(_help_text())
        raise typer.Exit(0 if context.args else 1)
    options = atc.parse_arguments(context.args)
    atc.require_model_and_output(options)
    model, output, runtime = options.pop("model"), options.pop("output"), options.pop("runtime", None)
    try:
        compiled = compile_model(model, output, runtime=runtime, report=print, **options)
    except AtcError as error:
        print(error)
        raise typer.Exit(error.exit_code) from None
    if compiled.manifest is not None:
        print(f"next: ge-core run {shlex.quote(str(compiled.path))} --runtime cpu")
