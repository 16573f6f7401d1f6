"""What programs take from TensorFlow's python.eager.context that has no public name."""

import contextlib
from collections.abc import Iterator

from millrace.graph.behavior import executing_eagerly

#: The modes of execution that TensorFlow numbers.
GRAPH_MODE, EAGER_MODE = 0, 1


class Context:
    """What of TensorFlow's eager context a graph has."""

    def executing_eagerly(self) -> bool:
        """False: there is a graph."""
        return False

    def num_gpus(self) -> int:
        """How many GPUs eager execution may use: none."""
        return 0


_context = Context()


def context() -> Context:
    """The context of this process."""
    return _context


def in_graph_mode() -> bool:
    """True."""
    return True


def in_eager_mode() -> bool:
    """False."""
    return False


def num_gpus() -> int:
    """How many GPUs eager execution may use: none."""
    return _context.num_gpus()


@contextlib.contextmanager
def graph_mode() -> Iterator[None]:
    """Graphs are built inside, as they are outside."""
    yield


def eager_mode() -> None:
    """Refuses: graphs are all there is.

    Raises:
      NotImplementedError: Always.
    """
    raise NotImplementedError("Millrace builds graphs; there is no eager execution")
