"""`tf.train.write_graph`."""

from __future__ import annotations

import os
from typing import Any

from millrace.graph.graph import Graph
from millrace.graph.message_file import write_message
from millrace.platform import gfile


def write_graph(graph_or_graph_def: Any, logdir: str, name: str, as_text: bool = True) -> str:
    """Writes a graph to a file.

    Args:
      graph_or_graph_def: A Graph, or a message.
      logdir: The folder, made when missing.
      name: The file's name in it.
      as_text: Whether to write text instead of the wire format.

    Returns:
      The file's path.
    """
    if isinstance(graph_or_graph_def, Graph):
        message = graph_or_graph_def.as_graph_def()
    else:
        message = graph_or_graph_def
    if logdir:
        gfile.makedirs(logdir)
    path = os.path.join(logdir, name)
    write_message(message, path, as_text)
    return path
