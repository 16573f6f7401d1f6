"""The version of Millrace, stated once: pyproject.toml reads it here without importing anything."""

MILLRACE = "0.2.0"

#: `tf.VERSION` and `tf.__version__`: the TensorFlow whose interface this is. Programs compare it
#: with "1.x" to choose between spellings, and files carry it, so it is not Millrace's own version.
TENSORFLOW_VERSION = "1.15.0"
#: `tf.GIT_VERSION`: says whose build it is where TensorFlow says which commit.
GIT_VERSION = f"millrace-{MILLRACE}"
#: `tf.COMPILER_VERSION`: there is no compiler; XLA compiles at run time.
COMPILER_VERSION = "none"
__git_version__ = GIT_VERSION
