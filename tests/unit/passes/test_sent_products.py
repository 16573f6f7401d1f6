"""Which matrix products are made in the message that sends them."""

import millrace as tf
from millrace.passes.partition import partition
from millrace.passes.prune import prune
from millrace.passes.sent_products import sent_products
from millrace.passes.transfer import SEND

PS, PS1, WORKER = "/job:ps", "/job:ps1", "/job:worker"


def on_worker(fetches=(), targets=()):
    """The worker's program, and the names of the products that it only sends."""
    program = prune(list(fetches), list(targets), [])
    for node in program.nodes:
        node.device = node.device or WORKER
    parts = partition(program, lambda device: device.partition("/device:")[0], WORKER)
    part = parts[WORKER].program
    return part, sorted(node.name for node in sent_products(part))


def product(name="product", rows=200, columns=200, dtype=tf.float32):
    with tf.device(WORKER):
        left = tf.placeholder_with_default(tf.zeros([5, rows], dtype), [5, rows])
        right = tf.placeholder_with_default(tf.zeros([5, columns], dtype), [5, columns])
        return tf.matmul(left, right, transpose_a=True, name=name)


def used_on_ps(value, device=PS):
    with tf.device(device):
        return tf.reduce_sum(value)


def test_a_product_that_is_only_sent_is_found():
    assert on_worker([used_on_ps(product())])[1] == ["product"]


def test_a_gradient_that_waits_for_the_others_is_found_and_its_send_waits_instead():
    with tf.device(WORKER):
        weights, bias = tf.tuple([product(), tf.zeros([200]) + 1.0])
    with tf.device(PS):
        total = tf.reduce_sum(weights) + tf.reduce_sum(bias)
    program, found = on_worker([total])
    assert found == ["product"]
    (send,) = (node for node in program.nodes if node.definition is SEND)
    assert "product" in [edge.node.name for edge in send.inputs]
    assert send.controls  # what the Identity waited for
    assert all("product" not in [c.name for c in node.controls] for node in program.nodes)


def gradients_of_two_layers():
    """Of the weights, as TensorFlow groups them: those of a layer wait for each other."""
    with tf.device(WORKER):
        x = tf.placeholder_with_default(tf.zeros([5, 200]), [None, 200])
        inner = tf.nn.relu(tf.matmul(x, tf.zeros([200, 300]) + 1.0, name="first"))
        weights = tf.zeros([300, 200]) + 1.0
        loss = tf.reduce_sum(tf.matmul(inner, weights, name="second") ** 2.0)
        (of_inner,) = tf.gradients(loss, [inner])
        of_outer = tf.gradients(loss, [weights, inner], name="outer")[0]
        of_first = tf.matmul(x, of_inner, transpose_a=True, name="of_first")
    return of_outer, of_first


def test_a_gradient_is_found_that_those_of_earlier_layers_wait_for():
    outer, first = gradients_of_two_layers()
    program, found = on_worker([used_on_ps(outer), used_on_ps(first, PS1)])
    assert found == ["of_first", "outer/second_grad/MatMul_1"]
    sends = {node.inputs[0].node.name: node for node in program.nodes if node.definition is SEND}
    assert sorted(sends) == found
    assert not any(
        control.name in found
        for node in program.nodes
        if node.definition is not SEND
        for control in node.controls
    )


def test_other_sends_still_wait_for_a_product():
    with tf.device(WORKER):
        weights, bias = tf.tuple([product(), tf.zeros([200]) + 1.0])
        bias = bias * 2.0
    program, found = on_worker([used_on_ps(weights), used_on_ps(bias, PS1)])
    assert found == ["product"]
    (other,) = (n for n in program.nodes if n.definition is SEND and n.attrs["to"] == PS1.encode())
    assert "product" in [control.name for control in other.controls]


def test_a_product_that_is_fetched_too_is_not():
    made = product()
    assert on_worker([used_on_ps(made), made])[1] == []


def test_a_product_that_goes_on_where_it_is_made_is_not():
    made = product()
    with tf.device(WORKER):
        more = made + 1.0
    assert on_worker([used_on_ps(made), more])[1] == []


def test_a_product_for_two_tasks_is_not():
    made = product()
    assert on_worker([used_on_ps(made), used_on_ps(made, PS1)])[1] == []


def test_a_product_that_something_else_waits_for_is_not():
    made = product()
    with tf.device(WORKER), tf.control_dependencies([made]):
        counted = tf.assign_add(tf.Variable(1.0, name="count"), 1.0)
    assert on_worker([used_on_ps(made)], [counted.op])[1] == []


def test_small_products_and_other_types_are_not():
    small, half = product("small", 10, 10), product("half", dtype=tf.bfloat16)
    with tf.device(WORKER):
        unknown = tf.placeholder_with_default(tf.zeros([5, 5]), None)
        sizes = tf.matmul(unknown, unknown)
    assert on_worker([used_on_ps(each) for each in (small, half, sizes)])[1] == []
