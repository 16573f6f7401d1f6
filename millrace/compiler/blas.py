"""NumPy's matrix products in one thread, beside an XLA that has one too.

Where every core has a task of its own, XLA is given one thread (`xla.use_threads`), and what NumPy
multiplies by must have no more: its threads would take the cores from other tasks, and go on
spinning for a while after each product.
"""

from __future__ import annotations

import functools
import os

import threadpoolctl

#: What users say how many threads it gets by.
_SAID = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS")


@functools.cache
def use_one_thread() -> bool:
    """Gives NumPy's products one thread, from now on; False where that cannot be said.

    What the user's environment says holds.
    """
    controller = threadpoolctl.ThreadpoolController().select(user_api="blas")
    libraries = controller.lib_controllers
    if not any(name in os.environ for name in _SAID):
        for library in libraries:
            library.set_num_threads(1)
    return bool(libraries) and all(library.num_threads == 1 for library in libraries)
