"""Synchronous training: gradients of several workers, averaged and applied once a round.

On the ps tasks there is an accumulator beside every variable, and a queue of *tokens* beside the
global step. A worker's training operation pushes its gradients, marked with the step that they
were computed at, and then waits for a token; the token's value is its next step. The chief waits
in a thread of its own until `replicas_to_aggregate` gradients are there, applies their mean,
counts the global step up, and hands out tokens, one for each worker (or more, when workers are to
compute several batches a round). So the global step counts rounds.

The books, which everything below keeps balanced:

* An accumulator drops gradients of an earlier step: a straggler's round is over. With more workers
  than `replicas_to_aggregate` the slowest are dropped each time ("backup workers").
* A round needs as many pushes as it hands out tokens, and a push costs a token. With fewer workers
  than `replicas_to_aggregate` extra tokens must circulate: `get_init_tokens_op` puts them there.
* A worker that *leaves* pushes no more. It puts a token into the queue (`get_leave_op`),
  with which another worker pushes in its stead: the others go on, with rounds of the same size.
  The hook, a Supervisor, or else the session itself do so for workers that end; anybody may do so
  for a worker that died.
* When the chief ends, nobody closes rounds any more. It leaves two tokens for each of the others,
  so that who waits in a step gets to its end, and, if it had read the global step before that was
  the last one, makes another in which it sees it; and it closes the token queue: in a further step
  they get OutOfRangeError, which ends a monitored session quietly. A session that fails and is
  rebuilt must not close it, because a closed queue stays closed.

Faults (each push says whose it is, by the task of the local step):

* A worker whose step failed may have pushed to some ps tasks and not to others. When it begins
  again it says so, and accumulators that have its gradient drop the next one: every ps counts it
  once. The token that the failed step may have taken with it is put back.
* A chief that begins empties the accumulators and the token queue, and lets every worker push
  again. Nothing of a round that a fault interrupted is counted in one of the restored model.
* A round is applied when all ps tasks have taken their gradients, so that one which is away keeps
  the others from it. A chief that finds the model as it left it, or as one that died did, first
  looks whether a round was applied in part nevertheless: then some ps tasks are ahead of the global
  step, and the newest checkpoint is restored instead.
* Where every ps task has a standby, rounds go on as they were instead (`rounds.py`).
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from millrace.client.session import NEW_RUNS
from millrace.core import errors
from millrace.core.config import RunOptions
from millrace.core.device_spec import DeviceSpec
from millrace.graph.defaults import colocate_with, control_dependencies, device, name_scope
from millrace.graph.keys import GraphKeys
from millrace.graph.operation import Operation
from millrace.graph.slices import IndexedSlices
from millrace.graph.tensor import Tensor
from millrace.ops.array import fill as array_fill
from millrace.ops.array import identity as array_identity
from millrace.ops.control_flow import control_flow
from millrace.ops.data_flow.accumulators import (
    BEGINS_ROUND,
    CONTRIBUTOR,
    IF_PRESENT,
    TELLS_STEP,
    TOKEN,
    WILL_APPLY,
    ConditionalAccumulator,
    SparseConditionalAccumulator,
)
from millrace.ops.data_flow.queues import FIFOQueue
from millrace.ops.state import variable_changes, variables
from millrace.ops.state.variable import Variable
from millrace.platform import logging
from millrace.training.hooks.session_run_hook import SessionRunHook
from millrace.training.input.queue_runner import QueueRunner
from millrace.training.optimizers.moving_averages import ExponentialMovingAverage
from millrace.training.optimizers.optimizer import Optimizer
from millrace.training.replicas.leaving import LastOperation
from millrace.training.replicas.rounds import Rounds
from millrace.training.sessions import live_model

#: The optimizers of a graph; no string, so that it is not in MetaGraphs.
_OPTIMIZERS: Any = ("__sync_replicas",)
#: How long a look at the tokens may take.
_TOKENS_MILLISECONDS = 2000


class SyncReplicasOptimizer(Optimizer):
    """Lets another optimizer apply the mean of several workers' gradients.

    In a monitored session, `make_session_run_hook` does all that is needed. Otherwise the chief
    starts `get_chief_queue_runner()` and runs `get_init_tokens_op()`, after `chief_init_op`; the
    others run `local_step_init_op`.

    Attributes:
      local_step_init_op: Sets this worker's step to the global step.
      chief_init_op: The same, and the steps of the accumulators.
      ready_for_local_init_op: Names the variables without which these cannot run.
    """

    local_step_init_op: Operation
    chief_init_op: Operation
    ready_for_local_init_op: Tensor

    def __init__(
        self,
        opt: Optimizer,
        replicas_to_aggregate: int,
        total_num_replicas: Any = None,
        variable_averages: Any = None,
        variables_to_average: Any = None,
        use_locking: Any = False,
        name: Any = "sync_replicas",
        replica_id: int | None = None,
    ) -> None:
        """Makes an optimizer around another one.

        Args:
          opt: What computes and applies gradients.
          replicas_to_aggregate: How many gradients make a round.
          total_num_replicas: How many workers there are. More: the slowest are dropped in each
            round. Fewer: they compute several batches a round. As many when None.
          variable_averages: An ExponentialMovingAverage to update after each round.
          variables_to_average: The variables that it averages.
          use_locking: Accepted for compatibility: accumulators lock by themselves.
          name: A name for the scope of the accumulators.
          replica_id: This worker's number. TensorFlow 0.x asked for it, and gave
            `variable_averages` and `variables_to_average` before it and `total_num_replicas`
            after it; calls in that order are understood too.
        """
        if isinstance(total_num_replicas, ExponentialMovingAverage) or (
            isinstance(variables_to_average, int) and total_num_replicas is None
        ):
            # (opt, replicas, averages, variables, replica_id, total, locking, name): 0.x.
            old = (total_num_replicas, variable_averages, variables_to_average, use_locking)
            if isinstance(name, bool):
                use_locking, name = name, replica_id or "sync_replicas"
            else:
                use_locking = False
            variable_averages, variables_to_average, replica_id, total_num_replicas = old
        super().__init__(bool(use_locking), name)
        # 0.x had 0 for "not said".
        total = total_num_replicas or replicas_to_aggregate
        if replicas_to_aggregate < 1:
            raise ValueError(
                f"replicas_to_aggregate must be positive, but is {replicas_to_aggregate}"
            )
        logging.info(
            "SyncReplicasV2: replicas_to_aggregate=%s; total_num_replicas=%s",
            replicas_to_aggregate,
            total,
        )
        self._opt = opt
        self._replicas_to_aggregate = replicas_to_aggregate
        self._total_num_replicas = int(total)
        self._tokens_per_step = max(self._total_num_replicas, replicas_to_aggregate)
        self._variable_averages = variable_averages
        self._variables_to_average = variables_to_average
        self._replica_id = replica_id
        self._gradients_applied = False
        self._global_step: Any = None
        self._local_step: Any = None
        self._sync_token_queue: Any = None
        self._sync_op: Any = None
        self._chief_queue_runner: ChiefQueueRunner | None = None
        self._whole_round: WholeRound | None = None
        #: Rounds that go on after a fault, if a hook closes them.
        self._rounds: Rounds | None = None
        self._train_op: Any = None
        self._leave_op: Operation
        #: Sessions that somebody lets leave in good order.
        self._led: weakref.WeakSet[Any] = weakref.WeakSet()
        #: Accumulators with the devices that they are on.
        self._accumulator_list: list[tuple[Any, str]] = []
        #: The first accumulator on each device.
        self._accumulator_at: dict[str, Any] = {}
        #: Whose gradients this worker's are, for the accumulators; empty if no task is known.
        self._contributor = ""

    # -- What the other optimizer says -------------------------------------------------------

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """The gradients of this worker; change them (clip them) before they are applied."""
        return self._opt.compute_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """A slot of the other optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        """The names of the other optimizer's slots."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> list[Variable]:
        """The other optimizer's variables; the local step is not among them."""
        return self._opt.variables()

    # -- The graph ---------------------------------------------------------------------------

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        """A training operation that pushes gradients and waits for the end of the round.

        Args:
          grads_and_vars: (gradient, variable) pairs.
          global_step: Counts the rounds; must be given.
          name: Accepted for compatibility.

        Raises:
          ValueError: There are no pairs, or there is no global step.
        """
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required to check staleness")
        self._global_step = global_step
        # Beside an op of the worker, because a device setter would send a variable to a ps task.
        with colocate_with(control_flow.no_op()):
            self._local_step = Variable(
                0,
                trainable=False,
                collections=[GraphKeys.LOCAL_VARIABLES],
                dtype=global_step.dtype.base_dtype,
                name="sync_rep_local_step",
            )
        self._contributor = _task_of(self._local_step.device)
        self.local_step_init_op = variable_changes.assign(self._local_step, global_step)
        self.ready_for_local_init_op = variables.report_uninitialized_variables(
            variables.global_variables()
        )
        with name_scope(None, self._name):
            pushes, taken = self._accumulate(pairs)
            with device(global_step.device), name_scope(""):
                updated = self._opt.apply_gradients(taken, global_step)
                train_op = self._exchange_tokens(pushes, updated)
            steps = []
            for accumulator, place in self._accumulator_list:
                with device(place):
                    set_step = accumulator.set_global_step(global_step, name="SetGlobalStep")
                set_step._set_attr(BEGINS_ROUND, True)
                steps.append(set_step)
            self.chief_init_op = control_flow.group(self.local_step_init_op, *steps)
        self._gradients_applied = True
        self._leave_op = self.get_leave_op()
        graph = self._global_step.graph
        graph.add_to_collection(_OPTIMIZERS, self)
        graph.add_to_collection(NEW_RUNS, self._on_new_run)
        assert self._chief_queue_runner is not None
        self._chief_queue_runner._cancel_op = self._make_end_op()
        self._train_op = train_op.op
        return train_op

    def _accumulate(self, pairs: list[tuple[Any, Any]]) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """(operations that push, pairs of what is taken from the accumulators)."""
        pushes: list[Any] = []
        taken: list[Any] = []
        for grad, var in pairs:
            if grad is None:
                taken.append(None)
                continue
            with device(var.device):
                accumulator: Any
                if isinstance(grad, Tensor):
                    accumulator = ConditionalAccumulator(
                        grad.dtype, shape=var.shape, shared_name=f"{var.name}/grad_accum"
                    )
                    pushes.append(accumulator.apply_grad(grad, local_step=self._local_step))
                    taken.append(accumulator.take_grad(self._replicas_to_aggregate))
                elif isinstance(grad, IndexedSlices):
                    accumulator = SparseConditionalAccumulator(
                        grad.dtype, shape=(), shared_name=f"{var.name}/grad_accum"
                    )
                    pushes.append(
                        accumulator.apply_indexed_slices_grad(grad, local_step=self._local_step)
                    )
                    taken.append(accumulator.take_indexed_slices_grad(self._replicas_to_aggregate))
                else:
                    raise ValueError(f"Unknown grad type! {grad!r} for {var.name}")
                if self._contributor:
                    pushes[-1]._set_attr(CONTRIBUTOR, self._contributor.encode())
                self._accumulator_list.append((accumulator, var.device))
                # Its device may say more than the variable's, if the setter adds to it.
                self._accumulator_at.setdefault(taken[-1].device, accumulator)
        return pushes, list(zip(self._together(taken), (v for _, v in pairs), strict=True))

    def _together(self, taken: Sequence[Any]) -> list[Any]:
        """Gradients that wait for each other.

        Those on one device, so that all variables of a ps task change in one XLA call. And those of
        all devices, so that no ps applies a round that another one cannot: a fault in the meantime
        leaves the model as it was. Each notes that it is about to apply its part, so that a fault
        in the moments after that is found (`WholeRound`).
        """
        by_device: dict[str, list[int]] = {}
        for i, gradient in enumerate(taken):
            if gradient is not None:
                by_device.setdefault(gradient.device, []).append(i)
        result = list(taken)
        ready: list[Any] = []
        if {*by_device, self._global_step.device} != {self._global_step.device}:
            ready = [self._note(place, "taken", [taken[i] for i in indices], False)
                     for place, indices in by_device.items()]  # fmt: skip
        for place, indices in by_device.items():
            if ready:
                note = self._note(place, "will_apply", ready, True)
                with device(place), control_dependencies([note]):
                    for i in indices:
                        result[i] = _same(taken[i])
            elif len(indices) > 1:
                with device(place):
                    waiting = control_flow.tuple([taken[i] for i in indices], name="taken")
                for i, gradient in zip(indices, waiting, strict=True):
                    result[i] = gradient
        return result

    def _note(self, place: str, name: str, after: list[Any], will_apply: bool) -> Any:
        """An operation on a device that comes after others."""
        operations = [getattr(each, "op", each) for each in after]
        with device(place), control_dependencies(operations):
            if not will_apply:
                return control_flow.no_op(name=name)
            note = self._accumulator_at[place].num_accumulated(name=name).op
            note._set_attr(WILL_APPLY, True)
            return note

    def _exchange_tokens(self, pushes: list[Any], updated: Any) -> Any:
        """Makes the token queue, the training operation and the chief's operation."""
        kind = self._global_step.dtype.base_dtype
        queue = FIFOQueue(-1, kind, shapes=(), name="sync_token_q", shared_name="sync_token_q")
        self._sync_token_queue = queue
        with control_dependencies(pushes):
            token = queue.dequeue()
            token.op._set_attr(TOKEN, True)
        train_op = variable_changes.assign(self._local_step, token)
        with control_dependencies([updated]):
            tokens = array_fill.fill([self._tokens_per_step], self._read_global_step())
            sync_op = queue.enqueue_many((tokens,))
        if self._variable_averages is not None:
            with control_dependencies([sync_op]), name_scope(""):
                sync_op = self._variable_averages.apply(self._variables_to_average)
        self._sync_op = sync_op
        self._chief_queue_runner = ChiefQueueRunner(queue, [sync_op])
        return train_op

    def _read_global_step(self) -> Any:
        """The global step as it is when the control dependencies have run."""
        if isinstance(self._global_step, Variable):
            return self._global_step.read_value()
        return array_identity.identity(self._global_step)

    # -- What the chief and the workers run ----------------------------------------------------

    def _check_applied(self, what: str) -> None:
        if not self._gradients_applied:
            raise ValueError(f"{what} should be called after apply_gradients().")

    def get_chief_queue_runner(self) -> QueueRunner:
        """What the chief runs in a thread: it closes the rounds.

        Raises:
          ValueError: `apply_gradients` was not called yet.
        """
        self._check_applied("get_chief_queue_runner()")
        if not self._global_step.graph.finalized:
            self._check_rounds()
        assert self._chief_queue_runner is not None
        return self._chief_queue_runner

    def _check_rounds(self) -> WholeRound:
        """Lets a chief that adopts the model look whether the last round is whole."""
        if self._whole_round is None:
            self._whole_round = WholeRound(self)
        return self._whole_round

    def get_init_tokens_op(self, num_tokens: int = -1) -> Operation:
        """An operation for the chief that puts the first tokens into the queue.

        Args:
          num_tokens: How many; `replicas_to_aggregate` when -1. With 0 no worker begins a second
            batch before the first round is over.

        Raises:
          ValueError: `apply_gradients` was not called yet; or the tokens are too few for the
            workers to fill a round.
        """
        self._check_applied("get_init_tokens_op()")
        needed = self._replicas_to_aggregate - self._total_num_replicas
        if num_tokens == -1:
            num_tokens = self._replicas_to_aggregate
        elif num_tokens < needed:
            raise ValueError(
                f"Too few tokens to finish the first step: {num_tokens} (given) vs {needed} "
                f"(needed: replicas_to_aggregate is {self._replicas_to_aggregate}, "
                f"total_num_replicas {self._total_num_replicas})"
            )
        if num_tokens <= 0:
            return control_flow.no_op(name="no_init_tokens")
        return self._put_tokens(num_tokens)

    def get_leave_op(self, name: str = "leave_sync_replicas") -> Operation:
        """An operation for a worker that leaves: another one pushes in its stead.

        It may be run for a worker that died, too. Run it once for each that left.

        Raises:
          ValueError: `apply_gradients` was not called yet.
        """
        self._check_applied("get_leave_op()")
        with name_scope(name):
            return self._put_tokens(1)

    def _on_new_run(self, session: Any, fetched: list[Any]) -> None:
        """Lets a session that trains without hook and Supervisor leave at its good end."""
        if session not in self._led and _needs(fetched, self._train_op):
            self._leave_at_end(session)

    def _leave_at_end(self, session: Any) -> None:
        self._led.add(session)
        LastOperation(session, self._leave_op)

    def get_clean_up_op(self) -> Operation:
        """An operation for the chief that ends synchronous training for everybody.

        Workers that wait finish their step and can make one more, to see the last global step;
        after that they get OutOfRangeError.

        Raises:
          ValueError: `apply_gradients` was not called yet.
        """
        self._check_applied("get_clean_up_op()")
        runner = self.get_chief_queue_runner()
        operation: Operation = runner.cancel_op
        return operation

    def _make_end_op(self) -> Operation:
        """Ends training for everybody, but lets everybody get to the end of its loop."""
        others = self._total_num_replicas - 1
        with name_scope("end_sync_replicas"), device(self._global_step.device):
            tokens = [self._put_tokens(2 * others)] if others > 0 else []
            with control_dependencies(tokens):
                operation: Operation = self._sync_token_queue.close(cancel_pending_enqueues=True)
        return operation

    def _ask_accumulators(self, name: str, attribute: str, value: Any = True) -> list[Tensor]:
        """A question to every accumulator; which one, the attribute says."""
        answers = []
        with name_scope(name):
            for accumulator, place in self._accumulator_list:
                with device(place):
                    answer = accumulator.num_accumulated()
                answer.op._set_attr(attribute, value)
                answers.append(answer)
        return answers

    def _put_tokens(self, count: int) -> Operation:
        with device(self._global_step.device):
            tokens = array_fill.fill([count], self._read_global_step())
            operation: Operation = self._sync_token_queue.enqueue_many((tokens,))
            return operation

    def make_session_run_hook(self, is_chief: bool | str, num_tokens: int = -1) -> SessionRunHook:
        """A hook for monitored sessions that does all of this.

        Args:
          is_chief: Whether this worker closes the rounds. In a session whose chief is elected,
            the elected one does.
          num_tokens: As for `get_init_tokens_op`.
        """
        return SyncReplicasHook(self, is_chief, num_tokens)


