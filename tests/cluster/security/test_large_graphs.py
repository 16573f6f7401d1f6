"""Large graphs of one client: what they cost, and that nothing of them stays."""

import gc
import threading
import weakref

import pytest

import millrace as tf
from millrace.core import errors
from millrace.graph import import_graph_def
from millrace.ops.functions.defun import Defun
from millrace.rpc import service_messages as messages
from millrace.rpc.security import Security
from millrace.rpc.service import Connection
from millrace.server.services import master_service
from tests.cluster.security.conftest import SECONDS, address

LIMIT = "MILLRACE_MAX_NODE_INPUTS"


def request_with(op: str, count: int, **attrs: int) -> messages.CreateSessionRequest:
    request = messages.CreateSessionRequest()
    one = request.graph_def.node.add(name="one", op="Const")
    one.attr["dtype"].type = 1
    one.attr["value"].tensor.CopyFrom(tf.make_tensor_proto([1.0]))
    node = request.graph_def.node.add(name="many", op=op)
    node.input.extend(["^one" if op == "NoOp" else "one"] * count)
    if op != "NoOp":
        node.attr["T"].type = 1
    for name, value in attrs.items():
        node.attr[name].i = value
    return request


@pytest.mark.parametrize(
    "request_",
    [
        request_with("NoOp", 3_000),
        request_with("AddN", 3_000, N=3_000),
        request_with("Unpack", 1, num=3_000),
    ],
    ids=["control inputs", "inputs", "outputs"],
)
def test_a_node_may_have_so_many_inputs_and_no_more(make_job, monkeypatch, request_):
    monkeypatch.setenv(LIMIT, "2000")
    cluster, trainer = make_job()
    connection = Connection(address(cluster), Security())
    if request_.graph_def.node[1].op == "Unpack":
        request_.graph_def.node[1].attr["_pad"].s = b"x" * 10_000
    with pytest.raises(errors.ResourceExhaustedError, match=f"many.*3,000.*{LIMIT}"):
        connection.master().create_session(request_, SECONDS)
    trainer.step()
    connection.close()


def double_by_cond(value):
    return tf.cond(value > 0, lambda: value * 2, lambda: value)


def double_by_loop(value):
    return tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, x + 1.5), [0, value])[1]


def double_by_function(value):
    @Defun(tf.float32)
    def double(x):
        return x * 2

    return double(value)


@pytest.mark.parametrize("double", [double_by_cond, double_by_loop, double_by_function])
@pytest.mark.parametrize("when", ["now", "never"])
def test_a_graph_of_a_closed_session_waits_for_no_collector(
    make_job, until, monkeypatch, double, when
):
    """Neither the client's nodes, nor what the tasks and JAX's caches have made of them."""
    monkeypatch.setenv("MILLRACE_COMPILE", when)
    cluster, trainer = make_job()
    connection = Connection(address(cluster), Security())
    master = connection.master()
    with tf.Graph().as_default() as graph:
        with tf.device("/job:ps/task:0"):
            value = tf.constant(2.0) + tf.placeholder_with_default(1.0, [])
        with tf.device("/job:worker/task:0"):
            result = double(value).name
    gc.collect()
    gc.disable()
    try:
        request = messages.CreateSessionRequest(graph_def=graph.as_graph_def())
        before = set(map(id, gc.get_objects()))
        handle = master.create_session(request, SECONDS).session_handle
        step = messages.RunStepRequest(session_handle=handle, fetch=[result])
        assert tf.make_ndarray(master.run_step(step, SECONDS).tensor[0].tensor) == 6.0
        made = [
            weakref.ref(each)
            for each in gc.get_objects()
            if type(each) is tf.Operation and id(each) not in before
        ]
        assert len(made) > 4
        master.close_session(messages.CloseSessionRequest(session_handle=handle), SECONDS)
        until(lambda: not [op for op in made if op() is not None])
    finally:
        gc.enable()
    trainer.step()
    connection.close()


def test_the_graph_of_a_client_that_is_gone_is_not_read_on(make_job, monkeypatch, until):
    cluster, trainer = make_job()
    monkeypatch.setattr(import_graph_def, "_NODES_BETWEEN", 1)
    began, may_go_on = threading.Event(), threading.Event()
    added: list[str] = []
    add = import_graph_def._Importer._add

    def slowly(importer, node):
        if node.name.startswith("slow"):
            added.append(node.name)
            began.set()
            assert may_go_on.wait(SECONDS)
        add(importer, node)

    monkeypatch.setattr(import_graph_def._Importer, "_add", slowly)
    extend, ended = master_service.extend_graph, []

    def extend_and_tell(*args):
        try:
            extend(*args)
        except BaseException as error:
            ended.append(error)
            raise

    monkeypatch.setattr(master_service, "extend_graph", extend_and_tell)
    request = messages.CreateSessionRequest()
    for i in range(50):
        request.graph_def.node.add(name=f"slow{i}", op="NoOp")
    connection = Connection(address(cluster), Security())
    with pytest.raises(errors.DeadlineExceededError):
        connection.master().create_session(request, 0.5)
    assert began.wait(SECONDS)
    may_go_on.set()
    until(lambda: ended)
    assert isinstance(ended[0], errors.CancelledError) and len(added) < 50
    trainer.step()
    connection.close()
