"""`slim.evaluation`: metrics of a checkpoint, once or of every new one."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.contrib.training import evaluation as training_evaluation
from millrace.contrib.training.evaluation import wait_for_new_checkpoint
from millrace.training.checkpoint.state import checkpoints_iterator

__all__ = [
    "checkpoints_iterator",
    "evaluate_once",
    "evaluation_loop",
    "wait_for_new_checkpoint",
]

_USE_DEFAULT: Any = 0


def _hooks(
    num_evals: int, eval_op: Any, logdir: str | None, summary_op: Any, summary_feed: Any, hooks: Any
) -> list[Any]:
    found: list[Any] = []
    if eval_op is not None:
        found.append(training_evaluation.StopAfterNEvalsHook(num_evals))
    if summary_op is not None and logdir is not None:
        found.append(
            training_evaluation.SummaryAtEndHook(
                log_dir=logdir, summary_op=summary_op, feed_dict=summary_feed
            )
        )
    return [*found, *(hooks or [])]


def evaluate_once(
    master: str,
    checkpoint_path: str,
    logdir: str | None,
    num_evals: int = 1,
    initial_op: Any = None,
    initial_op_feed_dict: Any = None,
    eval_op: Any = None,
    eval_op_feed_dict: Any = None,
    final_op: Any = None,
    final_op_feed_dict: Any = None,
    summary_op: Any = _USE_DEFAULT,
    summary_op_feed_dict: Any = None,
    variables_to_restore: Any = None,
    session_config: Any = None,
    hooks: Any = None,
) -> Any:
    """Restores a checkpoint, runs `eval_op` several times, and returns `final_op`'s value."""
    if summary_op is _USE_DEFAULT:
        summary_op = tf.summary.merge_all()
    return training_evaluation.evaluate_once(
        checkpoint_path,
        master=master,
        scaffold=tf.train.Scaffold(
            init_op=initial_op,
            init_feed_dict=initial_op_feed_dict,
            saver=_saver(variables_to_restore),
        ),
        eval_ops=eval_op,
        feed_dict=eval_op_feed_dict,
        final_ops=final_op,
        final_ops_feed_dict=final_op_feed_dict,
        hooks=_hooks(num_evals, eval_op, logdir, summary_op, summary_op_feed_dict, hooks),
        config=session_config,
    )


def _saver(variables_to_restore: Any) -> Any:
    if variables_to_restore is None:
        variables_to_restore = tf.global_variables()
    return tf.train.Saver(variables_to_restore) if variables_to_restore else None


def evaluation_loop(
    master: str,
    checkpoint_dir: str,
    logdir: str | None,
    num_evals: int = 1,
    initial_op: Any = None,
    initial_op_feed_dict: Any = None,
    init_fn: Any = None,
    eval_op: Any = None,
    eval_op_feed_dict: Any = None,
    final_op: Any = None,
    final_op_feed_dict: Any = None,
    summary_op: Any = _USE_DEFAULT,
    summary_op_feed_dict: Any = None,
    variables_to_restore: Any = None,
    eval_interval_secs: float = 60,
    max_number_of_evaluations: int | None = None,
    session_config: Any = None,
    timeout: float | None = None,
    timeout_fn: Any = None,
    hooks: Any = None,
) -> Any:
    """Evaluates every new checkpoint of a folder; returns the last value of `final_op`."""
    if summary_op is _USE_DEFAULT:
        summary_op = tf.summary.merge_all()
    return training_evaluation.evaluate_repeatedly(
        checkpoint_dir,
        master=master,
        scaffold=tf.train.Scaffold(
            init_op=initial_op,
            init_feed_dict=initial_op_feed_dict,
            init_fn=init_fn,
            saver=_saver(variables_to_restore),
        ),
        eval_ops=eval_op,
        feed_dict=eval_op_feed_dict,
        final_ops=final_op,
        final_ops_feed_dict=final_op_feed_dict,
        eval_interval_secs=eval_interval_secs,
        hooks=_hooks(num_evals, eval_op, logdir, summary_op, summary_op_feed_dict, hooks),
        config=session_config,
        max_number_of_evaluations=max_number_of_evaluations,
        timeout=timeout,
        timeout_fn=timeout_fn,
    )