def leave_at_end(session: Any) -> None:
    """Lets a worker leave the synchronous training of its graph, if there is one, at its good end.

    For sessions without the hook, which does it by itself.
    """
    for optimizer in session.graph.get_collection(_OPTIMIZERS):
        optimizer._leave_at_end(session)


def lead(session: Any) -> None:
    """Says that somebody sees to it that a session leaves, or ends the training, in good order."""
    for optimizer in session.graph.get_collection(_OPTIMIZERS):
        optimizer._led.add(session)


def _needs(fetched: list[Any], operation: Operation) -> bool:
    """Whether what is fetched cannot be had without an operation."""
    found: set[Operation] = set()
    waiting = [getattr(each, "op", each) for each in fetched]
    while waiting:
        each = waiting.pop()
        if each is operation:
            return True
        if each not in found:
            found.add(each)
            waiting += [tensor.op for tensor in each.inputs]
            waiting += each.control_inputs
    return False


class ChiefQueueRunner(QueueRunner):
    """Runs the chief's operation, which mostly waits.

    A coordinator that joins does not wait for this thread: nothing but the end of the session
    wakes it up when a gradient is missing. If the process ends although nobody stopped the
    coordinator, it closes the queue on its way out, so that workers do not wait for ever.

    Attributes:
      rounds: Numbers what it runs, where rounds outlive a parameter server.
    """

    rounds: Rounds | None = None

    def _enqueuing(self, session: Any, enqueue_op: Any) -> tuple[Callable[[], Any], Any]:
        enqueue, repeated = super()._enqueuing(session, enqueue_op)
        if self.rounds is None or not self.rounds.are_kept:
            return enqueue, repeated
        return functools.partial(self.rounds.close, enqueue), None

    def create_threads(
        self, sess: Any, coord: Any = None, daemon: bool = False, start: bool = False
    ) -> list[threading.Thread]:
        """As of any QueueRunner; the thread is always a daemon."""
        quiet = None if coord is None else _QuietCoordinator(coord)
        lead(sess)
        threads = super().create_threads(sess, quiet, daemon=True, start=start)
        if threads and self._cancel_op.type != "NoOp":
            LastOperation(sess, self._cancel_op)
        return threads


