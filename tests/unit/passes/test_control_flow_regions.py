"""Regions of TensorFlow 1.x control flow become one node each; what is outside stays outside."""

from __future__ import annotations

import numpy as np

import millrace as tf
from millrace.passes.frames import REGION, control_flow_regions
from millrace.passes.prune import prune
from tests.cluster.test_split_loops import Builder


def looped():
    build = Builder()
    build.device = ""
    build.constant("start", np.int32(0))
    build.constant("limit", np.int32(3))
    build.count("i", "loop", "start", "limit")
    build.done()
    return tf.get_default_graph().get_tensor_by_name("i/exit:0")


def test_a_loop_is_one_node_between_what_comes_before_and_after():
    ended = looped()
    fetched = tf.negative(ended, name="after")
    program = control_flow_regions(prune([fetched], [], []))
    (region,) = (node for node in program.nodes if node.definition is REGION)
    assert {"i/merge", "i/switch", "i/exit"} <= {n.name for n in region.attrs["region"].nodes}
    (after,) = (node for node in program.nodes if node.name == "after")
    assert [edge.node for edge in after.inputs] == [region]
    assert not any(node.type in ("Merge", "Switch", "Enter") for node in program.nodes)


def test_the_program_that_was_given_still_has_its_loop():
    given = prune([looped()], [], [])
    control_flow_regions(given)
    assert {"Merge", "Switch", "Enter", "Exit"} <= {node.type for node in given.nodes}


def test_a_program_without_such_control_flow_is_returned_as_it_is():
    given = prune([tf.placeholder_with_default(1.0, []) + 1.0], [], [])
    assert control_flow_regions(given) is given
