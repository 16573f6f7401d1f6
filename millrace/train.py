"""`tf.train`."""

from millrace.core.cluster_spec import ClusterSpec
from millrace.core.config import ClusterDef, JobDef, SaverDef
from millrace.data.example import (
    BytesList,
    Example,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
    SequenceExample,
)
from millrace.rpc.security import Security as ServerSecurity
from millrace.server.server import Server, ServerDef
from millrace.summary.writer import FileWriter as SummaryWriter
from millrace.summary.writer import FileWriterCache as SummaryWriterCache
from millrace.summary.writer import summary_iterator
from millrace.training.checkpoint.checkpoint import Checkpoint, CheckpointOptions
from millrace.training.checkpoint.init import init_from_checkpoint
from millrace.training.checkpoint.manager import CheckpointManager
from millrace.training.checkpoint.meta_graph import export_meta_graph, import_meta_graph
from millrace.training.checkpoint.reader import (
    NewCheckpointReader,
    list_variables,
    load_checkpoint,
    load_variable,
)
from millrace.training.checkpoint.saver import Saver
from millrace.training.checkpoint.state import (
    checkpoint_exists,
    checkpoints_iterator,
    generate_checkpoint_state_proto,
    get_checkpoint_mtimes,
    get_checkpoint_state,
    latest_checkpoint,
    remove_checkpoint,
    update_checkpoint_state,
)
from millrace.training.checkpoint.warm_start import VocabInfo, warm_start
from millrace.training.global_step import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
    global_step,
)
from millrace.training.hooks.checkpoint_saver import (
    CheckpointSaverHook,
    CheckpointSaverListener,
)
from millrace.training.hooks.consistency import ConsistencyHook
from millrace.training.hooks.global_step_waiter import GlobalStepWaiterHook
from millrace.training.hooks.inputs_and_results import FeedFnHook, FinalOpsHook
from millrace.training.hooks.logging_tensor import LoggingTensorHook
from millrace.training.hooks.profiler import ProfilerHook
from millrace.training.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from millrace.training.hooks.step_counter import StepCounterHook
from millrace.training.hooks.stopping import (
    NanLossDuringTrainingError,
    NanTensorHook,
    StopAtStepHook,
)
from millrace.training.hooks.summary_saver import SummarySaverHook
from millrace.training.hooks.timer import SecondOrStepTimer
from millrace.training.input import queue_runner
from millrace.training.input.input import (
    batch,
    batch_join,
    input_producer,
    limit_epochs,
    match_filenames_once,
    maybe_batch,
    maybe_batch_join,
    maybe_shuffle_batch,
    maybe_shuffle_batch_join,
    range_input_producer,
    shuffle_batch,
    shuffle_batch_join,
    slice_input_producer,
    string_input_producer,
)
from millrace.training.input.queue_runner import (
    QueueRunner,
    QueueRunnerDef,
    add_queue_runner,
    start_queue_runners,
)
from millrace.training.optimizers.adagrad import (
    AdagradDAOptimizer,
    AdagradOptimizer,
    ProximalAdagradOptimizer,
)
from millrace.training.optimizers.adam import AdamOptimizer
from millrace.training.optimizers.ftrl import FtrlOptimizer
from millrace.training.optimizers.gradient_descent import (
    GradientDescentOptimizer,
    ProximalGradientDescentOptimizer,
)
from millrace.training.optimizers.learning_rate_decay import (
    cosine_decay,
    cosine_decay_restarts,
    exponential_decay,
    inverse_time_decay,
    linear_cosine_decay,
    natural_exp_decay,
    noisy_linear_cosine_decay,
    piecewise_constant,
    piecewise_constant_decay,
    polynomial_decay,
)
from millrace.training.optimizers.momentum import MomentumOptimizer
from millrace.training.optimizers.moving_averages import ExponentialMovingAverage
from millrace.training.optimizers.optimizer import Optimizer
from millrace.training.optimizers.rmsprop import AdadeltaOptimizer, RMSPropOptimizer
from millrace.training.replicas.device_setter import replica_device_setter
from millrace.training.replicas.sync_replicas_optimizer import SyncReplicasOptimizer
from millrace.training.sessions.basic_loops import basic_train_loop
from millrace.training.sessions.coordinator import Coordinator, LooperThread
from millrace.training.sessions.monitored_session import (
    MonitoredSession,
    MonitoredTrainingSession,
    SingularMonitoredSession,
)
from millrace.training.sessions.scaffold import Scaffold
from millrace.training.sessions.session_creators import (
    ChiefSessionCreator,
    SessionCreator,
    WorkerSessionCreator,
)
from millrace.training.sessions.session_manager import SessionManager
from millrace.training.sessions.supervisor import Supervisor
from millrace.training.sessions.write_graph import write_graph
