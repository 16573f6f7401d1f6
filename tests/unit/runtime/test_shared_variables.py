"""Steps that read variables while other steps update them in place."""

from __future__ import annotations

import threading

import numpy as np

import millrace as tf


def test_readers_never_meet_a_buffer_that_a_writer_took() -> None:
    with tf.Graph().as_default():
        variable = tf.Variable(np.zeros(20_000, np.float32))
        other = tf.Variable(0.0)
        update = variable.assign_add(tf.ones([20_000]))
        spread = tf.reduce_max(variable) - tf.reduce_min(variable) + other
        as_text = tf.py_func(lambda v: v.max() - v.min(), [variable], tf.float32)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            spreads: list[float] = []
            failures: list[BaseException] = []

            def repeat(fetch: object, times: int) -> None:
                try:
                    for _ in range(times):
                        value = session.run(fetch)
                        if np.ndim(value) == 0:
                            spreads.append(float(value))
                except BaseException as error:
                    failures.append(error)

            threads = [
                threading.Thread(target=repeat, args=(fetch, 150))
                for fetch in (update, update, spread, spread, as_text)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert not failures
            assert set(spreads) == {0.0}
            assert session.run(variable)[0] == 300
