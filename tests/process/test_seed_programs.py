"""The programs of the seeds, run as they stand with the command lines that the seeds give.

Addresses and step counts are flags where a program has them; where they are literals (paths, the
last step of 002 and 003) the test runs a copy with these literals replaced, and nothing else.
The programs lie beside the project, in ``shared/seeds/scripts``.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from millrace.cli.task_process import without_time

_ROOT = Path(__file__).parents[2]
_PLACES = [parent / "shared/seeds/scripts" for parent in _ROOT.parents]
SCRIPTS = next((place for place in _PLACES if place.is_dir()), None)
pytestmark = pytest.mark.skipif(
    SCRIPTS is None,
    reason="the seeds' programs are not beside this clone (../shared/seeds/scripts)",
)
MODEL = """
      x = tf.constant([[1.0, 2.0], [3.0, 1.0]])
      w = tf.Variable(tf.zeros([2, 1]), name="w")
      loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1.0))
      tf.summary.scalar("loss", loss)
"""


def program(folder: Path, name: str, *replaced: tuple[str, str]) -> Path:
    """The seed's program; a copy, if something in it is replaced."""
    assert SCRIPTS is not None
    if not replaced:
        return SCRIPTS / name
    source = (SCRIPTS / name).read_text()
    for old, new in replaced:
        assert old in source, f"{name} has no {old!r}"
        source = source.replace(old, new)
    (folder / name).write_text(source)
    return folder / name


def launch(folder: Path, script: Path, ps: int, workers: int, *arguments: str) -> dict[str, str]:
    """Runs a job to its end; the logs by task."""
    options = ["--ps", str(ps), "--workers", str(workers), "--logs", "logs"]
    command = [sys.executable, "-m", "millrace", "launch", *options, str(script), "--", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.stem: without_time(path.read_text()) for path in (folder / "logs").glob("*.log")}


def uncommented(source: str, first: str, last: str) -> str:
    """A source in which the lines from one to another are no comments any more."""
    lines = source.splitlines()
    start = next(i for i, line in enumerate(lines) if first in line)
    end = next(i for i, line in enumerate(lines) if i >= start and last in line)
    lines[start : end + 1] = [re.sub(r"^#", "", line) for line in lines[start : end + 1]]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("flags", [(), ("--sync_replicas=True",)], ids=["async", "sync"])
def test_001_trains_with_one_ps_and_two_workers(tmp_path: Path, flags: tuple[str, ...]) -> None:
    script = program(tmp_path, "001_distributed.py")
    logs = launch(tmp_path, script, 1, 2, "--data_dir=data", "--train_steps=60", *flags)
    for worker in (0, 1):
        log = logs[f"worker-{worker}"]
        assert f"Worker {worker}: Session initialization complete." in log
        assert "After 60 training step(s), validation cross entropy = " in log
    steps = [int(step) for step in re.findall(r"\(global step: (\d+)\)", logs["worker-0"])]
    assert max(steps) >= 60


@pytest.mark.parametrize("gpus", [0, 2])  # of which there may be none: placement is soft
def test_001_with_the_flag_num_gpus_runs_also_without_any(tmp_path: Path, gpus: int) -> None:
    assert SCRIPTS is not None
    source = (SCRIPTS / "001_distributed.py").read_text()
    source = uncommented(source, 'DEFINE_integer("num_gpus"', "please set it to '0'")
    source = uncommented(source, "if FLAGS.num_gpus > 0:", "The ps use CPU")
    source = source.replace(
        '  worker_device = "/job:worker/task:%d/gpu:0" % FLAGS.task_index\n', ""
    )
    assert "\n  if FLAGS.num_gpus > 0:" in source and "gpu:0" not in source
    script = tmp_path / "001_num_gpus.py"
    script.write_text(source)
    logs = launch(tmp_path, script, 1, 1, "--data_dir=d", "--train_steps=20", f"--num_gpus={gpus}")
    assert "After 20 training step(s)" in logs["worker-0"]


