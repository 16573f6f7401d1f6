"""`ops/xla.py` keeps the memory of one step for the next."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from millrace.ops import xla

PROGRAM = """
import resource
import numpy as np
import millrace.ops.xla

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(48 << 20, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults()
print(faults())
"""
PAGES = (48 << 20) // os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("settings", "kept"), [({}, True), ({"MALLOC_MMAP_THRESHOLD_": "1000000"}, False)]
)
def test_large_buffers_are_kept_unless_the_environment_says_otherwise(settings, kept):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    # Huge pages would make a fault of many pages one.
    environment.update(settings, NUMPY_MADVISE_HUGEPAGE="0")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert (int(done.stdout) < PAGES / 2) == kept


def test_a_variable_that_is_read_and_updated_is_not_copied():
    def step(weights, x):
        (w,) = weights
        y = x @ w
        # The update does not depend on the product before it, which reads the old weights.
        return y @ w.T, [w - 0.1 * (x.T @ y)]

    program = xla.jax.jit(step, donate_argnums=(0,), compiler_options=xla.in_place())
    w, x = xla.jnp.ones((48, 32)), xla.jnp.ones((8, 48))
    text = program.lower([w], x).compile().as_text()
    assert "input_output_alias" in text
    assert " copy(" not in text
