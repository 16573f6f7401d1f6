"""Convolutions by oneDNN, the library that TensorFlow uses on CPUs.

jaxlib carries oneDNN, and XLA has an operation that calls it (on XLA's own threads, without
Python), but XLA's flags do not lead there: a program must name the operation itself. It is an
inner part of XLA, so this module is careful: what it was not tried with it does not use
(`unreachable_because`; `private.INTERFACES` has the releases), and what oneDNN cannot do it does
not ask for (`takes`), for an error down there ends the process. Why and how fast:
docs/decisions/0003-convolution-lowering.md.

Arrays have their channels last: ``[batch, height, width, channels]``, and filters are
``[height, width, in_channels, out_channels]``. Nothing here can be differentiated by JAX.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import platform
from collections.abc import Iterable, Sequence
from typing import Any

import jaxlib

from millrace.compiler import private, target
from millrace.compiler.xla import jax, jnp

__all__: list[str] = []

#: The operation's name.
TARGET = "__onednn$convolution"
#: How many multiplications make a convolution worth setting oneDNN up for it.
LEAST_WORK = 2**25

Pads = Sequence[tuple[int, int]]


def unreachable_because() -> str | None:
    """Why this process cannot use oneDNN; None when it can.

    JAX's persistent compilation cache excludes it: XLA cannot write such a program to a file.
    """
    if os.environ.get("MILLRACE_ONEDNN", "1") == "0":
        return "the environment says MILLRACE_ONEDNN=0"
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return f"not tried on {platform.system()}, {platform.machine()}"
    if not private.knows("oneDNN"):
        tried = ", ".join(private.INTERFACES["oneDNN"].releases)
        return f"not tried with jaxlib {jaxlib.__version__}, only {tried}"
    if not _has_wide_registers():
        return "the processor lacks AVX2, and oneDNN is slow there"
    if jax.default_backend() != "cpu":
        return f"the arrays are on another device: {jax.default_backend()}"
    config: Any = jax.config
    if config.jax_enable_compilation_cache and config.jax_compilation_cache_dir:
        return "JAX's compilation cache is in use, and cannot hold such programs"
    return None


@functools.cache
def _has_wide_registers() -> bool:
    return " avx2 " in pathlib.Path("/proc/cpuinfo").read_text()


def takes(
    x: Any, filters: Any, pads: Pads, strides: Sequence[int], dilations: Sequence[int]
) -> bool:
    """Whether `convolution` can do this, and is the fastest way to.

    By shapes and by what holds for the whole process, so that a program is compiled the same
    way each time.
    """
    if x.ndim != 4 or x.dtype != jnp.float32 or filters.dtype != jnp.float32:
        return False
    if x.shape[3] != filters.shape[2] or min(p for pair in pads for p in pair) < 0:
        return False
    counts = _output_sizes(x.shape, filters.shape, pads, strides, dilations)
    if min(*x.shape, *filters.shape, *counts) <= 0:
        return False
    work = x.shape[0] * counts[0] * counts[1] * filters.size
    return bool(work >= LEAST_WORK) and not target.is_numpy() and unreachable_because() is None


def convolution(
    x: Any, filters: Any, pads: Pads, strides: Sequence[int], dilations: Sequence[int]
) -> Any:
    """The convolution of float32 images, where `takes` says so."""
    counts = _output_sizes(x.shape, filters.shape, pads, strides, dilations)
    shape = (x.shape[0], *counts, filters.shape[3])
    result = jax.ShapeDtypeStruct(shape, x.dtype)  # type: ignore[no-untyped-call]
    call = jax.ffi.ffi_call(
        TARGET,
        result,
        custom_call_api_version=2,
        legacy_backend_config=_description(filters.shape[:2], pads, strides, dilations),
    )
    return call(x, filters)


def _output_sizes(
    shape: Sequence[int],
    filter_shape: Sequence[int],
    pads: Pads,
    strides: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    sizes = []
    for axis in range(2):
        reach = (filter_shape[axis] - 1) * dilations[axis] + 1
        sizes.append((shape[axis + 1] + sum(pads[axis]) - reach) // strides[axis] + 1)
    return sizes


def _description(
    window: Sequence[int], pads: Pads, strides: Sequence[int], dilations: Sequence[int]
) -> str:
    """What XLA's operation asks for: the JSON form of its message BackendConfig.

    Numbers are texts: that is how protobuf writes 64-bit integers in JSON.
    """

    def texts(numbers: Iterable[int]) -> list[str]:
        return [str(int(number)) for number in numbers]

    images = {"data": {"batch_dim": "0", "feature_dim": "3", "spatial_dims": ["1", "2"]}}
    filters = {"input_feature_dim": "2", "output_feature_dim": "3", "spatial_dims": ["0", "1"]}
    steps = {
        "size": texts(window),
        "pad_left": texts(before for before, _ in pads),
        "pad_right": texts(behind for _, behind in pads),
        "strides": texts(strides),
        "window_dilations": texts(dilations),
    }
    config = {
        "dims": "4",
        "input": images,
        "kernel": {"filter": filters},
        "output": images,
        "window": steps,
        "feature_groups": "1",
    }
    return json.dumps({"onednn_conv_config": config}, sort_keys=True)
