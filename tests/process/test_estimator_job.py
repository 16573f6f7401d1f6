"""`tf.estimator.train_and_evaluate` as a job of processes, some of which are killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import millrace as tf

TRAINER = """
import json, os, signal, sys, threading, time
import numpy as np
import tensorflow as tf

def global_step():
    found = tf.train.latest_checkpoint("model")
    return int(found.rpartition("-")[2]) if found else -1

def die_once(task, step):
    mark = "killed-" + task
    if os.path.exists(mark):
        return
    def wait():
        while global_step() < step:
            time.sleep(0.02)
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Thread(target=wait, daemon=True).start()

def model_fn(features, labels, mode):
    weights = tf.get_variable("weights", [4, 1], partitioner=tf.fixed_size_partitioner(2))
    value = tf.matmul(features["x"], weights)
    loss = tf.reduce_mean(tf.square(value - labels))
    train_op = tf.train.GradientDescentOptimizer(0.2).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(
        mode, predictions=value, loss=loss, train_op=train_op,
        eval_metric_ops={"mae": tf.metrics.mean_absolute_error(labels, value)})

def input_fn(mode):
    x = np.random.RandomState(1).rand(64, 4).astype("float32")
    y = x @ np.array([[1], [2], [-1], [0.5]], "float32")
    data = tf.data.Dataset.from_tensor_slices(({"x": x}, y)).batch(16)
    return data.repeat() if mode == "train" else data

class Paced(tf.train.SessionRunHook):
    def after_run(self, run_context, run_values):
        time.sleep(0.02)

if __name__ == "__main__":
    config = tf.estimator.RunConfig("model", save_checkpoints_steps=20, log_step_count_steps=100,
                                    save_summary_steps=None, experimental_max_worker_delay_secs=0)
    if len(sys.argv) > 1:
        place = {"worker": 20, "ps": 60, "chief": 100, "evaluator": 140}
        die_once(config.task_type, place[config.task_type])
    tf.estimator.train_and_evaluate(
        tf.estimator.Estimator(model_fn, config=config),
        tf.estimator.TrainSpec(input_fn, max_steps=200, hooks=[Paced()]),
        tf.estimator.EvalSpec(input_fn, steps=None, throttle_secs=0.5))
"""


def launch(folder: Path, *words: str) -> list[dict]:
    (folder / "trainer.py").write_text(TRAINER)
    options = ["--ps", "1", "--workers", "2", "--evaluator", "--logs", "logs", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "millrace", "launch", *options, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=280,
    )
    logs = {path.name: path.read_text()[-1500:] for path in (folder / "logs").glob("*.log")}
    assert done.returncode == 0, (done.stderr, logs)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def test_a_job_outlives_a_killed_one_of_each_task(tmp_path: Path) -> None:
    facts = launch(tmp_path, "--max-restarts", "2", "trainer.py", "--", "kill")
    tasks = facts[-1]["tasks"]
    assert set(tasks) == {"ps-0", "chief-0", "worker-0", "evaluator-0"}
    for kind in ("worker", "ps", "chief", "evaluator"):
        assert (tmp_path / f"killed-{kind}").exists()
        assert tasks[f"{kind}-0"]["restarts"] >= 1
    newest = tf.train.latest_checkpoint(str(tmp_path / "model"))
    assert int(newest.rpartition("-")[2]) >= 200
    assert tf.train.load_variable(newest, "weights").shape == (4, 1)
    # The table shows the metrics of the last checkpoint, or of one that had come as far.
    shown = tasks["evaluator-0"]["last_line"]
    assert shown.startswith("step 20") and "loss = " in shown and "mae = " in shown
