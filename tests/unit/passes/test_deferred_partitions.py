"""Which partitions begin with what the master's task sends them, and which immediately."""

import millrace as tf
from millrace.passes import pipeline
from millrace.passes.node import Setting
from millrace.passes.partitions import split
from millrace.passes.prune import prune
from millrace.passes.transfer import RECEIVE, SEND

PS, PS1, HOME, OTHER = "/job:ps", "/job:ps1", "/job:worker", "/job:other"


def cut(*wanted):
    targets = [each for each in wanted if isinstance(each, tf.Operation)]
    fetches = [each for each in wanted if not isinstance(each, tf.Operation)]
    program = prune(fetches, targets, [])
    for node in program.nodes:
        node.device = node.device or HOME
    cutting = pipeline.CLUSTER[pipeline.CLUSTER.index(pipeline.detach_constants) :]
    return split(pipeline.run(cutting, program.with_setting(Setting(home=HOME))))


def variable(name, device=PS):
    with tf.device(device):
        return tf.Variable(1.0, name=name)


def update(variable, amount, device=PS):
    with tf.device(device):
        return tf.assign_sub(variable, amount).op


def requested(part):
    return [
        node.attrs["key"]
        for node in part.program.nodes
        if node.definition is SEND and node.attrs["on_request"]
    ]


def key_of_receive(part, source):
    (found,) = (
        node.attrs["key"]
        for node in part.program.nodes
        if node.definition is RECEIVE and node.attrs["source"].decode() == source
    )
    return found


def test_an_update_begins_with_the_gradient_and_its_variable_is_sent_on_request():
    v = variable("v")
    with tf.device(HOME):
        gradient = v * 2.0
    parts = cut(update(v, gradient))
    ps = parts[PS]
    assert ps.first_key == key_of_receive(ps, HOME)
    assert ps.read_keys == requested(ps) == [key_of_receive(parts[HOME], PS)]


def test_each_ps_begins_with_its_own_gradient():
    v, w = variable("v"), variable("w", PS1)
    with tf.device(HOME):
        gradient = v * w
    parts = cut(update(v, gradient), update(w, gradient, PS1))
    for task in (PS, PS1):
        assert parts[task].first_key == key_of_receive(parts[task], HOME)
        assert len(parts[task].read_keys) == 1


def test_a_part_that_hears_nothing_from_home_begins_at_once():
    v = variable("v")
    parts = cut(update(v, 1.0))
    assert parts[PS].first_key is None and parts[PS].read_keys == []


def test_a_part_that_waits_by_itself_begins_at_once():
    v = variable("v")
    with tf.device(PS):
        token = tf.FIFOQueue(1, tf.float32).dequeue()
    with tf.device(HOME):
        gradient = v + token
    parts = cut(update(v, gradient))
    assert parts[PS].first_key is None and requested(parts[PS]) == []


def test_a_part_whose_value_another_task_needs_begins_at_once():
    v, w = variable("v"), variable("w", PS1)
    with tf.device(PS1):
        mixed = v + w
    with tf.device(HOME):
        gradient = mixed * 2.0
    parts = cut(update(v, gradient))
    assert parts[PS].first_key is None and requested(parts[PS]) == []


def test_a_variable_that_is_sent_after_an_update_is_not_sent_on_request():
    v = variable("v")
    with tf.device(PS):
        new = tf.assign_add(v, 1.0)
    with tf.device(HOME):
        gradient = new * 2.0
    parts = cut(update(v, gradient))
    assert parts[PS].first_key is None and requested(parts[PS]) == []


def test_a_part_that_only_computes_with_what_home_sends_begins_with_it():
    with tf.device(HOME):
        x = tf.placeholder_with_default(1.0, [])
        y = x + 1.0
    with tf.device(OTHER):
        z = y * 2.0
    parts = cut(z)
    assert parts[OTHER].first_key == key_of_receive(parts[OTHER], HOME)
    assert parts[OTHER].read_keys == []


def test_variables_that_another_ps_updates_with_do_not_keep_a_part_from_beginning_late():
    v, w, rate = variable("v"), variable("w", PS1), variable("rate")
    with tf.device(HOME):
        gradient = v * w
    with tf.device(PS1):
        scaled = gradient * rate
    parts = cut(update(v, gradient), update(w, scaled, PS1))
    for task in (PS, PS1):
        assert parts[task].first_key == key_of_receive(parts[task], HOME)
    assert len(parts[PS].read_keys) == len(parts[PS1].read_keys) == 1


def test_what_waits_for_an_answer_to_the_first_message_comes_after_it():
    v, w = variable("v"), variable("w")
    with tf.device(HOME):
        asked = tf.random_uniform([])
    with tf.device(PS):
        answer = v * asked
    with tf.device(HOME):
        gradient = answer * 2.0
    parts = cut(update(v, gradient), update(w, gradient))
    first = next(
        node.attrs["key"]
        for node in parts[HOME].program.nodes
        if node.definition is SEND and node.inputs[0].node.type == "RandomUniform"
    )
    assert parts[PS].first_key == first
