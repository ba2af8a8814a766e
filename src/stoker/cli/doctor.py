"""`stoker doctor`: what this machine has, which kernels it uses, and how much of a model fits."""

from __future__ import annotations

import platform
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from stoker import __version__
from stoker.cli.options import add_options, doc_of, read_options
from stoker.core.config import GIB, EngineConfig, IsaName, Limits, Machine, resolve
from stoker.core.errors import ConfigError, StokerError
from stoker.core.model import PAGE_SIZE
from stoker.engine.machine import machine_facts
from stoker.sched.admission import max_request_tokens
from stoker.text.tokenizer import Tokenizer, load_tokenizer
from stoker.weights.checkpoint import Checkpoint, open_checkpoint
from stoker.weights.contract import resident_bytes


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", default="", help=doc_of(EngineConfig, "model"))
    add_options(parser, EngineConfig, skip=("model",))


def run(args: Namespace) -> int:
    """0 when the model can be served as asked, 2 when something is in the way."""
    console = Console(highlight=False, markup=False, emoji=False)  # paths are shown as they are
    machine = machine_facts()
    config = read_options(EngineConfig, args)
    kernels = _kernels(config.isa)
    _show(console, "Machine", _machine_rows(machine))
    _show(console, "Kernels", kernels.rows)
    try:
        checkpoint = open_checkpoint(config.model, config.revision)
        weight_bytes = resident_bytes(checkpoint, config.kernels)
        limits = resolve(config, checkpoint.config, weight_bytes, machine)
        tokenizer = load_tokenizer(checkpoint.tokenizer)
    except StokerError as error:
        console.print(f"Model: {error.message}", style="red")
        return 2
    _show(console, "Model", _model_rows(checkpoint, tokenizer))
    _show(console, "What fits", _fit_rows(limits))
    return 0 if kernels.usable or config.kernels == "reference" else 2


Rows = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class _Kernels:
    usable: bool
    rows: Rows


def _machine_rows(machine: Machine) -> Rows:
    return [
        ("stoker", __version__),
        ("python", platform.python_version()),
        ("system", f"{platform.system()} {platform.release()} on {platform.machine()}"),
        ("physical cores", str(machine.physical_cores)),
        ("free memory", f"{machine.free_memory / GIB:.1f} GiB"),
    ]


def _kernels(isa: IsaName) -> _Kernels:
    """The native set if its extension loads and has `isa`; the reference set is always there."""
    reference = ("reference", "PyTorch in float32: the specification, slow")
    try:
        from stoker.kernels.cpu import available_isas
        from stoker.kernels.dispatch import find_isa

        uses, isas = find_isa(isa), available_isas()
    except ImportError as error:
        return _Kernels(False, [("cpu", f"not built: {error}"), reference])
    except ConfigError as error:
        return _Kernels(False, [("cpu", error.message), reference])
    return _Kernels(True, [("cpu", f"uses {uses} (has {', '.join(isas)})"), reference])


def _model_rows(checkpoint: Checkpoint, tokenizer: Tokenizer) -> Rows:
    model = checkpoint.config
    windows = sorted({window for window in model.layer_windows if window is not None})
    local = sum(window is not None for window in model.layer_windows)
    attention = f"{model.num_heads} heads on {model.num_kv_heads} KV heads of {model.head_dim}"
    if local:
        attention += f"; {local} of {model.num_layers} layers see {windows[0]} tokens"
    return [
        ("name", checkpoint.name),
        ("file", str(checkpoint.path)),
        ("family", model.family),
        ("weights", f"{checkpoint.nbytes / GIB:.2f} GiB"),
        ("layers", f"{model.num_layers} of width {model.hidden_size}"),
        ("attention", attention),
        ("vocabulary", f"{model.vocab_size:,} tokens"),
        ("chat", "yes" if tokenizer.chat_template else "no: the model has no chat template"),
    ]


def _fit_rows(limits: Limits) -> Rows:
    pool = limits.num_pages * limits.kv.page_bytes
    at_full = limits.kv.pages_needed(limits.max_model_len, limits.max_num_batched_tokens)
    return [
        ("context", f"{limits.max_model_len:,} tokens"),
        ("KV cache", f"{limits.num_pages:,} pages of {PAGE_SIZE} tokens, {pool / GIB:.2f} GiB"),
        ("per token", f"{_bytes_per_token(limits):,} bytes ({limits.kv.dtype})"),
        ("longest request", f"{max_request_tokens(limits):,} tokens"),
        ("requests at full length", f"{limits.num_pages / at_full:.1f} at once"),
        ("step", f"{limits.max_num_seqs} sequences, {limits.max_num_batched_tokens} tokens"),
        ("threads", str(limits.threads)),
    ]


def _bytes_per_token(limits: Limits) -> int:
    """KV bytes of one more token inside every window."""
    return len(limits.kv.groups) * limits.kv.page_bytes // PAGE_SIZE


def _show(console: Console, title: str, rows: Rows) -> None:
    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, show_header=False
    )
    table.add_column(style="dim", min_width=24)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print()
