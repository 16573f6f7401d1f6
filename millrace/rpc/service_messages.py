"""The messages of TensorFlow's master and worker services, and ServerDef.

Field numbers are TensorFlow's, so what is serialized here is what its clients send and expect.
Messages within messages are the classes of `millrace.core.config`.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pool
from google.protobuf.message import Message

from millrace.core import config  # noqa: F401  # puts the messages named below into the pool
from millrace.data.messages import declare

_FILE = "millrace/rpc/{}.proto"
_PACKAGE = "millrace.rpc"


def _declare(name: str, table: dict[str, str]) -> dict[str, type[Message]]:
    return declare(_FILE.format(name), _PACKAGE, table, pool=descriptor_pool.Default())


_shared = _declare(
    "shared",
    {
        "NamedTensorProto": """
            string name = 1
            tensorboard.TensorProto tensor = 2
        """,
        "InterconnectLink": """
            int32 device_id = 1
            string type = 2
            int32 strength = 3
        """,
        "LocalLinks": "repeated InterconnectLink link = 1",
        "DeviceLocality": """
            int32 bus_id = 1
            int32 numa_node = 2
            LocalLinks links = 3
        """,
        "DeviceAttributes": """
            string name = 1
            string device_type = 2
            int64 memory_limit = 4
            DeviceLocality locality = 5
            fixed64 incarnation = 6
            string physical_device_desc = 7
            int64 xla_global_id = 8
        """,
        "TaskDeviceFilters": "repeated string device_filters = 1",
        "JobDeviceFilters": """
            string name = 1
            map<int32, TaskDeviceFilters> tasks = 2
        """,
        "ClusterDeviceFilters": "repeated JobDeviceFilters jobs = 1",
        "ServerDef": """
            tensorboard.ClusterDef cluster = 1
            string job_name = 2
            int32 replica = 8
            int32 task_index = 3
            tensorboard.ConfigProto default_session_config = 4
            string protocol = 5
            int32 port = 6
            ClusterDeviceFilters cluster_device_filters = 7
        """,
    },
)

_master = _declare(
    "master",
    {
        "CreateSessionRequest": """
            tensorboard.GraphDef graph_def = 1
            tensorboard.ConfigProto config = 2
            string target = 3
        """,
        "CreateSessionResponse": """
            string session_handle = 1
            int64 graph_version = 2
        """,
        "ExtendSessionRequest": """
            string session_handle = 1
            tensorboard.GraphDef graph_def = 2
            int64 current_graph_version = 3
        """,
        "ExtendSessionResponse": "int64 new_graph_version = 4",
        "RunStepRequest": """
            string session_handle = 1
            repeated NamedTensorProto feed = 2
            repeated string fetch = 3
            repeated string target = 4
            tensorboard.RunOptions options = 5
            string partial_run_handle = 6
            bool store_errors_in_response_body = 7
            int64 request_id = 8
            bytes step_attempt = 1001
        """,
        "RunStepResponse": """
            repeated NamedTensorProto tensor = 1
            tensorboard.RunMetadata metadata = 2
            int32 status_code = 3
            string status_error_message = 4
        """,
        "PartialRunSetupRequest": """
            string session_handle = 1
            repeated string feed = 2
            repeated string fetch = 3
            repeated string target = 4
            int64 request_id = 5
        """,
        "PartialRunSetupResponse": "string partial_run_handle = 1",
        "CloseSessionRequest": "string session_handle = 1",
        "CloseSessionResponse": "",
        "ResetRequest": """
            repeated string container = 1
            repeated string device_filters = 2
        """,
        "ResetResponse": "",
        "ListDevicesRequest": "string session_handle = 1",
        "ListDevicesResponse": """
            repeated DeviceAttributes local_device = 1
            repeated DeviceAttributes remote_device = 2
        """,
        "MakeCallableRequest": """
            string session_handle = 1
            tensorboard.CallableOptions options = 2
            int64 request_id = 3
        """,
        "MakeCallableResponse": "int64 handle = 1",
        "RunCallableRequest": """
            string session_handle = 1
            int64 handle = 2
            repeated tensorboard.TensorProto feed = 3
            int64 request_id = 4
        """,
        "RunCallableResponse": """
            repeated tensorboard.TensorProto fetch = 1
            tensorboard.RunMetadata metadata = 2
        """,
        "ReleaseCallableRequest": """
            string session_handle = 1
            int64 handle = 2
        """,
        "ReleaseCallableResponse": "",
    },
)

_worker = _declare(
    "worker",
    {
        "GetStatusRequest": "",
        "GetStatusResponse": "repeated DeviceAttributes device_attributes = 1",
        "CreateWorkerSessionRequest": """
            string session_handle = 1
            ServerDef server_def = 2
            bool isolate_session_state = 3
            repeated DeviceAttributes cluster_device_attributes = 4
            string master_task = 5
            int64 master_incarnation = 6
            string client = 1000
        """,
        "CreateWorkerSessionResponse": "",
        "DeleteWorkerSessionRequest": "string session_handle = 1",
        "DeleteWorkerSessionResponse": "",
        "RegisterGraphRequest": """
            string session_handle = 1
            tensorboard.GraphDef graph_def = 2
            bool has_control_flow = 3
            tensorboard.GraphOptions graph_options = 4
            tensorboard.DebugOptions debug_options = 5
            bool create_worker_session_called = 6
            int64 collective_graph_key = 7
            tensorboard.ConfigProto config_proto = 8
            repeated string writing_tasks = 1000
        """,
        "RegisterGraphResponse": "string graph_handle = 1",
        "DeregisterGraphRequest": """
            string graph_handle = 1
            string session_handle = 2
            bool create_worker_session_called = 3
        """,
        "DeregisterGraphResponse": "",
        "CleanupAllRequest": "repeated string container = 1",
        "CleanupAllResponse": "",
        "ExecutorOpts": """
            bool record_costs = 1
            bool record_timeline = 3
            bool record_partition_graphs = 4
            bool report_tensor_allocations_upon_oom = 5
        """,
        "RunGraphRequest": """
            string graph_handle = 1
            int64 step_id = 2
            repeated NamedTensorProto send = 3
            repeated string recv_key = 4
            ExecutorOpts exec_opts = 5
            bool is_partial = 6
            bool is_last_partial_run = 7
            string session_handle = 8
            bool store_errors_in_response_body = 9
            bool create_worker_session_called = 10
            int64 request_id = 11
        """,
        "RunGraphResponse": """
            repeated NamedTensorProto recv = 1
            tensorboard.StepStats step_stats = 2
            tensorboard.CostGraphDef cost_graph = 3
            repeated tensorboard.GraphDef partition_graph = 4
            int32 status_code = 5
            string status_error_message = 6
        """,
        "CleanupGraphRequest": "int64 step_id = 1",
        "CleanupGraphResponse": "",
        "RecvTensorRequest": """
            int64 step_id = 1
            string rendezvous_key = 2
            bool dma_ok = 3
            DeviceLocality client_locality = 4
            DeviceLocality server_locality = 5
            int64 request_id = 7
        """,
        "RecvTensorResponse": """
            tensorboard.TensorProto tensor = 1
            bool is_dead = 2
            int64 send_start_micros = 3
            bool require_ack = 5
        """,
        "LoggingRequest": """
            bool enable_rpc_logging = 1
            bool clear = 2
            repeated int64 fetch_step_id = 3
            bool disable_rpc_logging = 4
        """,
        "LabeledStepStats": """
            int64 step_id = 1
            tensorboard.StepStats step_stats = 2
        """,
        "LoggingResponse": "repeated LabeledStepStats step = 1",
        "TraceOpts": """
            double duration = 1
            bool use_step_profiler = 2
            bool use_kernel_profiler = 3
            bool use_extended_profiler = 4
            bool use_gpu_profiler = 5
            bool use_sample_profiler = 6
        """,
        "TracingRequest": "TraceOpts options = 1",
        "TracingResponse": "",
    },
)

globals().update(_shared | _master | _worker)


def __getattr__(name: str) -> Any:
    """Tells type checkers that the messages are here; what is here is found without it."""
    raise AttributeError(f"module {__name__!r} has no message {name!r}")


#: Method name to (request, response) of each service.
MASTER_METHODS = {
    name: (_master[f"{name}Request"], _master[f"{name}Response"])
    for name in (
        "CreateSession ExtendSession PartialRunSetup RunStep CloseSession ListDevices Reset "
        "MakeCallable RunCallable ReleaseCallable"
    ).split()
}
WORKER_METHODS = {
    name: (_worker[f"{name}Request"], _worker[f"{name}Response"])
    for name in (
        "GetStatus CreateWorkerSession DeleteWorkerSession RegisterGraph DeregisterGraph RunGraph "
        "CleanupGraph CleanupAll RecvTensor Logging Tracing"
    ).split()
}
