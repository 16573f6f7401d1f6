"""What leans on private interfaces of JAX and XLA, and the public way beside each.

JAX promises nothing of what is here, so each interface names the releases in which it was tried
(`INTERFACES`). With any other release the public way is taken, which gives the same results more
slowly, and one message says what is off. Nobody else in Millrace imports `jax._src` or
`jaxlib`'s inner modules; a test looks.

To support a new release: add it to `RELEASES`, and run tests/unit/compiler on it.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import jaxlib

from millrace.platform import logging, process_tuning

#: Releases of JAX with which everything here was tried: their first two numbers.
RELEASES = ("0.10", "0.11", "0.12")


class Interface(NamedTuple):
    """A private interface.

    Attributes:
      gives: What it is used for.
      instead: What happens without it.
      releases: The releases that have it.
    """

    gives: str
    instead: str
    releases: tuple[str, ...] = RELEASES


INTERFACES = {
    "lazy imports": Interface(
        "JAX loads without its parts for TPUs and browsers", "all of JAX is loaded at once"
    ),
    "array class": Interface(
        "arrays are told by their class", "they are told by the slower public `jax.Array`"
    ),
    "client state": Interface(
        "XLA gets as many threads as its task has cores", "XLA has a thread per core"
    ),
    "compiler settings": Interface(
        "updates are one loop through memory (ops' new values are joined)",
        "an update is one loop per new value",
    ),
    "older emitters": Interface(
        "programs are compiled in half of the time", "XLA's own emitters are used", ("0.10",)
    ),
    "program arguments": Interface(
        "tasks compile an update once for all workers", "once per worker"
    ),
    "compiles": Interface(
        "all that XLA compiles has a budget of time and memory",
        "only the programs of stages have one",
    ),
    "oneDNN": Interface("large convolutions are oneDNN's", "they are XLA's own"),
}


def release() -> str:
    """The first two numbers of the installed release, `0.12` for example."""
    return ".".join(jaxlib.__version__.split(".")[:2])


def knows(name: str) -> bool:
    """Whether a private interface is there in the installed release, as far as was tried.

    ``MILLRACE_PRIVATE_JAX=off`` says that it is not.
    """
    if os.environ.get("MILLRACE_PRIVATE_JAX", "on").lower() in ("off", "0"):
        return False
    return release() in INTERFACES[name].releases


@functools.cache
def tell_once() -> None:
    """Says, once per process, what is off because this release of JAX is not known."""
    if release() in RELEASES:
        return
    lost = "; ".join(each.instead for each in INTERFACES.values())
    logging.warning(
        "Millrace knows JAX %s; with %s it goes without private interfaces, which is right but "
        "slower: %s.",
        ", ".join(RELEASES),
        jaxlib.__version__,
        lost,
    )


tell_once()

#: Parts that JAX loads and asks nothing of until they are used: for programs on TPUs, for showing
#: code in a browser.
_LATER = (
    "jaxlib.mosaic",
    "jaxlib.mosaic.python",
    "jaxlib.mosaic.python.mosaic_gpu",
    "jaxlib.mosaic.python.tpu",
    "pygments",
    "pygments.formatters",
    "pygments.lexers",
)

with process_tuning.quick_imports(*(_LATER if knows("lazy imports") else ())):
    import jax


def _spare_old_operations() -> None:
    """Lets JAX say that its older dialect exists without loading the dialect's operations.

    It says so whenever it lowers a program; hardly one has such an operation. Who asks for one
    gets it.
    """
    library = importlib.import_module("jaxlib.mlir._mlir_libs._mlirHlo")
    process_tuning.load_later(
        "jax._src.lib.mlir.dialects",
        "mhlo",
        "jaxlib.mlir.dialects.mhlo",
        register_mhlo_dialect=library.register_mhlo_dialect,
    )


if knows("lazy imports"):
    _spare_old_operations()


def _array_class() -> Any:
    if knows("array class"):
        return importlib.import_module("jax._src.array").ArrayImpl
    return jax.Array


#: The class of arrays that are no tracers; where it is not known, one that has it as a subclass.
ArrayImpl: Any = _array_class()


def client_exists() -> bool:
    """Whether XLA's client was made, and with it its threads; true if nobody can tell."""
    if not knows("client state"):
        return True
    bridge: Any = importlib.import_module("jax._src.xla_bridge")
    return bool(bridge.backends_are_initialized())


def disabled_passes() -> str | None:
    """Which passes XLA's flags turn off, as XLA understood them; None if nobody can tell.

    XLA reads its flags at the first such question, once.
    """
    if not knows("compiler settings"):
        return None
    client: Any = importlib.import_module("jaxlib.xla_client")
    options = client.CompileOptions()  # Its parts live no longer than it.
    return str(options.executable_build_options.debug_options.xla_disable_hlo_passes)


def arguments_used(lowered: Any) -> tuple[int, ...] | None:
    """Which arguments a lowered program's text speaks of; None if nobody can tell.

    Those that it does not use are not in its text, and constants may be arguments too.
    """
    if not knows("program arguments"):
        return None
    if getattr(jax.config, "jax_use_simplified_jaxpr_constants", False):
        return None
    found = getattr(getattr(lowered, "_lowering", None), "compile_args", {}).get("kept_var_idx")
    return None if found is None else tuple(sorted(found))


def define_prng_impl(**parts: Any) -> Any:
    """A generator of random numbers for JAX's keys.

    The public module would load all of Pallas.
    """
    name = "jax._src.extend.random" if knows("lazy imports") else "jax.extend.random"
    return importlib.import_module(name).define_prng_impl(**parts)


def compile_through(enter: Callable[[Callable[[], Any], str], Any]) -> bool:
    """Lets all that XLA compiles in this process go through a function.

    Args:
      enter: Is given the compile and the program's name, and returns the compile's result.

    Returns:
      Whether that can be.
    """
    if not knows("compiles"):
        return False
    compiler: Any = importlib.import_module("jax._src.compiler")
    original = compiler.compile_or_get_cached

    @functools.wraps(original)
    def compile_or_get_cached(backend: Any, computation: Any, *rest: Any, **more: Any) -> Any:
        name = str(computation.operation.attributes["sym_name"]).strip('"')
        work = functools.partial(original, backend, computation, *rest, **more)
        return enter(work, name)

    compiler.compile_or_get_cached = compile_or_get_cached
    return True
