"""What a plan knows of itself before it runs."""

import millrace as tf
from millrace.passes.prune import prune
from millrace.runtime.planning import plan_of


def test_a_plan_is_quick_when_nothing_in_it_holds_a_thread_for_long():
    def plan(*fetches):
        return plan_of(prune(list(fetches), [], []))

    accumulator = tf.ConditionalAccumulator(tf.float32, [3])
    queue = tf.FIFOQueue(3, [tf.float32])
    assert plan(accumulator.num_accumulated(), accumulator.take_grad(1)).is_quick
    assert plan(queue.dequeue() + 1.0, queue.size()).is_quick
    assert not plan(tf.read_file("/dev/null")).is_quick
    assert not plan(tf.py_func(lambda: 1.0, [], tf.float64)).is_quick
