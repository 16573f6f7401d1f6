"""What a process loads before it can serve or train: counted, for it is most of its start."""

from __future__ import annotations

import gc
import json
import subprocess
import sys

#: Packages, ours and others', that only some programs use.
NOT_NEEDED = """
    PIL cryptography fsspec absl unittest jax.extend jax.experimental.pallas scipy
    tensorboard.summary tensorboard.program rich pygments jaxlib.mosaic
    jaxlib.mlir.dialects.mhlo
    millrace.cli millrace.contrib millrace.saved_model millrace.testing millrace.data.mnist
""".split()

PROGRAM = """
import gc, json, sys
import millrace as tf
from millrace.graph import registry
loaded = sorted(sys.modules)
lazy = {"signature", "specials"}
worked_out = [d.name for d in registry.all_definitions() if lazy & set(vars(d))]
server = tf.train.Server.create_local_server()
with tf.Session(server.target) as sess:
    x = tf.placeholder(tf.float32, [2])
    assert sess.run(tf.square(x) + 1, {x: [1, 2]}).tolist() == [2, 5]
print(json.dumps({
    "loaded": loaded,
    "by_the_first_step": sorted(set(sys.modules) - set(loaded)),
    "worked_out": worked_out,
    "frozen": gc.get_freeze_count(),
    "threshold": gc.get_threshold(),
}))
"""


def test_importing_millrace_loads_only_what_every_task_needs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    loaded = {*found["loaded"], *found["by_the_first_step"]}
    assert "millrace.ops.math.arithmetic" in loaded
    assert sorted(loaded & set(NOT_NEEDED)) == []
    # No module of a package without the package: so this is all that there is.
    assert not [name for name in loaded if name.startswith("jax._src.pallas")]
    # Nor is any of the 900 signatures taken apart before an op of its type is used.
    assert found["worked_out"] == []
    # What was loaded is no garbage; the collector is told so, and works as ever.
    assert found["frozen"] > 50_000
    assert found["threshold"] == list(gc.get_threshold())