class _QuietCoordinator:
    """A coordinator as the chief's threads see it: it does not join the one that waits."""

    def __init__(self, coord: Any) -> None:
        self._coord = coord

    def register_thread(self, thread: threading.Thread) -> None:
        """Registers the thread that closes the queue, which must get the time to do it."""
        if thread.name.endswith("close_on_stop"):
            self._coord.register_thread(thread)

    def request_stop(self, error: Any = None) -> None:
        """Reports an error, unless it comes from the end itself."""
        if not self._coord.should_stop():
            self._coord.request_stop(error)

    def should_stop(self) -> bool:
        """Whether the coordinator stops."""
        return bool(self._coord.should_stop())

    def wait_for_stop(self) -> None:
        """Waits for the coordinator to stop."""
        self._coord.wait_for_stop()


class SyncReplicasHook(SessionRunHook):
    """Prepares synchronous training in a monitored session, and leaves it in good order."""

    def __init__(
        self, sync_optimizer: SyncReplicasOptimizer, is_chief: bool | str, num_tokens: int
    ) -> None:
        self.sync_optimizer = sync_optimizer
        self._is_chief = is_chief
        self.num_tokens = num_tokens

    def begin(self) -> None:
        """Makes the operations that are needed."""
        optimizer = self.sync_optimizer
        if not optimizer._gradients_applied:
            raise ValueError(
                "SyncReplicasOptimizer.apply_gradient should be called before using the hook."
            )
        self._init_tokens_op: Operation | None = None
        self._q_runner: ChiefQueueRunner | None = None
        self._rounds = Rounds(optimizer)
        self._return = Return(optimizer)
        self._has_begun = False
        if self._is_chief:
            self._local_init_op = optimizer.chief_init_op
            self._init_tokens_op = optimizer.get_init_tokens_op(self.num_tokens)
            self._old_tokens = old_tokens_of(optimizer)
            runner = optimizer.get_chief_queue_runner()
            # A coordinator also stops when a session is rebuilt, and then workers go on: the
            # queue is closed by `end` only.
            nothing = control_flow.no_op(name="keep_sync_token_q")
            self._q_runner = ChiefQueueRunner(
                runner.queue, runner.enqueue_ops, close_op=nothing, cancel_op=nothing
            )
            self._q_runner.rounds = optimizer._rounds = self._rounds
            self._end_op = optimizer.get_clean_up_op()
        else:
            self._local_init_op = optimizer.local_step_init_op
            self._end_op = optimizer.get_leave_op()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs what initializes synchronous training."""
        lead(session)
        check_ready(session, self.sync_optimizer, self._local_init_op)
        are_kept = self._rounds.ask(session)
        go_on = not self._is_chief or (are_kept and live_model.is_adopted(session))
        # A step of this process that is repeated is known by its number where rounds are kept.
        if go_on and not (self._has_begun and are_kept):
            self._return.announce(session)
        self._has_begun = True
        is_first = not go_on and self._rounds.begin_first(session)
        if go_on or is_first:
            session.run(self.sync_optimizer.local_step_init_op)
        else:
            session.run(self._local_init_op)
            drop_old_tokens(session, self._old_tokens)
        if not go_on and self._init_tokens_op is not None:
            session.run(self._init_tokens_op)
        if self._is_chief and are_kept:
            self._rounds.go_on(session)
        if self._q_runner is not None:
            self._q_runner.create_threads(session, coord=coord, daemon=True, start=True)

    def end(self, session: Any) -> None:
        """Hands this worker's part over to the others; the chief ends the training."""
        try:
            session.run(self._end_op)
        except (errors.OpError, RuntimeError) as error:
            # The chief may have closed the queue before: then there is nothing to hand over.
            logging.info("Left synchronous training without a word: %s", error)


