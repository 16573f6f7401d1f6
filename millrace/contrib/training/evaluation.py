"""Evaluation of checkpoints: once, or of every new one."""

from __future__ import annotations

import time
from typing import Any

import millrace as tf
from millrace.ops.state.variable_changes import assign_add
from millrace.training.checkpoint.state import checkpoints_iterator

_EVAL_STEP = "eval_step"


def wait_for_new_checkpoint(
    checkpoint_dir: str,
    last_checkpoint: str | None = None,
    seconds_to_sleep: float = 1,
    timeout: float | None = None,
) -> str | None:
    """The newest checkpoint once it is another than `last_checkpoint`; None at a timeout."""
    tf.logging.info("Waiting for new checkpoint at %s", checkpoint_dir)
    stop = None if timeout is None else time.time() + timeout
    while True:
        found = tf.train.latest_checkpoint(checkpoint_dir)
        if found is not None and found != last_checkpoint:
            tf.logging.info("Found new checkpoint at %s", found)
            return str(found)
        if stop is not None and time.time() + seconds_to_sleep > stop:
            return None
        time.sleep(seconds_to_sleep)


def get_or_create_eval_step() -> Any:
    """The local variable that counts steps of an evaluation.

    Raises:
      ValueError: There are several.
    """
    found = tf.get_collection(tf.GraphKeys.EVAL_STEP)
    if len(found) > 1:
        raise ValueError("Multiple tensors added to tf.GraphKeys.EVAL_STEP")
    if found:
        return found[0]
    return tf.get_variable(
        _EVAL_STEP,
        shape=[],
        dtype=tf.int64,
        initializer=tf.zeros_initializer(),
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.EVAL_STEP],
    )


class StopAfterNEvalsHook(tf.train.SessionRunHook):
    """Stops an evaluation after `num_evals` steps."""

    def __init__(self, num_evals: int | None, log_progress: bool = True) -> None:
        self._num_evals = num_evals
        self._evals_completed: Any = None
        self._log_progress = log_progress
        #: Steps between reports: about ten of a long evaluation, every one of a short.
        self._log_every = 1 if num_evals is None or num_evals < 20 else num_evals // 10

    def _set_evals_completed_tensor(self, updated_eval_step: Any) -> None:
        self._evals_completed = updated_eval_step

    def before_run(self, run_context: Any) -> Any:
        """Asks for the number of steps."""
        return tf.train.SessionRunArgs({"evals_completed": self._evals_completed})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stops when it is reached."""
        done = run_values.results["evals_completed"]
        if self._log_progress:
            if self._num_evals is None:
                tf.logging.info("Evaluation [%d]", done)
            elif done % self._log_every == 0 or done == self._num_evals:
                tf.logging.info("Evaluation [%d/%d]", done, self._num_evals)
        if self._num_evals is not None and done >= self._num_evals:
            run_context.request_stop()


class SummaryAtEndHook(tf.train.SessionRunHook):
    """Writes summaries when an evaluation ends."""

    def __init__(
        self,
        log_dir: str | None = None,
        summary_writer: Any = None,
        summary_op: Any = None,
        feed_dict: Any = None,
    ) -> None:
        if (log_dir is None) == (summary_writer is None):
            raise ValueError("exactly one of log_dir and summary_writer should be specified")
        self._log_dir = log_dir
        self._summary_writer = summary_writer
        self._summary_op = summary_op
        self._feed_dict = feed_dict

    def begin(self) -> None:
        """Finds the summaries."""
        if self._summary_op is None:
            self._summary_op = tf.summary.merge_all()
        if self._summary_writer is None:
            self._summary_writer = tf.summary.FileWriter(self._log_dir)
        self._global_step = tf.train.get_or_create_global_step()

    def end(self, session: Any) -> None:
        """Writes them, at the global step."""
        step = session.run(self._global_step)
        if self._summary_op is not None:
            values = session.run(self._summary_op, self._feed_dict)
            self._summary_writer.add_summary(values, step)
        self._summary_writer.flush()


def _scaffold(scaffold: Any) -> Any:
    return tf.train.Scaffold() if scaffold is None else scaffold


def evaluate_once(
    checkpoint_path: str | None,
    master: str = "",
    scaffold: Any = None,
    eval_ops: Any = None,
    feed_dict: Any = None,
    final_ops: Any = None,
    final_ops_feed_dict: Any = None,
    hooks: Any = None,
    config: Any = None,
) -> Any:
    """Evaluates one checkpoint (None: a model as it is initialised); the values of `final_ops`.

    `eval_ops` run until a hook stops the evaluation (`StopAfterNEvalsHook`).
    """
    eval_step = get_or_create_eval_step()
    hooks = list(hooks or [])
    if eval_ops is not None:
        update = assign_add(eval_step, 1)
        if isinstance(eval_ops, dict):
            eval_ops = {**eval_ops, "update_eval_step": update}
        elif isinstance(eval_ops, tuple | list):
            eval_ops = [*eval_ops, update]
        else:
            eval_ops = [eval_ops, update]
        done = eval_ops.values() if isinstance(eval_ops, dict) else eval_ops
        with tf.control_dependencies(list(done)):
            evals_completed = tf.identity(eval_step.read_value())
        for hook in hooks:
            if isinstance(hook, StopAfterNEvalsHook):
                hook._set_evals_completed_tensor(evals_completed)
    tf.logging.info("Starting evaluation at %s", time.strftime("%Y-%m-%dT%H:%M:%S"))
    began = time.time()
    creator = tf.train.ChiefSessionCreator(
        scaffold=_scaffold(scaffold),
        checkpoint_filename_with_path=checkpoint_path,
        master=master,
        config=config,
    )
    final = tf.train.FinalOpsHook(final_ops, final_ops_feed_dict)
    hooks.append(final)
    with tf.train.MonitoredSession(session_creator=creator, hooks=hooks) as session:
        if eval_ops is not None:
            while not session.should_stop():
                session.run(eval_ops, feed_dict)
    tf.logging.info("Inference Time : %0.5fs", time.time() - began)
    tf.logging.info("Finished evaluation at %s", time.strftime("%Y-%m-%d-%H:%M:%S"))
    return final.final_ops_values


def evaluate_repeatedly(
    checkpoint_dir: str,
    master: str = "",
    scaffold: Any = None,
    eval_ops: Any = None,
    feed_dict: Any = None,
    final_ops: Any = None,
    final_ops_feed_dict: Any = None,
    eval_interval_secs: float = 60,
    hooks: Any = None,
    config: Any = None,
    max_number_of_evaluations: int | None = None,
    timeout: float | None = None,
    timeout_fn: Any = None,
) -> Any:
    """Evaluates every new checkpoint of a folder; returns the last values of `final_ops`."""
    values = None
    found = checkpoints_iterator(checkpoint_dir, eval_interval_secs, timeout, timeout_fn)
    for count, path in enumerate(found, 1):
        values = evaluate_once(
            path, master, scaffold, eval_ops, feed_dict, final_ops, final_ops_feed_dict, hooks,
            config,
        )  # fmt: skip
        if max_number_of_evaluations is not None and count >= max_number_of_evaluations:
            return values
    return values
