"""Printing; the texts are those of TensorFlow 2.21."""

import sys

import numpy as np
import pytest

import millrace as tf


@pytest.fixture
def session(graph):
    with tf.Session(graph=graph) as session:
        yield session


def test_print_passes_its_input_on_and_shows_the_data_so_many_times(session, capsys):
    x = tf.placeholder(tf.float32, [3])
    shown = tf.Print(x, [x, "txt", tf.shape(x)], message="MSG ", first_n=2, summarize=2)
    assert shown.shape.as_list() == [3]
    for _ in range(3):
        assert session.run(shown, {x: [1.0, 2.0, 3.0]}).tolist() == [1, 2, 3]
    assert capsys.readouterr().err == "MSG [1 2...][txt][3]\n" * 2


def test_gradients_pass_through_print(session):
    x = tf.placeholder(tf.float32, [])
    (gradient,) = tf.gradients(tf.Print(x, [x], first_n=0) * 3.0, x)
    assert session.run(gradient, {x: 1.0}) == 3


def test_tf_print_shows_structures_of_tensors_and_values(session, capsys):
    x = tf.placeholder(tf.float32, [2])
    operation = tf.print("a", x, [1, x], {"k": x, "b": "q"}, sep="|", end="END\n")
    session.run(operation, {x: [1.0, 2.0]})
    assert capsys.readouterr().err == "a|[1 2]|[1, [1 2]]|{'b': 'q', 'k': [1 2]}END\n"


def test_tf_print_shows_both_ends_of_long_tensors(session, capsys):
    x = tf.placeholder(tf.float32)
    session.run(tf.print(x, output_stream=sys.stdout, summarize=1), {x: np.arange(6.0)})
    assert capsys.readouterr().out == "[0 ... 5]\n"


def test_a_single_text_is_printed_as_it_is(session, capsys):
    operation = tf.print(tf.constant('just "this"'))
    assert [i.op.type for i in operation.inputs] == ["Const"]
    session.run(operation)
    assert capsys.readouterr().err == 'just "this"\n'


def test_braces_in_texts_stay(session, capsys):
    session.run(tf.print("x{}y", tf.constant([1])))
    assert capsys.readouterr().err == "x{}y [1]\n"


def test_sparse_tensors_show_their_parts(session, capsys):
    session.run(tf.print(tf.SparseTensor([[0, 1]], [2.0], [2, 2])))
    expected = "'SparseTensor(indices=[[0 1]], values=[2], shape=[2 2])'\n"
    assert capsys.readouterr().err == expected


def test_tf_print_appends_to_a_file(session, tmp_path):
    operation = tf.print(tf.constant([1, 2]), output_stream=f"file://{tmp_path}/log.txt")
    session.run(operation)
    session.run(operation)
    assert (tmp_path / "log.txt").read_text() == "[1 2]\n[1 2]\n"


def test_names_are_given_to_both_operations():
    operation = tf.print("a", tf.constant(1), name="show")
    assert operation.name == "show" and operation.inputs[0].op.name == "show_format"


def test_what_cannot_be_printed_to_is_refused():
    with pytest.raises(ValueError, match="Unsupported output stream, logging level, or file.3.5"):
        tf.print("a", output_stream=3.5)
    with pytest.raises(ValueError, match="Unrecognized keyword arguments for tf.print: {'foo'"):
        tf.print("a", foo=1)


def test_an_unknown_stream_of_a_foreign_graph_fails_the_step(session):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Unknown output stream: nowhere"):
        session.run(tf.raw_ops.PrintV2(input="a", output_stream="nowhere"))
