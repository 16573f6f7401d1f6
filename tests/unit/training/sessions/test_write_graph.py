"""`tf.train.write_graph`."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format

import millrace as tf


@pytest.mark.parametrize("as_text", [True, False])
@pytest.mark.parametrize("as_message", [True, False])
def test_a_graph_is_written_in_either_format(
    tmp_path: Path, as_text: bool, as_message: bool
) -> None:
    with tf.Graph().as_default() as graph:
        tf.constant(1.0, name="c")
    source = graph.as_graph_def() if as_message else graph
    path = tf.train.write_graph(source, str(tmp_path / "a" / "b"), "graph.pb", as_text=as_text)
    assert path == str(tmp_path / "a" / "b" / "graph.pb")
    content = Path(path).read_bytes()
    found = tf.GraphDef()
    text_format.Parse(content.decode(), found) if as_text else found.ParseFromString(content)
    assert found == graph.as_graph_def()


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        tf.constant(1.0)
    tf.train.write_graph(graph, str(tmp_path), "graph.pb")
    tf.train.write_graph(tf.GraphDef(), str(tmp_path), "graph.pb")
    assert [p.name for p in tmp_path.iterdir()] == ["graph.pb"]
    assert (tmp_path / "graph.pb").read_bytes() == b""