class Return:
    """A worker begins, for the first time or because its step failed or its process died."""

    def __init__(self, optimizer: SyncReplicasOptimizer) -> None:
        """Adds the operations to the graph."""
        self._repeats: list[Tensor] = []
        if optimizer._contributor:
            self._repeats = optimizer._ask_accumulators(
                "return_to_sync_replicas", CONTRIBUTOR, optimizer._contributor.encode()
            )
            self._token_op = optimizer.get_leave_op("token_of_failed_step")

    def announce(self, session: Any) -> None:
        """Has accumulators drop the gradients that they have already.

        A push that is dropped cannot fill a round, and the step before it may have taken a token:
        so one is put back, lest a round want for it. One too many does no harm.
        """
        if self._repeats and any(session.run(self._repeats)):
            session.run(self._token_op)


class WholeRound:
    """Whether rounds were applied on every ps task or on none.

    It is a predicate of sessions for `live_model`: a chief that finds the model as it left it may
    have been interrupted between two ps tasks.
    """

    def __init__(self, optimizer: SyncReplicasOptimizer) -> None:
        """Adds the operations to the graph."""
        self._optimizer = optimizer
        self._steps = optimizer._ask_accumulators("steps_of_sync_replicas", TELLS_STEP)
        self._global_step = optimizer._global_step
        self._steps[0].graph.add_to_collection(live_model.CHECKS, self)

    def __call__(self, session: Any) -> bool:
        """Whether it is so, in a session; tells the log if not."""
        rounds = self._optimizer._rounds
        if rounds is not None and rounds.ask(session):
            return True  # What is missing of a round will be applied.
        global_step, answers = session.run([self._global_step, self._steps])
        # A task of TensorFlow answers with a count, which is not negative.
        ahead = [answer for answer in answers if answer < 0 and -1 - answer > global_step]
        if ahead:
            logging.warning(
                "The round of step %d was applied to %d of %d variables when the chief was "
                "interrupted.",
                global_step,
                len(ahead),
                len(answers),
            )
        return not ahead


