"""`make demo`: the seed programs' MLP learns MNIST in this process, with a progress bar."""

from __future__ import annotations

import argparse
import math
import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

import millrace as tf
from millrace.examples.tutorials.mnist import input_data

HIDDEN_UNITS = 100
PIXELS = 28 * 28


def build() -> tuple[Any, Any, Any, Any, Any, Any]:
    """The model: x, labels, training op, loss, accuracy, global step."""
    x = tf.placeholder(tf.float32, [None, PIXELS], name="x")
    y_ = tf.placeholder(tf.float32, [None, 10], name="y_")
    global_step = tf.train.get_or_create_global_step()
    hid_w = tf.Variable(
        tf.truncated_normal([PIXELS, HIDDEN_UNITS], stddev=1.0 / 28, seed=1), name="hid_w"
    )
    hid_b = tf.Variable(tf.zeros([HIDDEN_UNITS]), name="hid_b")
    sm_w = tf.Variable(
        tf.truncated_normal([HIDDEN_UNITS, 10], stddev=1.0 / math.sqrt(HIDDEN_UNITS), seed=2),
        name="sm_w",
    )
    sm_b = tf.Variable(tf.zeros([10]), name="sm_b")
    hidden = tf.nn.relu(tf.nn.xw_plus_b(x, hid_w, hid_b))
    y = tf.nn.softmax(tf.nn.xw_plus_b(hidden, sm_w, sm_b))
    loss = -tf.reduce_sum(y_ * tf.log(tf.clip_by_value(y, 1e-10, 1.0)))
    # A falling rate: the last steps settle instead of jumping about.
    rate = 0.003 * tf.pow(0.5, tf.cast(global_step, tf.float32) / 1500.0)
    train = tf.train.AdamOptimizer(rate).minimize(loss, global_step=global_step)
    correct = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
    accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))
    return x, y_, train, loss, accuracy, global_step


def main(argv: list[str] | None = None) -> int:
    """Trains, and tells the accuracy on the test images."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5000, help="training steps (default 5000)")
    parser.add_argument("--batch", type=int, default=100, help="images a step (default 100)")
    options = parser.parse_args(argv)
    if options.steps < 1 or options.batch < 1:
        parser.error("--steps and --batch must be at least 1")
    console = Console()
    console.print("Millrace: an MLP (784-100-10) learns MNIST in one process.")
    mnist = input_data.read_data_sets("MNIST_data", one_hot=True, seed=1)
    x, y_, train, loss, accuracy, global_step = build()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        start = time.perf_counter()
        with Progress(
            TextColumn("step {task.completed}/{task.total}"),
            BarColumn(),
            TextColumn("loss {task.fields[loss]}"),
            TextColumn("{task.fields[rate]} steps/s"),
            TimeRemainingColumn(),
            console=console,
        ) as progress:
            bar = progress.add_task("", total=options.steps, loss="…", rate="…")
            for step in range(1, options.steps + 1):
                images, labels = mnist.train.next_batch(options.batch)
                _, value = sess.run([train, loss], {x: images, y_: labels})
                if step % 50 == 0 or step == options.steps:
                    elapsed = time.perf_counter() - start
                    progress.update(
                        bar,
                        completed=step,
                        loss=f"{value / options.batch:.4f}",
                        rate=f"{step / elapsed:.0f}",
                    )
        score = sess.run(accuracy, {x: mnist.test.images, y_: mnist.test.labels})
        steps = sess.run(global_step)
    console.print(f"Test accuracy after {steps} steps: [bold green]{100 * score:.2f} %[/]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
