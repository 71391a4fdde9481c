# SPDX-License-Identifier: Apache-2.0
"""ATC's command line: its options, and what the compiler for the CPU runtime does with each of them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ge_core.compiler.errors import CompileError

DEFAULT_SOC = "Ascend910B3"

HONOURED = "honoured"
IGNORED = "ignored"
REFUSED = "refused"


@dataclass(frozen=True)
class Option:
    """What the CPU runtime does with one of ATC's options.

    Attributes
    ----------
    treatment : {HONOURED, IGNORED, REFUSED}
    help : str
        Of an honoured option the values it takes; of another one the reason why it has no effect or is refused.
    choices : tuple of str
        The only values it takes; empty when any value will do.
    harmless : tuple of str
        Values of a refused option that are accepted, because they change nothing.
    """

    treatment: str
    help: str
    choices: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()


_COMPUTES = "the cpu runtime computes in the types of the graph"
_TUNES = "it tunes NPU code"
_ONE_DEVICE = "an om of the cpu runtime runs on one device"
_GE = "GE itself is not part of the cpu runtime"
_LAYOUT = "the cpu runtime has no NC1HWC0 layout; use --input_fp16_nodes or --output_type for the type alone"

# fmt: off
_FOR_TYPES = (
    "optypelist_for_implmode", "op_precision_mode", "modify_mixlist", "keep_dtype", "customize_dtypes", "allow_hf32",
    "is_weight_clip", "quant_dumpable",
)
_FOR_TUNING = (
    "ac_parallel_enable", "aicore_num", "atomic_clean_policy", "auto_tune_mode", "buffer_optimize", "build_config",
    "compress_weight_conf", "compression_optimize_conf", "core_type", "device_id", "disable_reuse_memory",
    "enable_compress_weight", "enable_scope_fusion_passes", "enable_single_stream", "enable_small_channel",
    "fusion_switch_file", "input_hint_shape", "jit_compile", "mdl_bank_path", "oo_level", "op_bank_path",
    "op_compiler_cache_dir", "op_compiler_cache_mode", "optimization_switch", "shape_generalized_build_mode",
    "sparsity", "static_model_ops_lower_limit", "target", "tiling_schedule_optimize", "topo_sorting_mode",
    "virtual_type",
)
_FOR_DEBUGGING = ("debug_dir", "op_debug_config", "op_debug_level", "status_check")
_PRECISION_MODES = (
    "force_fp16", "force_fp32", "cube_fp16in_fp32out", "allow_fp32_to_fp16", "must_keep_origin_dtype",
    "allow_mix_precision", "allow_mix_precision_fp16", "allow_mix_precision_bf16", "allow_fp32_to_bf16",
)
_PRECISION_MODES_V2 = (
    "fp16", "origin", "cube_fp16in_fp32out", "mixed_float16", "mixed_bfloat16", "mixed_hif8", "cube_hif8",
)
_IMPLEMENTATIONS = ("high_precision", "high_performance", "high_precision_for_all", "high_performance_for_all")
_LOG_LEVELS = ("default", "debug", "info", "warning", "error", "null")
# fmt: on

OPTIONS: dict[str, Option] = {
    "model": Option(HONOURED, "ONNX file, or JSON that describes a synthetic model (cpu)"),
    "framework": Option(HONOURED, "5 (ONNX, the default here)"),
    "output": Option(HONOURED, "path of the om; .om is added"),
    "soc_version": Option(HONOURED, f"the SoC the om is for, recorded in it (cpu: default {DEFAULT_SOC})"),
    "mode": Option(HONOURED, "0 (compile)"),
    "input_format": Option(HONOURED, "NCHW (default), NCDHW or ND", ("NCHW", "NCDHW", "ND")),
    "input_shape": Option(HONOURED, '"a:1,3,224,224;b:1,10"; "s:" scalar; -1 by gears or unknown; 1~10 a range'),
    "input_shape_range": Option(HONOURED, 'older spelling of ranges: "a:[1~8,3,-1,-1]"'),
    "dynamic_batch_size": Option(HONOURED, 'batch gears: "1,2,4,8" with -1 in dim 0'),
    "dynamic_image_size": Option(HONOURED, 'image size gears: "224,224;448,448" with -1 in H and W, NCHW'),
    "dynamic_dims": Option(HONOURED, 'gears for any dims: "1,128;4,384", one number for each -1, --input_format=ND'),
    "out_nodes": Option(HONOURED, 'outputs: "node:0;node:1", full names or names of tensors'),
    "output_type": Option(HONOURED, "FP32, FP16, UINT8, ...; or node:0:FP16;... with --out_nodes"),
    "input_fp16_nodes": Option(HONOURED, '"a;b": these inputs become FP16'),
    "log": Option(HONOURED, "error and null hide the notes", _LOG_LEVELS),
    "external_weight": Option(IGNORED, "weights stay inside an om of the cpu runtime", ("0", "1", "2")),
    "precision_mode": Option(IGNORED, _COMPUTES, _PRECISION_MODES),
    "precision_mode_v2": Option(IGNORED, _COMPUTES, _PRECISION_MODES_V2),
    "op_select_implmode": Option(IGNORED, _COMPUTES, _IMPLEMENTATIONS),
    **dict.fromkeys(_FOR_TYPES, Option(IGNORED, _COMPUTES)),
    "deterministic": Option(IGNORED, "results on the cpu runtime are the same every time", ("0", "1")),
    "deterministic_level": Option(IGNORED, "results on the cpu runtime are the same every time", ("0", "1", "2")),
    **dict.fromkeys(_FOR_TUNING, Option(IGNORED, _TUNES)),
    **dict.fromkeys(_FOR_DEBUGGING, Option(IGNORED, "it debugs NPU code")),
    "check_report": Option(IGNORED, "there is no pre-check report"),
    "display_model_info": Option(IGNORED, "the summary is always printed; more with `ge-core inspect`"),
    "dump_mode": Option(IGNORED, "it belongs to --mode=1"),
    "enable_attr_compression": Option(IGNORED, "an om of the cpu runtime has no attributes to compress"),
    "host_env_cpu": Option(IGNORED, "an om of the cpu runtime runs on any host"),
    "host_env_os": Option(IGNORED, "an om of the cpu runtime runs on any host"),
    "save_original_model": Option(IGNORED, "the ONNX graph is always inside an om of the cpu runtime"),
    "op_name_map": Option(REFUSED, "the cpu runtime knows ONNX's own operators only"),
    "insert_op_conf": Option(REFUSED, "AIPP is not computed by the cpu runtime; preprocess before the model"),
    "is_input_adjust_hw_layout": Option(REFUSED, _LAYOUT, harmless=("false",)),
    "is_output_adjust_hw_layout": Option(REFUSED, _LAYOUT, harmless=("false",)),
    "weight": Option(REFUSED, "it belongs to Caffe models; ONNX files carry their weights"),
    "om": Option(REFUSED, "it belongs to --mode=1 and 6; use `ge-core inspect MODEL [--json]`"),
    "json": Option(REFUSED, "it belongs to --mode=1; use `ge-core inspect MODEL --json`"),
    "singleop": Option(REFUSED, "single-operator models are not supported; wrap the operator in an ONNX graph"),
    "cal_conf": Option(REFUSED, "calibration is not part of the cpu runtime"),
    "cluster_config": Option(REFUSED, _ONE_DEVICE),
    "hccl_sub_comm_config": Option(REFUSED, _ONE_DEVICE),
    "raw_ge_options": Option(REFUSED, _GE),
    "raw_ge_options_ignore_unsupported": Option(REFUSED, _GE, harmless=("false",)),
    "encrypt_mode": Option(REFUSED, "an om of the cpu runtime is never encrypted", harmless=("-1",)),
}
_FLAGS = ("raw_ge_options_ignore_unsupported",)
_SHORT = {"m": "model", "o": "output"}
FRAMEWORKS = {"0": "Caffe", "1": "MindSpore", "3": "TensorFlow"}
_MODES = {
    "1": "om to JSON: use `ge-core inspect MODEL --json`",
    "3": "pre-check only: compile the model instead, it takes seconds",
    "5": "GE dump to JSON: it needs CANN",
    "6": "om information: use `ge-core inspect MODEL`",
    "30": "an exeom: it exists for one embedded SoC only",
}
OUTPUT_TYPES = {
    "FP32": "float32",
    "FP16": "float16",
    "BF16": "bfloat16",
    "DOUBLE": "float64",
    "BOOL": "bool",
    **{f"{sign}INT{bits}": f"{sign.lower()}int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)},
}


def parse_arguments(arguments: Sequence[str], *, extra: Sequence[str] = ()) -> dict[str, str]:
    """Read a command line as ATC does: ``--option=value``, ``--option value``, one or two dashes.

    Hyphens in names count as underscores; ``-m`` and ``-o`` are --model and --output; one argument without a dash is
    the model. Names are not checked against :data:`OPTIONS`.

    Parameters
    ----------
    arguments : sequence of str
    extra : names of further options that take no value

    Returns
    -------
    dict
        Values by option name, with underscores.

    Raises
    ------
    CompileError
        An option without a value, one option with two values, a second argument without a dash.
    """
    found: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if not re.match(r"--?[A-Za-z]", argument):
            if "model" in found:
                raise CompileError(
                    f"expected options after the model, got {argument!r}; quote values that have spaces or semicolons"
                )
            name, value = "model", argument
        else:
            name, equals, value = argument.lstrip("-").partition("=")
            name = _SHORT.get(name, name).replace("-", "_")
            if not equals and (name in _FLAGS or name in extra):
                value = "true"
            elif not equals:
                if not rest or rest[0].startswith("--"):
                    raise CompileError(f"--{name}: expected a value, as --{name}=VALUE or --{name} VALUE")
                value = rest.pop(0)
        if found.setdefault(name, value) != value:
            raise CompileError(f"--{name}: expected one value, got {found[name]!r} and {value!r}; keep one of them")
    return found


def check_options(options: Mapping[str, str]) -> list[str]:
    """Check the options of a compilation for the CPU runtime.

    Returns
    -------
    list of str
        One note for each option that has no effect.

    Raises
    ------
    CompileError
        An option that ATC does not have, that the CPU runtime refuses, or with a value that it does not take; a missing
        --model or --output.
    """
    notes = []
    for name, value in options.items():
        option = OPTIONS.get(name)
        if option is None:
            near = difflib.get_close_matches(name, OPTIONS, 1)
            advice = f"did you mean --{near[0]}?" if near else "`ge-core compile --help` lists the options"
            raise CompileError(f"--{name}: unknown option; {advice}")
        harmless = option.harmless and all(part in option.harmless for part in value.lower().split(","))
        if option.treatment == REFUSED and not harmless:
            raise CompileError(f"--{name} is not supported by the cpu runtime: {option.help}")
        if option.choices and value not in option.choices:
            raise CompileError(f"--{name}: expected one of {', '.join(option.choices)}, got {value!r}")
        if option.treatment == IGNORED:
            notes.append(f"--{name} has no effect: {option.help}")
    if (mode := options.get("mode", "0")) != "0":
        raise CompileError(f"--mode={mode} is not supported by the cpu runtime: {_MODES.get(mode, 'no such mode')}")
    if "precision_mode" in options and "precision_mode_v2" in options:
        raise CompileError("--precision_mode and --precision_mode_v2 exclude each other; give one of them")
    require_model_and_output(options)
    return notes


def require_model_and_output(options: Mapping[str, str]) -> None:
    """Raise a CompileError when --model or --output is missing or empty."""
    for name in ("model", "output"):
        if not options.get(name):
            raise CompileError(f"--{name} is missing; for example: --model=model.onnx --output=model")
