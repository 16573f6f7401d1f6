"""Loops whose bodies have state on several tasks."""

import functools

import sites
import tensorflow.compat.v1 as tf


def _variables(site, resource):
    with site.ps(0):
        v = tf.get_variable("v", initializer=0.0, use_resource=resource)
    with site.ps(1):
        w = tf.get_variable("w", initializer=1.0, use_resource=resource)
    return v, w


def _writes(site, resource):
    v, w = _variables(site, resource)
    with site.worker(0):
        n = tf.placeholder(tf.int32, [])

        def body(i, x):
            grown = tf.assign_add(v, tf.cast(i, tf.float32))
            with tf.control_dependencies([grown]):
                grown = tf.assign_add(w, v.read_value())
            with tf.control_dependencies([grown]):
                return i + 1, x + w.read_value()

        i, x = tf.while_loop(lambda i, x: i < n, body, (0, 0.0), parallel_iterations=1)
    found = []
    with site.session() as sess:
        sess.run(tf.global_variables_initializer())
        for count in (6, 0, 1):
            found.append([sess.run([i, x], {n: count}), sess.run([v, w])])
    return found


def _gradient(site, resource):
    """Weights on two ps, each read in every iteration, where it is; the gradient is a loop too."""
    with site.ps(0):
        a = tf.get_variable("a", initializer=[[0.5, 0.1], [0.2, 0.3]], use_resource=resource)
    with site.ps(1):
        b = tf.get_variable("b", initializer=[0.1, -0.2], use_resource=resource)
    with site.worker(0):
        n = tf.placeholder(tf.int32, [])

        def body(i, x):
            with site.ps(0):
                y = tf.matmul(x, a.read_value())
            with site.ps(1):
                y = tf.tanh(y + b.read_value())
            return i + 1, y

        _, x = tf.while_loop(lambda i, _: i < n, body, (0, tf.ones([1, 2])))
        loss = tf.reduce_sum(tf.square(x))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    found = []
    with site.session() as sess:
        sess.run(tf.global_variables_initializer())
        for count in (3, 1, 0, 4):
            found.append(sess.run(loss, {n: count}))
            sess.run(train, {n: count})
            found.append(sess.run([a, b]))
    return found


def _nested(site, resource):
    v, w = _variables(site, resource)
    with site.worker(1):
        n = tf.placeholder(tf.int32, [])

        def outer(i, total):
            def inner(j, part):
                with tf.control_dependencies([tf.assign_add(v, 1.0)]):
                    return j + 1, part + v.read_value()

            _, part = tf.while_loop(
                lambda j, _: j < i, inner, (0, 0.0), parallel_iterations=1, name="inner"
            )
            with tf.control_dependencies([tf.assign_add(w, part)]):
                return i + 1, total + w.read_value()

        _, total = tf.while_loop(lambda i, _: i < n, outer, (0, 0.0), parallel_iterations=1)
    found = []
    with site.session() as sess:
        sess.run(tf.global_variables_initializer())
        for count in (4, 0):
            found.append([sess.run(total, {n: count}), sess.run([v, w])])
    return found


def _in_a_branch(site, resource):
    v, w = _variables(site, resource)
    with site.worker(0):
        x = tf.placeholder(tf.float32, [])

        def loop():
            def body(i, y):
                with tf.control_dependencies([tf.assign_add(v, y), tf.assign_add(w, x)]):
                    return i + 1, y + 1.0

            return tf.while_loop(lambda i, _: i < 3, body, (0, x), parallel_iterations=1)[1]

        y = tf.cond(x > 0, loop, lambda: x - 100.0)
    found = []
    with site.session() as sess:
        sess.run(tf.global_variables_initializer())
        for value in (2.0, -1.0, 3.0):
            found.append([sess.run(y, {x: value}), sess.run([v, w])])
    return found


for _name, _function in (
    ("writes", _writes),
    ("gradient", _gradient),
    ("nested", _nested),
    ("in_a_branch", _in_a_branch),
):
    for _kind in ("ref", "resource"):
        sites.named_case(
            f"{_name}_{_kind}", functools.partial(_function, resource=_kind == "resource")
        )


@sites.case
def queues_of_two_tasks(site):
    """Each iteration takes from a queue of one ps and puts into a queue of the other."""
    with site.ps(0):
        source = tf.FIFOQueue(10, [tf.float32], shapes=[[]], name="split_source")
        fill = source.enqueue_many([[1.0, 2.0, 3.0, 4.0]])
    with site.ps(1):
        sink = tf.FIFOQueue(10, [tf.float32], shapes=[[]], name="split_sink")
        empty = sink.dequeue_many(4)
    with site.worker(0):

        def body(i, total):
            x = source.dequeue()
            with tf.control_dependencies([sink.enqueue(x * x)]):
                return i + 1, total + x

        _, total = tf.while_loop(lambda i, _: i < 4, body, (0, 0.0), parallel_iterations=1)
    with site.session() as sess:
        sess.run(fill)
        return sess.run(total), sess.run(empty)


@sites.case
def an_error_in_an_iteration(site):
    v, w = _variables(site, True)
    with site.worker(0):

        def body(i):
            fine = tf.debugging.assert_less(v.read_value(), 5.0, message="v has grown")
            with tf.control_dependencies([fine]):
                grown = tf.assign_add(v, tf.cast(i, tf.float32))
            with tf.control_dependencies([grown]):
                grown = tf.assign_add(w, 1.0)
            with tf.control_dependencies([grown]):
                return i + 1

        i = tf.while_loop(lambda i: i < 100, body, [0], parallel_iterations=1)
    with site.session() as sess:
        sess.run(tf.global_variables_initializer())
        kind, text = sites.raised(lambda: sess.run(i))
        return kind.__name__, "v has grown" in text, sess.run([v, w])


if __name__ == "__main__":
    sites.main()
