"""What belongs to a session, and what sessions of one task share."""

import pytest

import millrace as tf
from millrace.ops.data_flow.queue_kernels import Queue
from millrace.runtime.resources import ResourceStore
from millrace.runtime.step import SessionState


def session_on(store, graph):
    """A session whose resources are in a store that others use too, as in a server."""
    session = tf.Session(graph=graph)
    session._backend.state = SessionState(store)
    return session


def test_a_session_that_ends_drops_its_own_queues_and_no_others(graph, background, until):
    store = ResourceStore()
    own = tf.FIFOQueue(3, tf.int32)
    shared = tf.FIFOQueue(3, tf.int32, shared_name="shared")
    enqueue, dequeue, size = shared.enqueue(1), own.dequeue(), shared.size()
    one, two = session_on(store, graph), session_on(store, graph)
    one.run(enqueue)
    waiting = background(lambda: one.run(dequeue))
    until(lambda: any(queue.state._dequeues for *_, queue in store.all_of(Queue)))
    two.run(own.size())
    assert len(store.all_of(Queue)) == 3
    one._backend.state.close()
    with pytest.raises(tf.errors.CancelledError, match="was removed"):
        waiting.result()
    assert len(store.all_of(Queue)) == 2
    assert two.run(size) == 1
    two._backend.state.close()
    assert [name for _, name, _ in store.all_of(Queue)] == ["shared"]
