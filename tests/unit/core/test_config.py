"""The messages: what TensorFlow serialized is read here, and the other way round."""

import pytest

from millrace.core import config
from millrace.core.tensor_proto import make_ndarray


@pytest.mark.parametrize("name", config.__all__)
def test_each_promised_name_exists(name):
    assert hasattr(config, name)


def test_a_config_that_tensorflow_serialized_is_read():
    # tf.ConfigProto(allow_soft_placement=True, log_device_placement=True, device_count={"CPU": 2},
    #   operation_timeout_in_ms=500, device_filters=["/job:ps"]).SerializeToString() of 2.21
    data = bytes.fromhex("0a070a03435055100222072f6a6f623a70733801400158f403")
    message = config.ConfigProto.FromString(data)
    assert message.allow_soft_placement
    assert message.log_device_placement
    assert dict(message.device_count) == {"CPU": 2}
    assert message.operation_timeout_in_ms == 500
    assert list(message.device_filters) == ["/job:ps"]


def test_a_graph_that_tensorflow_serialized_is_read_and_written_back():
    # with tf.device("/job:ps/cpu:0"): tf.constant([1.5, 2], name="c")
    data = bytes.fromhex(
        "0a4c0a01631205436f6e737422142f6a6f623a70732f6465766963653a4350553a302a0b0a05647479706512"
        "0230012a1d0a0576616c756512144212080112041202080222080000c03f000000401200220308aa13"
    )
    graph = config.GraphDef.FromString(data)
    (node,) = graph.node
    assert (node.name, node.op, node.device) == ("c", "Const", "/job:ps/device:CPU:0")
    assert node.attr["dtype"].type == 1
    assert make_ndarray(node.attr["value"].tensor).tolist() == [1.5, 2.0]
    assert graph.SerializeToString(deterministic=True) == data