def test_001_on_existing_servers_is_a_client_of_each(tmp_path: Path) -> None:
    assert SCRIPTS is not None
    source = (SCRIPTS / "001_distributed.py").read_text()
    source = uncommented(source, "#flags.DEFINE_boolean(\n".strip(), '"server.")')
    source = uncommented(source, "#    if FLAGS.existing_servers:", "#    else:")
    source = source.replace("  #if not FLAGS.existing_servers:", "  if not FLAGS.existing_servers:")
    source = source.replace(
        "  server = tf.train.Server(\n"
        "      cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)\n"
        '  if FLAGS.job_name == "ps":\n    server.join()\n',
        "    server = tf.train.Server(\n"
        "        cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)\n"
        '    if FLAGS.job_name == "ps":\n      server.join()\n',
    )
    source = source.replace(
        "    sess = sv.prepare_or_wait_for_session(server.target,\n"
        "                                        config=sess_config)\n",
        "      sess = sv.prepare_or_wait_for_session(server.target, config=sess_config)\n",
    )
    # The launcher starts the servers, and puts their addresses where a program has lists of them.
    source = source.replace(
        '  ps_spec = FLAGS.ps_hosts.split(",")', '  ps_spec = ["192.168.233.201:2222"]'
    ).replace('  worker_spec = FLAGS.worker_hosts.split(",")', '  worker_spec = ["a:1", "b:2"]')
    script = tmp_path / "001_existing_servers.py"
    script.write_text(source)
    options = ["--ps", "1", "--workers", "2", "--logs", "logs", "--cluster-via", "servers"]
    command = [sys.executable, "-m", "millrace", "launch", *options, str(script), "--"]
    command += ["--data_dir=d", "--train_steps=20", "--existing_servers=True", "--job_name=worker"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    for client in (0, 1):
        log = (tmp_path / f"logs/client-{client}.log").read_text()
        assert "Using existing server at: grpc://localhost:" in log
        assert "After 20 training step(s), validation cross entropy" in log


def test_002_learns_mnist_on_two_ps_and_two_workers(tmp_path: Path) -> None:
    script = program(tmp_path, "002_mnist_dist.py", ("/opt/tensor", "opt"), ("< 2000", "< 300"))
    logs = launch(tmp_path, script, 2, 2)
    steps = re.findall(r"Step (\d+) in task", logs["worker-0"] + logs["worker-1"])
    assert max(map(int, steps)) >= 300
    accuracy = re.search(r"^accuracy: (0\.\d+)$", logs["worker-1"], re.MULTILINE)
    assert accuracy is not None and float(accuracy[1]) > 0.8
    assert "accuracy" not in logs["worker-0"]
    assert "target: grpc://localhost:" in logs["ps-1"]


def test_003_finds_weight_and_bias(tmp_path: Path) -> None:
    replaced = (("last_step=1000000", "last_step=2000"), ("/tmp/tf_train_logs", "train"))
    script = program(tmp_path, "003_linear_py2.py", *replaced)
    logs = launch(tmp_path, script, 1, 2)
    for client in range(2):
        assert "is Python 2; running it as Python 3" in logs[f"client-{client}"]
        assert "Optimization finished." in logs[f"client-{client}"]
    told = "\n".join(logs[f"client-{client}"] for client in range(2))
    # A client prints the hundreds that it meets: which, depends on the others.
    found = re.findall(r"step: (\d+), weight: ([\d.-]+), biase: ([\d.-]+), loss", told)
    late = [(float(weight), float(bias)) for step, weight, bias in found if int(step) >= 500]
    assert late
    # One of them may show the gradient of a client that was slow: that of weights long gone.
    weight, bias = (statistics.median(values) for values in zip(*late, strict=True))
    assert weight == pytest.approx(0.1, abs=0.02)
    assert bias == pytest.approx(0.3, abs=0.02)


def test_the_skeleton_of_000_trains_a_model_that_is_filled_in(tmp_path: Path) -> None:
    script = program(
        tmp_path,
        "000_trainer_skeleton.py",
        ("      loss = ...\n", MODEL),
        ("last_step=1000000", "last_step=50"),
        ("/tmp/train_logs", "train"),
    )
    launch(tmp_path, script, 1, 1)
    assert (tmp_path / "train/model.ckpt-50.index").exists()


def test_the_skeleton_of_002_trains_a_model_that_is_filled_in(tmp_path: Path) -> None:
    script = program(
        tmp_path,
        "002_framework_skeleton.py",
        ("      loss = ...\n", MODEL),
        ("step < 1000000", "step < 50"),
        ("/tmp/train_logs", "train"),
        ("FLAGS.worker_hosts(", "FLAGS.worker_hosts.split("),  # a slip of the seed's
    )
    launch(tmp_path, script, 1, 1)
    assert list((tmp_path / "train").glob("events.out.tfevents.*"))
