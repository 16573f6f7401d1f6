"""Conditionals, loops and functions, in the forms that TensorFlow's clients send."""

import contextlib

import numpy as np
import sites
import tensorflow.compat.v1 as tf


@contextlib.contextmanager
def _functional():
    """Builds If, While and their kin instead of Switch, Merge, Enter and Exit."""
    tf.enable_control_flow_v2()
    try:
        yield
    finally:
        tf.disable_control_flow_v2()


def _both(name, function):
    sites.named_case(f"{name}_of_v1", function)

    def functional(site):
        with _functional():
            return function(site)

    sites.named_case(f"{name}_of_v2", functional)


def _cond(site):
    with site.worker():
        x = tf.placeholder(tf.float32, [])
        y = tf.cond(x > 0, lambda: tf.sqrt(x), lambda: -2.0 * x)
        slope = tf.gradients(y, x)[0]
    with site.session() as sess:
        return [sess.run([y, slope], {x: value}) for value in (4.0, -3.0)]


_both("cond", _cond)


def _cond_over_tasks(site):
    """Each branch on a task of its own, what they read on a third, the condition on a fourth."""
    with site.ps(0):
        v = tf.get_variable("cond_v", initializer=[1.0, 2.0])
    with site.ps(1):
        x = tf.placeholder(tf.float32, [])
        positive = x > 0

    def left():
        with site.worker(1):
            return tf.reduce_sum(v) * x, tf.constant("left")

    def right():
        with site.ps(1):
            return tf.reduce_prod(v) - x, tf.constant("right")

    with site.worker():
        y, side = tf.cond(positive, left, right)
        z = y + 1.0
        slope = tf.gradients(z, v)[0]
    with site.session() as sess:
        sess.run(tf.global_variables_initializer())
        return [sess.run([z, side, slope], {x: value}) for value in (4.0, -3.0, 5.0)]


_both("cond_over_tasks", _cond_over_tasks)


def _cond_that_assigns(site):
    """Variables of two tasks, each written by one of the branches only."""
    with site.ps(0):
        a = tf.get_variable("a", initializer=1.0)
    with site.ps(1):
        b = tf.get_variable("b", initializer=10.0)
    with site.worker():
        x = tf.placeholder(tf.bool, [])

        def left():
            with tf.control_dependencies([tf.assign_add(a, 1.0)]):
                return tf.constant(1)

        def right():
            with tf.control_dependencies([tf.assign_add(b, 2.0)]):
                return tf.constant(2)

        y = tf.cond(x, left, right)
    found = []
    with site.session() as sess:
        sess.run(tf.global_variables_initializer())
        for value in (True, False, False):
            found.append(sess.run(y, {x: value}))
            found.append(sess.run([a, b]))
    return found


sites.named_case("cond_that_assigns_of_v1", _cond_that_assigns)


def _cond_on_a_resource(site):
    """Both branches use a variable of another task, one of them to write; with its gradient."""
    with site.ps(1):
        v = tf.get_variable("resource_v", initializer=[1.0, 2.0], use_resource=True)
    with site.worker():
        x = tf.placeholder(tf.float32, [])
        read = tf.cond(x > 0, lambda: v.read_value() * x, lambda: v.read_value() - 1.0)
        slope = tf.gradients(read, v)[0]
        written = tf.cond(
            x > 0, lambda: tf.identity(v.assign_add([x, x])), lambda: tf.identity(v.read_value())
        )
    found = []
    with site.session() as sess:
        sess.run(tf.global_variables_initializer())
        for value in (2.0, -3.0, 5.0):
            found += [sess.run([read, slope], {x: value}), sess.run(written, {x: value})]
            found.append(sess.run(v))
    return found


_both("cond_on_a_resource", _cond_on_a_resource)


def _nested_cond(site):
    with site.worker():
        x = tf.placeholder(tf.int32, [])
        y = tf.case(
            [
                (x < 0, lambda: tf.constant("negative")),
                (tf.equal(x, 0), lambda: tf.constant("zero")),
                (x < 10, lambda: tf.cond(x % 2 > 0, lambda: tf.constant("odd"), _even)),
            ],
            default=lambda: tf.constant("large"),
        )
    with site.session() as sess:
        return [sess.run(y, {x: value}) for value in (-1, 0, 3, 4, 99)]


def _even():
    return tf.constant("even")


_both("nested_cond", _nested_cond)


def _while_loop(site):
    with site.worker():
        n = tf.placeholder(tf.int32, [])
        w = tf.constant([[0.5, 0.1], [0.2, 0.3]])
        i, x = tf.while_loop(
            lambda i, x: i < n, lambda i, x: (i + 1, tf.matmul(x, w) + 1.0), (0, tf.ones([1, 2]))
        )
        slope = tf.gradients(x, w)[0]
    with site.session() as sess:
        return [sess.run([i, x, slope], {n: value}) for value in (5, 1, 0, 30)]


_both("while_loop", _while_loop)


def _while_over_tasks(site):
    """The weight on a ps, the body on two workers: values cross in every iteration."""
    with site.ps(0):
        w = tf.get_variable("while_w", initializer=[[0.5, 0.1], [0.2, 0.3]])
    with site.worker(0):
        n = tf.placeholder(tf.int32, [])

        def body(i, x):
            with site.worker(1):
                y = tf.matmul(x, w)
            with site.worker(0):
                return i + 1, y + 1.0

        i, x = tf.while_loop(lambda i, x: i < n, body, (0, tf.ones([1, 2])))
        loss = tf.reduce_sum(x)
        train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    found = []
    with site.session() as sess:
        sess.run(tf.global_variables_initializer())
        for value in (5, 1, 0, 5):
            # With the update in the same run, TensorFlow gives either of two losses.
            found.append(sess.run([i, loss], {n: value}))
            sess.run(train, {n: value})
            found.append(sess.run(w))
    return found