def _same(gradient: Any) -> Any:
    """A gradient, dense or sparse, that comes after the control dependencies of now."""
    if isinstance(gradient, IndexedSlices):
        rows = array_identity.identity(gradient.values)
        indices = array_identity.identity(gradient.indices)
        return IndexedSlices(rows, indices, gradient.dense_shape)
    return array_identity.identity(gradient)


def _task_of(device_name: str) -> str:
    spec = DeviceSpec.from_string(device_name or "")
    if spec.job is None or spec.task is None:
        return ""
    return f"/job:{spec.job}/task:{spec.task}"


def check_ready(session: Any, optimizer: SyncReplicasOptimizer, init_op: Operation) -> None:
    """Checks that all variables have values.

    Raises:
      RuntimeError: Some have not; it names them.
    """
    missing = session.run(optimizer.ready_for_local_init_op)
    if len(missing):
        names = ", ".join(name.decode() for name in missing)
        raise RuntimeError(
            "Init operations did not make model ready for SyncReplicasOptimizer local_init. "
            f"Init op: {init_op.name}, error: Variables not initialized: {names}"
        )


def old_tokens_of(optimizer: SyncReplicasOptimizer) -> Tensor:
    """The tokens that are in the queue now; to fetch them takes them out."""
    queue = optimizer._sync_token_queue
    assert queue is not None
    with device(queue.queue_ref.device):
        tokens: Tensor = queue.dequeue_up_to(queue.size())
    # A worker may take one after they were counted.
    tokens.op._set_attr(IF_PRESENT, True)
    return tokens


def drop_old_tokens(session: Any, old_tokens: Tensor) -> None:
    """Takes out the tokens of a session before this one.

    After a restore they would be of steps that never were; and the first tokens are put in again,
    so that there are enough in any case. (A task of TensorFlow's waits if there are fewer now than
    there were a moment ago: not for long.)
    """
    try:
        session.run(old_tokens, options=RunOptions(timeout_in_ms=_TOKENS_MILLISECONDS))
    except errors.DeadlineExceededError:
        logging.vlog(1, "A worker has taken a token meanwhile.")
