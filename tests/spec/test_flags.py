"""The seeds' sentences about command lines: flags with defaults, and who a task is."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import millrace as tf
flags = tf.app.flags
flags.DEFINE_string("data_dir", "/tmp/mnist-data", "Directory for storing mnist data")
flags.DEFINE_integer("hidden_units", 100, "Number of units in the hidden layer of the NN")
flags.DEFINE_integer("replicas_to_aggregate", None, "Number of replicas to aggregate")
flags.DEFINE_float("learning_rate", 0.01, "Learning rate")
flags.DEFINE_boolean("sync_replicas", False, "Use the sync_replicas mode")
flags.DEFINE_string("job_name", None, "job name: worker or ps")
FLAGS = flags.FLAGS

def main(unused_argv):
    if FLAGS.job_name is None or FLAGS.job_name == "":
        raise ValueError("Must specify an explicit `job_name`")
    print(FLAGS.data_dir, FLAGS.hidden_units, FLAGS.replicas_to_aggregate, FLAGS.learning_rate,
          FLAGS.sync_replicas, FLAGS.job_name)

if __name__ == "__main__":
    tf.app.run()
"""


def run(tmp_path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    return subprocess.run(
        [sys.executable, str(program), *arguments], capture_output=True, text=True, timeout=120
    )


def test_flags_have_defaults_and_the_command_line_sets_them(tmp_path):
    """001: flags have defaults; ``--sync_replicas=True`` on the command line starts the rounds."""
    told = run(tmp_path, "--job_name=worker", "--sync_replicas=True", "--hidden_units", "7")
    assert told.stdout.split() == ["/tmp/mnist-data", "7", "None", "0.01", "True", "worker"]


def test_a_program_insists_on_its_job_name(tmp_path):
    """001: ``job_name`` must be given."""
    told = run(tmp_path)
    assert told.returncode != 0
    assert "Must specify an explicit `job_name`" in told.stderr
