"""Functions that call functions: a few of them may stand for a graph without end."""

import pytest

import millrace as tf
from millrace.core import errors
from millrace.rpc import service_messages
from millrace.rpc.security import Security
from millrace.rpc.service import Connection
from tests.cluster.security.conftest import SECONDS, address


def add_call(nodes, name: str, function: str, argument: str) -> None:
    node = nodes.add(name=name, op="PartitionedCall", input=[argument])
    node.attr["f"].func.name = function
    node.attr["Tin"].list.type.append(1)
    node.attr["Tout"].list.type.append(1)


def calling(depth: int, times: int):
    """A graph of functions, each of which calls the one before it so many times."""
    graph = tf.GraphDef()
    for i in range(depth):
        function = graph.library.function.add()
        function.signature.name = f"f{i}"
        function.signature.input_arg.add(name="x").type = 1
        function.signature.output_arg.add(name="y").type = 1
        made = "x"
        for k in range(times if i else 0):
            add_call(function.node_def, f"call{k}", f"f{i - 1}", made)
            made = f"call{k}:output:0"
        if not i:
            function.node_def.add(name="n", op="Neg", input=["x"]).attr["T"].type = 1
            made = "n:y:0"
        function.ret["y"] = made
    constant = graph.node.add(name="one", op="Const")
    constant.attr["dtype"].type = 1
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(1.0))
    add_call(graph.node, "all", f"f{depth - 1}", "one")
    return graph


@pytest.mark.parametrize(
    ("depth", "times", "refusal", "words"),
    [
        (40, 2, errors.ResourceExhaustedError, "MILLRACE_MAX_GRAPH_NODES"),
        (1500, 1, errors.InvalidArgumentError, "deep|recursion"),
    ],
)
def test_functions_that_stand_for_too_much_are_refused(make_job, depth, times, refusal, words):
    cluster, trainer = make_job()
    connection = Connection(address(cluster), Security())
    master = connection.master()

    def run(graph):
        request = service_messages.CreateSessionRequest(graph_def=graph)
        handle = master.create_session(request, SECONDS).session_handle
        try:
            step = service_messages.RunStepRequest(session_handle=handle, fetch=["all:0"])
            return master.run_step(step, SECONDS).tensor[0].tensor
        finally:
            closing = service_messages.CloseSessionRequest(session_handle=handle)
            master.close_session(closing, SECONDS)

    assert tf.make_ndarray(run(calling(5, 2))) == 1.0
    with pytest.raises(refusal, match=words):
        run(calling(depth, times))
    trainer.step()
    connection.close()
