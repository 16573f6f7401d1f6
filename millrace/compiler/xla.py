"""The one place where jax is configured; ops and runtime import it from here.

64-bit types must be on before the first array is made: TensorFlow's int64, float64 and
complex128 are what they say.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

# First: it decides how JAX is loaded.
from millrace.compiler import private
from millrace.compiler.private import ArrayImpl
from millrace.platform import process_tuning

with process_tuning.quick_imports():
    import jax
    import jax.numpy as jnp
    from jax import lax

jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]
if process_tuning.is_on():
    # A program runs in the thread that calls it: handing it to another and back costs more than
    # half of a small one. The interpreter's lock is free meanwhile.
    jax.config.update("jax_cpu_enable_async_dispatch", False)  # type: ignore[no-untyped-call]
    process_tuning.keep_freed_memory()
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


#: Variables of the environment that tell XLA's CPU client how many threads it gets.
_THREADS = ("PJRT_NPROC", "NPROC")


#: The pass of XLA's CPU compiler that makes one loop of several which read the same arrays.
_JOINING_PASS = "cpu_multi_output_fusion"
#: For `compiled(options=...)`: lets the compiler do so, where `JOINS_LOOPS` says it can. What two
#: loops both compute must stay in each of them until they are one, so the pass that would compute
#: it once, before both, is off instead.
JOINING_LOOPS = {"xla_disable_hlo_passes": "cse"}


def _allow_joined_loops() -> bool:
    """Turns that pass on, but off again for every program that does not ask for it.

    It is not on by itself, with reason: some programs make the compiler crash. Whether it is there
    can be said only for the process, and whether it is used only for a program; XLA takes the
    former from the environment, once. False if the user or another library was there first.
    """
    if not process_tuning.is_on():
        return False
    before = os.environ.get("XLA_FLAGS", "")
    if "xla_disable_hlo_passes" in before or "xla_backend_extra_options" in before:
        return False
    flags = (
        f"{before} --xla_backend_extra_options=xla_cpu_use_multi_output_fusion=true"
        f" --xla_disable_hlo_passes={_JOINING_PASS}"
    )
    with process_tuning.environment("XLA_FLAGS", flags):
        return private.disabled_passes() == _JOINING_PASS


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


@functools.cache
def _compiled_quickly() -> Mapping[str, Any]:
    """Those of these options that this jaxlib knows and the user says nothing of."""
    said = os.environ.get("XLA_FLAGS", "")
    options = {name: value for name, value in _QUICKLY.items() if name not in said}
    if private.knows("older emitters"):
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
    if not process_tuning.is_on() or any(name in os.environ for name in _THREADS):
        return False
    if private.client_exists():
        return False
    with process_tuning.environment(_THREADS[0], str(count)), process_tuning.quick_imports():
        jax.devices()
    return True
