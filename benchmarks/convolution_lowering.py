"""How convolutions and poolings should be put to XLA: candidates against each other and TensorFlow.

The pieces are those of a LeNet-size CNN (28 x 28 images, 5 x 5 filters, batch 100), a 3 x 3 pooling
with steps of 2, and a depthwise layer. Each library runs in a process of its own, and they take
turns, a few calls each, so that what else the machine does hits all alike. The candidate marked *
is what `millrace/ops` does; docs/decisions/0003-convolution-lowering.md says why.

    python benchmarks/convolution_lowering.py --tensorflow .bench/tensorflow/bin/python

CPU time is the figure to trust on a busy machine, wall time on a quiet one.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

HERE = pathlib.Path(__file__).resolve()
BATCH = 100
CALLS = 3


def values(*shape: int) -> Any:
    """Random float32 numbers, the same for each library."""
    import numpy as np

    return np.random.RandomState(sum(shape)).randn(*shape).astype(np.float32) * 0.1


ARRAYS = {
    "image": (BATCH, 28, 28, 1),
    "filter1": (5, 5, 1, 32),
    "layer1": (BATCH, 28, 28, 32),
    "pooled1": (BATCH, 14, 14, 32),
    "filter2": (5, 5, 32, 64),
    "layer2": (BATCH, 14, 14, 64),
    "wide": (BATCH, 24, 24, 64),
    "wide_pooled": (BATCH, 12, 12, 64),
    "deep": (32, 28, 28, 32),
    "deep_filter": (3, 3, 32, 1),
}


# -- The step of a whole CNN, in either library ----------------------------------------------


def training_step(tf: Any) -> Callable[[], None]:
    """Forward, all gradients and the update of a LeNet-size CNN, as one `Session.run`."""
    import numpy as np

    x, y = tf.placeholder(tf.float32, [None, 784]), tf.placeholder(tf.float32, [None, 10])
    shapes = [(5, 5, 1, 32), (32,), (5, 5, 32, 64), (64,), (3136, 1024), (1024,), (1024, 10), (10,)]
    variables = [tf.Variable(values(*shape)) for shape in shapes]
    w1, b1, w2, b2, w3, b3, w4, b4 = variables
    hidden = tf.reshape(x, [-1, 28, 28, 1])
    for w, b in ((w1, b1), (w2, b2)):
        hidden = tf.nn.relu(tf.nn.conv2d(hidden, w, [1, 1, 1, 1], "SAME") + b)
        hidden = tf.nn.max_pool(hidden, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    hidden = tf.nn.relu(tf.matmul(tf.reshape(hidden, [-1, 3136]), w3) + b3)
    losses = tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=tf.matmul(hidden, w4) + b4)
    loss = tf.reduce_mean(losses)
    gradients = tf.gradients(loss, variables)
    train = tf.group(
        *(tf.assign_sub(v, 1e-3 * g) for v, g in zip(variables, gradients, strict=True))
    )
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    feed = {x: values(BATCH, 784), y: np.eye(10, dtype=np.float32)[np.arange(BATCH) % 10]}
    return lambda: session.run([train, loss], feed)


# -- Candidates ------------------------------------------------------------------------------


def xla_candidates() -> dict[str, dict[str, Callable[[], None]]]:
    """Pieces, and for each the ways to compute it; the first is what `millrace/ops` does."""
    import millrace as tf
    from millrace.compiler import onednn
    from millrace.compiler.xla import jax, jnp, lax
    from millrace.ops.nn import convolution_kernels as conv
    from millrace.ops.nn import pooling_kernels as pool
    from millrace.ops.nn.windows import Window

    arrays = {name: jnp.asarray(values(*shape)) for name, shape in ARRAYS.items()}
    five, three = [Window(5, 1, 1, b"SAME")] * 2, [Window(3, 1, 1, b"SAME")] * 2
    tiles = [Window(1), Window(2, 2), Window(2, 2), Window(1)]
    overlapping = [Window(1), Window(3, 2, 1, b"SAME"), Window(3, 2, 1, b"SAME"), Window(1)]

    def patches(x: Any, size: int) -> Any:
        _, height, width, channels = x.shape
        margin = size // 2
        padded = jnp.pad(x, ((0, 0), (margin, margin), (margin, margin), (0, 0)))
        cells = [padded[:, i : i + height, j : j + width] for i in range(size) for j in range(size)]
        return jnp.reshape(jnp.stack(cells, axis=3), (-1, size * size * channels))

    def by_patches(x: Any, w: Any) -> Any:
        return jnp.reshape(patches(x, 5) @ w.reshape(-1, w.shape[3]), (*x.shape[:3], w.shape[3]))

    def as_given(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    def channels_first(x: Any, w: Any) -> Any:
        return jnp.moveaxis(conv.convolve(jnp.moveaxis(x, 3, 1), w, five, True), 1, 3)

    def input_in_width(w: Any, grad: Any) -> Any:
        backwards = jnp.swapaxes(w[::-1, ::-1], 2, 3)
        return conv._with_batch_in_width(grad, backwards, [(2, 2), (2, 2)], [1, 1])

    def input_as_given(w: Any, grad: Any) -> Any:
        return as_given(grad, jnp.swapaxes(w[::-1, ::-1], 2, 3))

    def input_by_patches(w: Any, grad: Any) -> Any:
        return by_patches(grad, jnp.swapaxes(w[::-1, ::-1], 2, 3))

    def filter_in_one(x: Any, grad: Any) -> Any:
        template = jax.ShapeDtypeStruct((5, 5, x.shape[3], grad.shape[3]), x.dtype)
        transpose = jax.linear_transpose(lambda w: as_given(x, w), template)
        return transpose(grad)[0]

    def filter_by_patches(x: Any, grad: Any) -> Any:
        flat = grad.reshape(-1, grad.shape[3])
        return (patches(x, 5).T @ flat).reshape(5, 5, x.shape[3], grad.shape[3])

    def filter_gradient(x: Any, grad: Any) -> Any:
        return conv.gradient_by_filter(x, (5, 5, x.shape[3], grad.shape[3]), grad, five, False)

    def input_gradient(w: Any, grad: Any) -> Any:
        return conv.gradient_by_input((*grad.shape[:3], w.shape[2]), w, grad, five, False)

    def window_max(steps: list[Window]) -> Callable[[Any], Any]:
        sizes, strides = [w.size for w in steps], [w.stride for w in steps]

        def compute(x: Any) -> Any:
            pads = [w.pads(n) for w, n in zip(steps, x.shape, strict=True)]
            return lax.reduce_window(x, -jnp.inf, lax.max, sizes, strides, pads)

        return compute

    def selected(steps: list[Window]) -> Callable[..., Any]:
        return lambda x, y, grad: jax.vjp(window_max(steps), x)[1](grad)[0]

    def grouped(x: Any, w: Any) -> Any:
        flat = jnp.reshape(w, (3, 3, 1, 32))
        return lax.conv_general_dilated(
            x, flat, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=32,
        )  # fmt: skip

    def compiled(
        function: Callable[..., Any], *names: str, options: dict[str, str] | None = None
    ) -> Callable[[], None]:
        inputs = [arrays[name] for name in names]
        program = jax.jit(function, compiler_options=options).lower(*inputs).compile()
        return lambda: jax.block_until_ready(program(*inputs))

    def without_onednn(function: Callable[..., Any]) -> Callable[..., Any]:
        def traced(*inputs: Any) -> Any:
            least, onednn.LEAST_WORK = onednn.LEAST_WORK, sys.maxsize
            try:
                return function(*inputs)
            finally:
                onednn.LEAST_WORK = least

        return traced

    def forward(x: Any, w: Any) -> Any:
        return conv.convolve(x, w, five, False)

    # XLA's other library for convolutions: what is not named here YNNPACK does not get.
    eigen = {
        "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,"
        "LIBRARY_FUSION_TYPE_REDUCE"
    }

    pool1, pool3 = (lambda x: pool.max_pool(x, tiles)), (lambda x: pool.max_pool(x, overlapping))
    arrays["maxima1"], arrays["maxima3"] = pool1(arrays["layer1"]), pool3(arrays["wide"])
    back = pool.max_pool_gradient
    return {
        "training step of the CNN": {"*": training_step(tf)},
        "conv 1 forward": {
            "* oneDNN": compiled(forward, "image", "filter1"),
            "convolution": compiled(without_onednn(forward), "image", "filter1"),
            "convolution, Eigen": compiled(as_given, "image", "filter1", options=eigen),
            "patches and matmul": compiled(by_patches, "image", "filter1"),
        },
        "conv 1 by filter": {
            "* parts in a loop": compiled(filter_gradient, "image", "layer1"),
            "one convolution": compiled(filter_in_one, "image", "layer1"),
            "one, Eigen": compiled(filter_in_one, "image", "layer1", options=eigen),
            "patches and matmul": compiled(filter_by_patches, "image", "layer1"),
        },
        "conv 2 forward": {
            "* oneDNN": compiled(forward, "pooled1", "filter2"),
            "batch in the width": compiled(without_onednn(forward), "pooled1", "filter2"),
            "convolution": compiled(as_given, "pooled1", "filter2"),
            "convolution, Eigen": compiled(as_given, "pooled1", "filter2", options=eigen),
            "patches and matmul": compiled(by_patches, "pooled1", "filter2"),
            "transposed to NCHW": compiled(channels_first, "pooled1", "filter2"),
        },
        "conv 2 by input": {
            "* oneDNN": compiled(input_gradient, "filter2", "layer2"),
            "convolution": compiled(without_onednn(input_gradient), "filter2", "layer2"),
            "batch in the width": compiled(input_in_width, "filter2", "layer2"),
            "convolution, Eigen": compiled(input_as_given, "filter2", "layer2", options=eigen),
            "patches and matmul": compiled(input_by_patches, "filter2", "layer2"),
        },
        "conv 2 by filter": {
            "* parts in a loop, oneDNN": compiled(filter_gradient, "pooled1", "layer2"),
            "parts in a loop": compiled(without_onednn(filter_gradient), "pooled1", "layer2"),
            "one convolution": compiled(filter_in_one, "pooled1", "layer2"),
            "one, Eigen": compiled(filter_in_one, "pooled1", "layer2", options=eigen),
            "patches and matmul": compiled(filter_by_patches, "pooled1", "layer2"),
        },
        "max pool 2 x 2": {
            "* slices": compiled(pool1, "layer1"),
            "reduce_window": compiled(window_max(tiles), "layer1"),
        },
        "max pool 2 x 2 back": {
            "* first maximum": compiled(
                lambda x, y, g: back(x, y, g, tiles), "layer1", "maxima1", "pooled1"
            ),
            "select_and_scatter": compiled(selected(tiles), "layer1", "maxima1", "pooled1"),
        },
        "max pool 3 x 3 / 2": {
            "* one axis at a time": compiled(pool3, "wide"),
            "reduce_window": compiled(window_max(overlapping), "wide"),
        },
        "max pool 3 x 3 / 2 back": {
            "* first maximum": compiled(
                lambda x, y, g: back(x, y, g, overlapping), "wide", "maxima3", "wide_pooled"
            ),
            "select_and_scatter": compiled(selected(overlapping), "wide", "maxima3", "wide_pooled"),
        },
        "depthwise forward": {
            "* shifted products": compiled(
                lambda x, w: conv.depthwise(x, w, three), "deep", "deep_filter"
            ),
            "grouped convolution": compiled(grouped, "deep", "deep_filter"),
        },
        "depthwise by filter": {
            "* shifted products": compiled(
                lambda x, g: conv.depthwise_gradient_by_filter(x, (3, 3, 32, 1), g, three),
                "deep",
                "deep",
            ),
            "grouped convolution": compiled(
                lambda x, w, g: jax.vjp(lambda v: grouped(x, v), w)[1](g)[0],
                "deep",
                "deep_filter",
                "deep",
            ),
        },
    }


def tensorflow_candidates() -> dict[str, dict[str, Callable[[], None]]]:
    """The same pieces on TensorFlow in v1 mode."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    a = {name: tf.Variable(values(*shape)) for name, shape in ARRAYS.items()}
    ones = [1, 1, 1, 1]
    nn, raw = tf.nn, tf.raw_ops
    pool1, pool3 = nn.max_pool(a["layer1"], 2, 2, "SAME"), nn.max_pool(a["wide"], 3, 2, "SAME")

    def pool_back(x: Any, y: Any, grad: Any, size: int) -> Any:
        return raw.MaxPoolGrad(
            orig_input=x,
            orig_output=y,
            grad=grad,
            ksize=[1, size, size, 1],
            strides=[1, 2, 2, 1],
            padding="SAME",
        )

    depthwise = nn.depthwise_conv2d(a["deep"], a["deep_filter"], ones, "SAME")
    pieces = {
        "conv 1 forward": nn.conv2d(a["image"], a["filter1"], ones, "SAME"),
        "conv 1 by filter": nn.conv2d_backprop_filter(
            a["image"], [5, 5, 1, 32], a["layer1"], ones, "SAME"
        ),
        "conv 2 forward": nn.conv2d(a["pooled1"], a["filter2"], ones, "SAME"),
        "conv 2 by input": nn.conv2d_backprop_input(
            [BATCH, 14, 14, 32], a["filter2"], a["layer2"], ones, "SAME"
        ),
        "conv 2 by filter": nn.conv2d_backprop_filter(
            a["pooled1"], [5, 5, 32, 64], a["layer2"], ones, "SAME"
        ),
        "max pool 2 x 2": pool1,
        "max pool 2 x 2 back": pool_back(a["layer1"], tf.stop_gradient(pool1), a["pooled1"], 2),
        "max pool 3 x 3 / 2": pool3,
        "max pool 3 x 3 / 2 back": pool_back(a["wide"], pool3, a["wide_pooled"], 3),
        "depthwise forward": depthwise,
        "depthwise by filter": tf.gradients(depthwise, a["deep_filter"], a["deep"])[0],
    }
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    # Fetching the operation runs it without copying its result out.
    calls = {
        name: {"TensorFlow": lambda op=tensor.op: session.run(op)}
        for name, tensor in pieces.items()
    }
    return {"training step of the CNN": {"TensorFlow": training_step(tf)}, **calls}