_both("while_over_tasks", _while_over_tasks)


def _while_that_assigns(site):
    with site.ps(0):
        total = tf.get_variable("total", initializer=0.0)
    with site.worker():

        def body(i):
            with tf.control_dependencies([tf.assign_add(total, tf.cast(i, tf.float32))]):
                return i + 1

        i = tf.while_loop(lambda i: i < 10, body, [0], parallel_iterations=1)
    with site.session() as sess:
        sess.run(tf.global_variables_initializer())
        return sess.run(i), sess.run(total)


sites.named_case("while_that_assigns_of_v1", _while_that_assigns)


def _nested_while(site):
    with site.worker():
        n = tf.placeholder(tf.int32, [])
        x = tf.placeholder(tf.float32, [])

        def outer(i, total):
            def inner(j, part):
                grown = tf.cond(tf.equal(j % 2, 0), lambda: part * x, lambda: part + x)
                return j + 1, grown

            _, part = tf.while_loop(lambda j, _: j < i, inner, (0, 1.0))
            return i + 1, total + part

        _, total = tf.while_loop(lambda i, _: i < n, outer, (0, 0.0))
        slope = tf.gradients(total, x)[0]
    with site.session() as sess:
        return [sess.run([total, slope], {n: value, x: 0.5}) for value in (4, 0, 6)]


_both("nested_while", _nested_while)


def _map_and_scan(site):
    with site.worker(1):
        x = tf.placeholder(tf.float32, [None, 2])
        squares = tf.map_fn(lambda row: tf.reduce_sum(row * row), x)
        sums = tf.scan(lambda total, row: total * 0.5 + row, x)
        folded = tf.foldl(lambda total, row: total + row[0] * row[1], x, 0.0)
        slope = tf.gradients([squares, sums, folded], x)[0]
    with site.session() as sess:
        value = np.arange(6, dtype=np.float32).reshape(3, 2)
        return sess.run([squares, sums, folded, slope], {x: value})


_both("map_and_scan", _map_and_scan)


def _tensor_array(site):
    with site.worker():
        n = tf.placeholder(tf.int32, [])
        array = tf.TensorArray(tf.float32, n, clear_after_read=False)

        def body(i, array):
            return i + 1, array.write(i, tf.fill([2], tf.cast(i * i, tf.float32)))

        _, array = tf.while_loop(lambda i, _: i < n, body, (0, array))
        stacked = array.stack()
        picked = tf.gather(stacked, [0, 2])
    with site.session() as sess:
        return sess.run([stacked, picked], {n: 4})


_both("tensor_array", _tensor_array)


@sites.case
def functions_of_v2(site):
    @tf.function
    def polynomial(x, y):
        return x * x + 3.0 * y

    with site.worker():
        x = tf.placeholder(tf.float32, [2])
        y = polynomial(x, tf.constant([1.0, 2.0]))
        slope = tf.gradients(y, x)[0]
    with site.session() as sess:
        return sess.run([y, slope], {x: [1.0, -4.0]})


@sites.case
def functions_that_read_and_write_variables(site):
    with site.ps():
        v = tf.get_variable("fv", initializer=[1.0, 2.0], use_resource=True)

        @tf.function
        def grow(x):
            v.assign_add(x)
            return tf.reduce_sum(v)

        y = grow(tf.constant([1.0, 1.0]))
    with site.session() as sess:
        sess.run(tf.global_variables_initializer())
        return [sess.run(y), sess.run(y), sess.run(v)]


@sites.case
def autograph_function(site):
    @tf.function
    def collatz(n):
        steps = 0
        while n > 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        return steps

    with site.worker():
        n = tf.placeholder(tf.int32, [])
        steps = collatz(n)
    with site.session() as sess:
        return [sess.run(steps, {n: value}) for value in (1, 7, 27)]


@sites.case
def old_functions(site):
    from tensorflow.python.framework import function

    @function.Defun(tf.float32, tf.float32)
    def mix(x, y):
        return x * y + tf.sin(x)

    with site.worker(1):
        x = tf.placeholder(tf.float32, [3])
        y = mix(x, tf.constant([1.0, 2.0, 3.0]))
        slope = tf.gradients(y, x)[0]
    with site.session() as sess:
        return sess.run([y, slope], {x: [0.5, 1.0, 1.5]})


@sites.case
def dead_values_do_not_leave_a_branch(site):
    """A value of a branch that was not taken is fetched: an error, as in TensorFlow."""
    with site.worker():
        x = tf.placeholder(tf.bool, [])
        off, on = tf.raw_ops.Switch(data=tf.constant(5.0), pred=x)
        off_more = off + 1.0
        on_more = on + 2.0
        merged, index = tf.raw_ops.Merge(inputs=[off_more, on_more])
    with site.session() as sess:
        kind, _ = sites.raised(lambda: sess.run(off_more, {x: True}))
        return [kind.__name__, sess.run([merged, index], {x: True}), sess.run(merged, {x: False})]


if __name__ == "__main__":
    sites.main()
