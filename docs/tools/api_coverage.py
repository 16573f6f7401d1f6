"""Writes docs/api-coverage.md: which public names of TensorFlow 1 Millrace has.

The names are those of tensorflow_names.txt and those that tests promise; whether Millrace has one,
its own modules say.
`make docs` runs this; a test holds that the page is what this writes.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import millrace

HERE = Path(__file__).parent
PAGE = HERE.parent / "api-coverage.md"
_HEAD = """\
# API coverage

Which public names of TensorFlow 1 Millrace has, by module. The list is TensorFlow 1.15's own, read
from its sources (`docs/tools/record_tensorflow_tree.py`), with `tf.contrib`, `tf.layers`,
`tf.keras` and `tf.estimator` whole, and members of classes that tests promise. A name that is here
resolves; that it does what TensorFlow's does is what `tests/parity` is about.

This page is written by `make docs`, from the code.
"""
_LATER = "not built yet"
_GRAPHS = "graphs only: there is no eager execution"
#: Why names are missing, by the longest prefix that fits.
_REASONS = {
    "tf": _LATER,
    "tf.audio": "WAV files: not built yet",
    "tf.autograph": _GRAPHS + ", and Python's own control flow is not translated",
    "tf.config": "settings of eager execution and of GPUs",
    "tf.contrib": "dropped by TensorFlow 2 and not seen in programs, or not built yet",
    "tf.contrib.all_reduce": "collectives between GPUs",
    "tf.contrib.autograph": _GRAPHS + ", and Python's own control flow is not translated",
    "tf.contrib.batching": "an op of TensorFlow Serving",
    "tf.contrib.checkpoint": "checkpoints of objects, which belong to eager execution",
    "tf.contrib.constrained_optimization": "a library of its own since (tfco)",
    "tf.contrib.decision_trees": "message types of boosted trees in C++",
    "tf.contrib.ffmpeg": "calls a program that decodes audio and video",
    "tf.contrib.fused_conv": "NVIDIA's kernels",
    "tf.contrib.hadoop": "a file format of one storage system; tf.data reads others",
    "tf.contrib.ignite": "a client of one database",
    "tf.contrib.kafka": "a client of one message broker",
    "tf.contrib.kinesis": "a service of one company's cloud",
    "tf.contrib.labeled_tensor": "a library of its own, which no program that was seen uses",
    "tf.contrib.libsvm": "a file format; tf.data reads text lines",
    "tf.contrib.linear_optimizer": "SDCA: a kernel in C++ that nothing else shares",
    "tf.contrib.memory_stats": "statistics of GPU memory",
    "tf.contrib.model_pruning": "a library of its own since (model optimization)",
    "tf.contrib.remote_fused_graph": "runs graphs on other hardware",
    "tf.contrib.rpc": "an op that calls other servers",
    "tf.contrib.stat_summarizer": "a profiler in C++; timelines are here",
    "tf.contrib.timeseries": "a library of its own, which no program that was seen uses",
    "tf.contrib.bigtable": "a service of one company's cloud",
    "tf.contrib.cloud": "a service of one company's cloud",
    "tf.contrib.cudnn_rnn": "NVIDIA's kernels; tf.contrib.rnn has the cells",
    "tf.contrib.eager": _GRAPHS,
    "tf.contrib.lite": "a runtime of its own",
    "tf.contrib.nccl": "collectives between GPUs",
    "tf.contrib.quantize": "rewrites graphs for TensorFlow Lite",
    "tf.contrib.tensor_forest": "kernels in C++ that nothing else shares",
    "tf.contrib.tensorrt": "NVIDIA's compiler",
    "tf.contrib.tpu": "TPUs are reached through JAX",
    "tf.dequantize": "quantised kernels",
    "tf.distribute": "strategies copy models to GPUs; Millrace trains with parameter servers",
    "tf.estimator": _LATER,
    "tf.experimental": _GRAPHS,
    "tf.lite": "a runtime of its own",
    "tf.nn.quantized": "quantised kernels",
    "tf.profiler": "not built yet; `tf.train.ProfilerHook` and timelines are here",
    "tf.quantize": "quantised kernels",
    "tf.quantized": "quantised kernels",
    "tf.quantization": "quantised kernels; fake quantisation is here",
    "tf.raw_ops": "an op that graphs of TF1 programs seldom hold: quantised, TPU, or not built yet",
    "tf.tpu": "TPUs are reached through JAX",
    "tf.train.sdca": "an optimizer of tf.contrib.linear_optimizer",
    "tf.xla": "everything is compiled by XLA",
}
_LISTS = (HERE / "tensorflow_names.txt", HERE.parents[1] / "tests/unit/api_names.txt")


def names() -> list[str]:
    """All names, sorted."""
    lines = {line for path in _LISTS for line in path.read_text().splitlines()}
    return sorted(line for line in lines if line.startswith("tf."))


def is_there(name: str) -> bool:
    """Whether ``tf.train.Saver`` can be had of Millrace."""
    found: Any = millrace
    for part in name.split(".")[1:]:
        try:
            found = getattr(found, part)
        except AttributeError:
            return False
    return True


def module_of(name: str) -> str:
    """``tf.train`` for ``tf.train.Saver``, ``tf`` for ``tf.Session`` and ``tf.Graph.finalize``.

    ``tf.contrib`` and ``tf.keras`` have modules of their own: ``tf.contrib.layers``.
    """
    parts = name.split(".")
    depth = 3 if parts[1] in ("contrib", "keras", "experimental") and len(parts) > 3 else 2
    return "tf" if len(parts) == 2 or parts[1][:1].isupper() else ".".join(parts[:depth])


def reason_for(name: str) -> str:
    """Why a name is missing."""
    return _REASONS[max((p for p in _REASONS if name.startswith(p)), key=len)]


def page() -> str:
    """The text of the page."""
    by_module: dict[str, dict[str, bool]] = defaultdict(dict)
    for name in names():
        by_module[module_of(name)][name] = is_there(name)
    total = [has for found in by_module.values() for has in found.values()]
    lines = [_HEAD, f"In all {sum(total)} of {len(total)} names.\n"]
    lines += ["| module | here | of |", "| --- | ---: | ---: |"]
    for module, found in sorted(by_module.items()):
        lines.append(f"| `{module}` | {sum(found.values())} | {len(found)} |")
    lines += ["", "## What is missing"]
    for module, found in sorted(by_module.items()):
        missing = [name for name, has in found.items() if not has]
        if len(missing) == len(found):
            lines += ["", f"**`{module}`**: all of it ({reason_for(module)})."]
            continue
        by_reason: dict[str, list[str]] = defaultdict(list)
        for name in missing:
            by_reason[reason_for(name)].append(f"`{name.removeprefix(f'{module}.')}`")
        for reason, names_of_it in by_reason.items():
            lines += ["", f"**`{module}`** ({reason}): " + " ".join(names_of_it)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {PAGE}")
