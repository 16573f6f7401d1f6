"""`tf.python`: the inner modules of TensorFlow's that programs reach through the package.

``tf.python.ops.array_ops`` answers as ``import tensorflow.python.ops.array_ops`` does.
"""

from typing import Any

from millrace.compat import tensorflow_tree

_tree: Any = tensorflow_tree.InternalModule("python")


def __getattr__(name: str) -> Any:
    return getattr(_tree, name)


def __dir__() -> list[str]:
    return dir(_tree)
