"""TensorFlow's RPC messages: the numbers of their fields, as in TensorFlow's .proto files."""

import pytest

from millrace.rpc import service_messages
from millrace.rpc.service import method_name

#: Message, then "field=number" as in TensorFlow's master.proto, worker.proto, cluster.proto and
#: tensorflow_server.proto.
FIELDS = {
    "CreateSessionRequest": "graph_def=1 config=2 target=3",
    "CreateSessionResponse": "session_handle=1 graph_version=2",
    "ExtendSessionRequest": "session_handle=1 graph_def=2 current_graph_version=3",
    "ExtendSessionResponse": "new_graph_version=4",
    "RunStepRequest": "session_handle=1 feed=2 fetch=3 target=4 options=5 partial_run_handle=6 "
    "store_errors_in_response_body=7 request_id=8",
    "RunStepResponse": "tensor=1 metadata=2 status_code=3 status_error_message=4",
    "PartialRunSetupRequest": "session_handle=1 feed=2 fetch=3 target=4 request_id=5",
    "PartialRunSetupResponse": "partial_run_handle=1",
    "CloseSessionRequest": "session_handle=1",
    "ResetRequest": "container=1 device_filters=2",
    "ListDevicesRequest": "session_handle=1",
    "ListDevicesResponse": "local_device=1 remote_device=2",
    "MakeCallableRequest": "session_handle=1 options=2 request_id=3",
    "MakeCallableResponse": "handle=1",
    "RunCallableRequest": "session_handle=1 handle=2 feed=3 request_id=4",
    "RunCallableResponse": "fetch=1 metadata=2",
    "ReleaseCallableRequest": "session_handle=1 handle=2",
    "GetStatusResponse": "device_attributes=1",
    "CreateWorkerSessionRequest": "session_handle=1 server_def=2 isolate_session_state=3 "
    "cluster_device_attributes=4 master_task=5 master_incarnation=6",
    "DeleteWorkerSessionRequest": "session_handle=1",
    "RegisterGraphRequest": "session_handle=1 create_worker_session_called=6 graph_def=2 "
    "has_control_flow=3 graph_options=4 debug_options=5 collective_graph_key=7 config_proto=8",
    "RegisterGraphResponse": "graph_handle=1",
    "DeregisterGraphRequest": "session_handle=2 create_worker_session_called=3 graph_handle=1",
    "CleanupAllRequest": "container=1",
    "RunGraphRequest": "session_handle=8 create_worker_session_called=10 graph_handle=1 step_id=2 "
    "exec_opts=5 send=3 recv_key=4 is_partial=6 is_last_partial_run=7 "
    "store_errors_in_response_body=9 request_id=11",
    "RunGraphResponse": "recv=1 step_stats=2 cost_graph=3 partition_graph=4 status_code=5 "
    "status_error_message=6",
    "CleanupGraphRequest": "step_id=1",
    "RecvTensorRequest": "step_id=1 rendezvous_key=2 dma_ok=3 client_locality=4 "
    "server_locality=5 request_id=7",
    "RecvTensorResponse": "tensor=1 is_dead=2 send_start_micros=3 require_ack=5",
    "NamedTensorProto": "name=1 tensor=2",
    "DeviceAttributes": "name=1 device_type=2 memory_limit=4 locality=5 incarnation=6 "
    "physical_device_desc=7 xla_global_id=8",
    "ServerDef": "cluster=1 job_name=2 replica=8 task_index=3 default_session_config=4 "
    "protocol=5 port=6 cluster_device_filters=7",
}


#: What only Millrace says, with numbers that TensorFlow does not come near.
OWN_FIELDS = {
    "CreateWorkerSessionRequest": {"client": 1000},
    "RegisterGraphRequest": {"writing_tasks": 1000},
    "RunStepRequest": {"step_attempt": 1001},
}


@pytest.mark.parametrize("name", FIELDS)
def test_fields_have_tensorflows_numbers(name):
    fields = getattr(service_messages, name).DESCRIPTOR.fields
    theirs = {
        field: int(number) for field, _, number in (f.partition("=") for f in FIELDS[name].split())
    }
    assert {f.name: f.number for f in fields} == theirs | OWN_FIELDS.get(name, {})


def test_both_services_have_all_methods():
    assert sorted(service_messages.MASTER_METHODS) == sorted(
        "CreateSession ExtendSession PartialRunSetup RunStep CloseSession ListDevices Reset "
        "MakeCallable RunCallable ReleaseCallable".split()
    )
    assert sorted(service_messages.WORKER_METHODS) == sorted(
        "GetStatus CreateWorkerSession DeleteWorkerSession RegisterGraph DeregisterGraph RunGraph "
        "CleanupGraph CleanupAll RecvTensor Logging Tracing".split()
    )
    assert method_name("CreateWorkerSession") == "create_worker_session"


def test_a_run_step_request_has_the_bytes_that_tensorflow_writes():
    request = service_messages.RunStepRequest(session_handle="s", fetch=["a:0"], target=["t"])
    request.feed.add(name="x:0")
    request.store_errors_in_response_body = True
    assert request.SerializeToString().hex() == "0a017312050a03783a301a03613a302201743801"
