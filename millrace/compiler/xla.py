"""The one place where jax is configured; ops and runtime import it from here.

64-bit types must be on before the first array is made: TensorFlow's int64, float64 and
complex128 are what they say.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import logging
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import jaxlib

from millrace.platform import deferred, installed

_IS_KNOWN_JAX = jaxlib.__version__.startswith("0.10.")
#: Parts that JAX loads and asks nothing of until they are used: for programs on TPUs, for showing
#: code in a browser. In releases where that was looked up.
_LATER = (
    (
        "jaxlib.mosaic",
        "jaxlib.mosaic.python",
        "jaxlib.mosaic.python.mosaic_gpu",
        "jaxlib.mosaic.python.tpu",
        "pygments",
        "pygments.formatters",
        "pygments.lexers",
    )
    if _IS_KNOWN_JAX
    else ()
)

with installed.quick_answers(), deferred.standing_in(*_LATER):
    import jax
    import jax.numpy as jnp
    from jax import lax
    from jax._src import xla_bridge
    from jax._src.array import ArrayImpl
    from jaxlib import xla_client

jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]
# A program runs in the thread that calls it: handing it to another and back costs more than half of
# a small one. The interpreter's lock is free meanwhile.
jax.config.update("jax_cpu_enable_async_dispatch", False)  # type: ignore[no-untyped-call]
# It tells of every kind of device that this machine lacks.
logging.getLogger("jax._src.xla_bridge").setLevel(logging.WARNING)

__all__ = [
    "JOINING_LOOPS",
    "JOINS_LOOPS",
    "ArrayImpl",
    "compiled",
    "jax",
    "jnp",
    "lax",
    "use_threads",
]


def _spare_old_operations() -> None:
    """Lets JAX say that its older dialect exists without loading the dialect's operations.

    It says so whenever it lowers a program; hardly one has such an operation. Who asks for one
    gets it.
    """
    if _IS_KNOWN_JAX and "jaxlib.mlir.dialects.mhlo" not in sys.modules:
        library = importlib.import_module("jaxlib.mlir._mlir_libs._mlirHlo")
        stand_in: Any = deferred.module("jaxlib.mlir.dialects.mhlo")
        stand_in.register_mhlo_dialect = library.register_mhlo_dialect
        dialects: Any = importlib.import_module("jax._src.lib.mlir.dialects")
        dialects.mhlo = stand_in


_spare_old_operations()

#: mallopt's numbers for these settings (malloc.h), and how many bytes they are set to.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 1 << 30
#: Variables of the environment that tell XLA's CPU client how many threads it gets.
_THREADS = ("PJRT_NPROC", "NPROC")


def _keep_freed_memory() -> None:
    """Lets malloc reuse the large buffers of the step before.

    XLA takes a step's buffers from malloc and gives them back after it. glibc returns blocks
    above 32 MB to the system at once, and the next step gets them back page by page: a sixth
    of the CNN's step (docs/decisions/0003-convolution-lowering.md). What the user's environment
    says of these settings holds.
    """
    if not sys.platform.startswith("linux") or any(k.startswith("MALLOC_") for k in os.environ):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # Not every libc has it.
        mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)


_keep_freed_memory()

#: The pass of XLA's CPU compiler that makes one loop of several which read the same arrays.
_JOINING_PASS = "cpu_multi_output_fusion"
#: For `compiled(options=...)`: lets the compiler do so, where `JOINS_LOOPS` says it can.
JOINING_LOOPS = {"xla_disable_hlo_passes": ""}


def _allow_joined_loops() -> bool:
    """Turns that pass on, but off again for every program that does not ask for it.

    It is not on by itself, with reason: some programs make the compiler crash. Whether it is there
    can be said only for the process, and whether it is used only for a program; XLA takes the
    former from the environment, once. False if the user or another library was there first.
    """
    before = os.environ.get("XLA_FLAGS", "")
    if "xla_disable_hlo_passes" in before or "xla_backend_extra_options" in before:
        return False
    os.environ["XLA_FLAGS"] = (
        f"{before} --xla_backend_extra_options=xla_cpu_use_multi_output_fusion=true"
        f" --xla_disable_hlo_passes={_JOINING_PASS}"
    )
    try:
        options = xla_client.CompileOptions()  # Its parts live no longer than it.
        passes = options.executable_build_options.debug_options.xla_disable_hlo_passes
        return bool(passes == _JOINING_PASS)
    finally:
        # Processes that this one starts make up their own minds.
        if before:
            os.environ["XLA_FLAGS"] = before
        else:
            del os.environ["XLA_FLAGS"]


#: Whether programs may ask for it.
JOINS_LOOPS = _allow_joined_loops()


#: What makes the compiler take half of its time, for programs that are as quick and give the same
#: numbers: its older emitters of loops, and few parts, since each costs something of its own.
#: Programs that write in place get the newer emitters, though: the older ones do not see that what
#: a loop reads and what it writes never overlap by halves, and go through it one by one.
_EMITTERS = "xla_cpu_use_fusion_emitters"
_QUICKLY: dict[str, Any] = {
    _EMITTERS: False,
    "xla_cpu_parallel_codegen_split_count": max(1, (os.cpu_count() or 1) // 4),
}
#: Releases of jaxlib that are known to have these options.
_KNOWN = ("0.9.", "0.10.")


@functools.cache
def _compiled_quickly() -> Mapping[str, Any]:
    """Those of these options that this jaxlib knows and the user says nothing of."""
    said = os.environ.get("XLA_FLAGS", "")
    options = {name: value for name, value in _QUICKLY.items() if name not in said}
    if jaxlib.__version__.startswith(_KNOWN):
        return options
    return {name: value for name, value in options.items() if _is_known(name, value)}


def _is_known(name: str, value: Any) -> bool:
    """Whether the compiler takes an option: it refuses those that it does not know."""
    try:
        jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def compiled(
    function: Callable[..., Any],
    *,
    donate_argnums: tuple[int, ...] = (),
    options: Mapping[str, Any] | None = None,
) -> Any:
    """`function` as a program, which is compiled at its first call.

    Args:
      function: What to trace.
      donate_argnums: Arguments whose memory the results may take.
      options: What else the compiler is told, beside how to take less time.
    """
    together = {**_compiled_quickly(), **(options or {})}
    if donate_argnums:
        together.pop(_EMITTERS, None)
    return jax.jit(function, donate_argnums=donate_argnums, compiler_options=together)


def use_threads(count: int) -> bool:
    """Gives XLA's pool so many threads; False when it has its threads already, or the user chose.

    The pool is made with XLA's client, once in a process.
    """
    if xla_bridge.backends_are_initialized() or any(name in os.environ for name in _THREADS):
        return False
    os.environ[_THREADS[0]] = str(count)
    try:
        with installed.quick_answers():
            jax.devices()
    finally:
        del os.environ[_THREADS[0]]
    return True