# -- Turns -----------------------------------------------------------------------------------


def serve(library: str, only: str) -> None:
    """Answers each line ``[piece, candidate]`` with the times of a few calls."""
    every = xla_candidates() if library == "millrace" else tensorflow_candidates()
    every = {name: piece for name, piece in every.items() if name.startswith(only)}
    for piece in every.values():
        for call in piece.values():
            call()
            call()
    print(json.dumps({name: list(piece) for name, piece in every.items()}), flush=True)
    for line in sys.stdin:
        piece, candidate = json.loads(line)
        call, times = every[piece][candidate], []
        for _ in range(CALLS):
            cpu, wall = time.process_time(), time.perf_counter()
            call()
            times.append((time.perf_counter() - wall, time.process_time() - cpu))
        print(json.dumps(times), flush=True)


def main() -> int:
    """Runs all candidates by turns and prints what they took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tensorflow", help="an interpreter that has TensorFlow")
    parser.add_argument("--rounds", type=int, default=10, help="turns of each (default 10)")
    parser.add_argument("--only", default="", help="only the pieces whose names begin like this")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.only)
        return 0
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    pythons = {"millrace": sys.executable}
    if options.tensorflow:
        pythons["tensorflow"] = options.tensorflow
    workers, offered = {}, {}
    for library, python in pythons.items():
        workers[library] = subprocess.Popen(
            [python, str(HERE), "--serve", library, "--only", options.only],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    for library, worker in workers.items():
        line = worker.stdout.readline()
        if not line:
            raise SystemExit(
                f"{library} did not start; try: {pythons[library]} {HERE} --serve {library}"
            )
        offered[library] = json.loads(line)
    times: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for _ in track(range(options.rounds), description="turns"):
        for piece in offered["millrace"]:
            for library, worker in workers.items():
                for candidate in offered[library][piece]:
                    worker.stdin.write(json.dumps([piece, candidate]) + "\n")
                    worker.stdin.flush()
                    times.setdefault((piece, candidate), []).extend(
                        json.loads(worker.stdout.readline())
                    )
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()
    table = Table(
        title=f"milliseconds, {options.rounds} turns of {CALLS} calls; ratios: TensorFlow's time to this"  # noqa: E501
    )
    for column in (
        "piece",
        "candidate",
        "CPU median",
        "ratio",
        "wall median",
        "wall least",
        "ratio of least",
    ):
        table.add_column(column, justify="left" if column in ("piece", "candidate") else "right")
    for piece, candidates in offered["millrace"].items():
        theirs = times.get((piece, "TensorFlow"))
        for candidate in [*candidates, *(["TensorFlow"] if theirs else [])]:
            own = times[piece, candidate]
            wall, cpu = [t[0] for t in own], statistics.median(t[1] for t in own)
            ratio = least = ""
            if theirs:
                ratio = f"{statistics.median(t[1] for t in theirs) / cpu:.2f}"
                least = f"{min(t[0] for t in theirs) / min(wall):.2f}"
            table.add_row(
                piece,
                candidate,
                f"{cpu * 1e3:.2f}",
                ratio,
                f"{statistics.median(wall) * 1e3:.2f}",
                f"{min(wall) * 1e3:.2f}",
                least,
            )
        table.add_section()
    Console(width=120).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
