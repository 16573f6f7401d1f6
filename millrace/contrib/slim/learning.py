"""`slim.learning`: a training operation from a loss, and the loop that runs it.

The loop is a supervised one: the chief initialises, saves and writes summaries; other workers
wait for it; a lost parameter server begins the session again.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import millrace as tf
from millrace.client.timeline import Timeline
from millrace.contrib.training import (
    add_gradients_summaries,
    clip_gradient_norms,
    multiply_gradients,
)
from millrace.contrib.training import create_train_op as _create_train_op

__all__ = [
    "add_gradients_summaries",
    "clip_gradient_norms",
    "create_train_op",
    "multiply_gradients",
    "train",
    "train_step",
]

_USE_DEFAULT: Any = 0


def create_train_op(
    total_loss: Any,
    optimizer: Any,
    global_step: Any = _USE_DEFAULT,
    update_ops: Any = None,
    variables_to_train: Any = None,
    clip_gradient_norm: float = 0,
    summarize_gradients: bool = False,
    gate_gradients: int = tf.train.Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    gradient_multipliers: Any = None,
    check_numerics: bool = True,
) -> Any:
    """A tensor that, when it is evaluated, does a training step and has the loss as value.

    Args:
      total_loss: The loss.
      optimizer: What computes and applies gradients.
      global_step: A variable to count up; the graph's own by default, none when None.
      update_ops: Operations to run before; those in UPDATE_OPS when None.
      variables_to_train: Variables to train; all trainable ones when None.
      clip_gradient_norm: The largest norm of each gradient, if above 0.
      summarize_gradients: Whether to add summaries of the gradients.
      gate_gradients: As in `Optimizer.minimize`.
      aggregation_method: As in `Optimizer.minimize`.
      colocate_gradients_with_ops: As in `Optimizer.minimize`.
      gradient_multipliers: Factors by variable, or by the name of a variable's op.
      check_numerics: Whether a loss that is no number is an error.
    """

    def transform(pairs: list[Any]) -> list[Any]:
        if gradient_multipliers:
            with tf.name_scope("multiply_grads"):
                pairs = multiply_gradients(pairs, gradient_multipliers)
        if clip_gradient_norm > 0:
            with tf.name_scope("clip_grads"):
                pairs = clip_gradient_norms(pairs, clip_gradient_norm)
        return pairs

    counted = {} if global_step is _USE_DEFAULT else {"global_step": global_step}
    return _create_train_op(
        total_loss=total_loss,
        optimizer=optimizer,
        update_ops=update_ops,
        variables_to_train=variables_to_train,
        transform_grads_fn=transform,
        summarize_gradients=summarize_gradients,
        gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
        check_numerics=check_numerics,
        **counted,
    )


def _wait_for_step(sess: Any, global_step: Any, step: int) -> None:
    """Waits until the others have trained so far."""
    announced = False
    while tf.train.global_step(sess, global_step) < step:
        if not announced:
            tf.logging.info("Waiting for step %d before starting.", step)
            announced = True
        time.sleep(1.0)


def train_step(
    sess: Any, train_op: Any, global_step: Any, train_step_kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    """One step; returns (loss, whether the training is to stop).

    Args:
      sess: The session.
      train_op: What to run; its value is the loss.
      global_step: The counter.
      train_step_kwargs: ``should_stop``, ``should_log``, ``should_trace``, ``logdir``,
        ``summary_writer``.
    """
    began = time.time()
    options = metadata = None
    if "should_trace" in train_step_kwargs:
        if "logdir" not in train_step_kwargs:
            raise ValueError("logdir must be present in train_step_kwargs when should_trace is")
        if sess.run(train_step_kwargs["should_trace"]):
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            metadata = tf.RunMetadata()
    loss, step = sess.run([train_op, global_step], options=options, run_metadata=metadata)
    elapsed = time.time() - began
    if metadata is not None:
        trace = Timeline(metadata.step_stats).generate_chrome_trace_format()
        path = os.path.join(train_step_kwargs["logdir"], f"tf_trace-{step}.json")
        tf.logging.info("Writing trace to %s", path)
        with tf.gfile.Open(path, "w") as file:
            file.write(trace)
        if train_step_kwargs.get("summary_writer") is not None:
            train_step_kwargs["summary_writer"].add_run_metadata(metadata, f"run_metadata-{step}")
    if "should_log" in train_step_kwargs and sess.run(train_step_kwargs["should_log"]):
        tf.logging.info("global step %d: loss = %.4f (%.3f sec/step)", step, loss, elapsed)
    should_stop = False
    if "should_stop" in train_step_kwargs:
        should_stop = sess.run(train_step_kwargs["should_stop"])
    return loss, should_stop


def train(
    train_op: Any,
    logdir: str | None,
    train_step_fn: Any = train_step,
    train_step_kwargs: Any = _USE_DEFAULT,
    log_every_n_steps: int = 1,
    graph: Any = None,
    master: str = "",
    is_chief: bool = True,
    global_step: Any = None,
    number_of_steps: int | None = None,
    init_op: Any = _USE_DEFAULT,
    init_feed_dict: Any = None,
    local_init_op: Any = _USE_DEFAULT,
    init_fn: Any = None,
    ready_op: Any = _USE_DEFAULT,
    summary_op: Any = _USE_DEFAULT,
    save_summaries_secs: float = 600,
    summary_writer: Any = _USE_DEFAULT,
    startup_delay_steps: int = 0,
    saver: Any = None,
    save_interval_secs: float = 600,
    sync_optimizer: Any = None,
    session_config: Any = None,
    session_wrapper: Any = None,
    trace_every_n_steps: int | None = None,
    ignore_live_threads: bool = False,
) -> Any:
    """Trains until `number_of_steps`, the end of the input, or a stop; returns the last loss.

    Args:
      train_op: What `create_train_op` gave.
      logdir: Where checkpoints and summaries go; None for none.
      train_step_fn: What does one step, see `train_step`.
      train_step_kwargs: Its last argument.
      log_every_n_steps: How often the loss is logged.
      graph: The graph, the default one when None.
      master: The session's target.
      is_chief: Whether this worker initialises and saves.
      global_step: The counter, the graph's own when None.
      number_of_steps: The global step to stop at; None for never.
      init_op: What initialises variables.
      init_feed_dict: Its feed.
      local_init_op: What initialises local variables and tables.
      init_fn: Called with the session after `init_op`.
      ready_op: Tells what is not initialised.
      summary_op: What makes summaries; None for none.
      save_summaries_secs: How often.
      summary_writer: What writes them.
      startup_delay_steps: How many steps a worker that is not chief waits for.
      saver: The saver, of all variables when None.
      save_interval_secs: How often a checkpoint is saved.
      sync_optimizer: A `SyncReplicasOptimizer`, or several.
      session_config: The session's `ConfigProto`.
      session_wrapper: Called with the session; what it returns is used.
      trace_every_n_steps: How often the chief traces a step.
      ignore_live_threads: Whether threads that do not end are no error.

    Raises:
      ValueError: Arguments exclude one another or are of the wrong type.
    """
    if train_op is None:
        raise ValueError("train_op cannot be None.")
    if logdir is None:
        if summary_op is not _USE_DEFAULT and summary_op is not None:
            raise ValueError("Cannot provide summary_op because logdir=None")
        if saver is not None:
            raise ValueError("Cannot provide saver because logdir=None")
        if trace_every_n_steps is not None:
            raise ValueError("Cannot provide trace_every_n_steps because logdir=None")
    synced = _sync_optimizers(sync_optimizer)
    if synced and startup_delay_steps > 0:
        raise ValueError("startup_delay_steps must be zero when sync_optimizer is supplied.")
    if number_of_steps is not None and number_of_steps <= 0:
        raise ValueError("`number_of_steps` must be either None or a positive number.")
    graph = graph or tf.get_default_graph()
    with graph.as_default():
        if global_step is None:
            global_step = tf.train.get_or_create_global_step()
        saver = saver or tf.train.Saver()
        tokens = [opt.get_init_tokens_op() for opt in synced] if is_chief else []
        runners = [opt.get_chief_queue_runner() for opt in synced] if is_chief else []
        if train_step_kwargs is _USE_DEFAULT:
            train_step_kwargs = _step_arguments(
                global_step, number_of_steps, log_every_n_steps,
                trace_every_n_steps if is_chief else None, logdir,
            )  # fmt: skip
        supervisor = tf.train.Supervisor(
            graph=graph,
            is_chief=is_chief,
            logdir=logdir,
            global_step=global_step,
            saver=saver,
            save_summaries_secs=save_summaries_secs,
            save_model_secs=save_interval_secs,
            init_feed_dict=init_feed_dict,
            init_fn=init_fn,
            **_supervisor_ops(
                init_op, local_init_op, ready_op, summary_op, summary_writer, synced, is_chief,
                logdir,
            ),
        )  # fmt: skip
        if supervisor.summary_writer is not None:
            train_step_kwargs["summary_writer"] = supervisor.summary_writer
    limit = min(startup_delay_steps, number_of_steps or sys.maxsize)
    while True:
        try:
            return _loop(
                supervisor, master, session_config, session_wrapper, is_chief, logdir, limit,
                global_step, runners, tokens, train_step_fn, train_op, train_step_kwargs,
                ignore_live_threads,
            )  # fmt: skip
        except tf.errors.AbortedError:
            tf.logging.info("Retrying training!")


def _sync_optimizers(given: Any) -> list[Any]:
    optimizers = [] if given is None else given if isinstance(given, list) else [given]
    for each in optimizers:
        if not isinstance(each, tf.train.SyncReplicasOptimizer):
            raise ValueError(
                "`sync_optimizer` must be a tf.train.SyncReplicasOptimizer, found "
                f"{type(each).__name__}."
            )
    return list(optimizers)


def _supervisor_ops(
    init_op: Any, local_init_op: Any, ready_op: Any, summary_op: Any, summary_writer: Any,
    synced: list[Any], is_chief: bool, logdir: str | None,
) -> dict[str, Any]:  # fmt: skip
    found: dict[str, Any] = {}
    with tf.name_scope("init_ops"):
        found["init_op"] = tf.global_variables_initializer() if init_op is _USE_DEFAULT else init_op
        found["ready_op"] = (
            tf.report_uninitialized_variables() if ready_op is _USE_DEFAULT else ready_op
        )
        if local_init_op is _USE_DEFAULT:
            local_init_op = tf.group(tf.local_variables_initializer(), tf.tables_initializer())
        if synced:
            own = [opt.chief_init_op if is_chief else opt.local_step_init_op for opt in synced]
            local_init_op = tf.group(local_init_op, *own)
            found["ready_for_local_init_op"] = synced[0].ready_for_local_init_op
        found["local_init_op"] = local_init_op
    if summary_op is _USE_DEFAULT:
        summary_op = tf.summary.merge_all() if logdir is not None else None
    found["summary_op"] = summary_op
    if summary_writer is not _USE_DEFAULT:
        found["summary_writer"] = summary_writer
    elif logdir is None:
        found["summary_writer"] = None
    return found


def _step_arguments(
    global_step: Any, number_of_steps: int | None, log_every: int, trace_every: int | None,
    logdir: str | None,
) -> dict[str, Any]:  # fmt: skip
    with tf.name_scope("train_step"):
        found: dict[str, Any] = {}
        if number_of_steps:
            found["should_stop"] = tf.greater_equal(global_step, number_of_steps)
        else:
            found["should_stop"] = tf.constant(False)
        if log_every > 0:
            found["should_log"] = tf.equal(tf.mod(global_step, log_every), 0)
        if trace_every is not None:
            found["should_trace"] = tf.equal(tf.mod(global_step, trace_every), 0)
            found["logdir"] = logdir
    return found


def _loop(
    supervisor: Any, master: str, config: Any, session_wrapper: Any, is_chief: bool,
    logdir: str | None, startup_steps: int, global_step: Any, runners: Any, tokens: Any,
    train_step_fn: Any, train_op: Any, train_step_kwargs: Any, ignore_live_threads: bool,
) -> Any:  # fmt: skip
    loss = None
    with supervisor.managed_session(master, start_standard_services=False, config=config) as sess:
        tf.logging.info("Starting Session.")
        if session_wrapper is not None:
            sess = session_wrapper(sess)
        if is_chief:
            if logdir:
                supervisor.start_standard_services(sess)
        elif startup_steps > 0:
            _wait_for_step(sess, global_step, startup_steps)
        threads = supervisor.start_queue_runners(sess)
        tf.logging.info("Starting Queues.")
        if is_chief and runners:
            supervisor.start_queue_runners(sess, runners)
            sess.run(tokens)
        try:
            while not supervisor.should_stop():
                loss, should_stop = train_step_fn(sess, train_op, global_step, train_step_kwargs)
                if should_stop:
                    tf.logging.info("Stopping Training.")
                    supervisor.request_stop()
                    break
        except tf.errors.OutOfRangeError as error:
            # The input is at its end.
            tf.logging.info("Caught OutOfRangeError. Stopping Training. %s", error)
        if logdir and supervisor.is_chief:
            tf.logging.info("Finished training! Saving model to disk.")
            supervisor.saver.save(sess, supervisor.save_path, global_step=supervisor.global_step)
            supervisor.stop(
                threads, close_summary_writer=False, ignore_live_threads=ignore_live_threads
            )
    return loss
