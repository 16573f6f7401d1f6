"""MetaGraphDef out of a graph and into one: collections, scopes, variables, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.graph import collection_protos, meta_graph
from millrace.platform import logging


@pytest.fixture(params=[False, True], ids=["reference", "resource"])
def use_resource(request: pytest.FixtureRequest) -> bool:
    return request.param


def layer(use_resource: bool) -> Any:
    """x (fed) @ hidden/w + hidden/b -> hidden/y."""
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    with tf.variable_scope("hidden", use_resource=use_resource):
        w = tf.get_variable("w", initializer=[[1.0, 2.0], [3.0, 4.0]])
        b = tf.get_variable("b", initializer=[0.5, 0.5], trainable=False)
        return tf.identity(tf.matmul(x, w) + b, name="y")


def ran(fetch: str, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetch, feed)


# -- Variables -------------------------------------------------------------------------------


def test_variables_come_back_in_their_collections(use_resource: bool) -> None:
    layer(use_resource)
    message = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        assert isinstance(tf.train.import_meta_graph(message), tf.train.Saver)
        assert [v.name for v in tf.global_variables()] == ["hidden/w:0", "hidden/b:0"]
        (w,) = tf.trainable_variables()
        assert w is tf.global_variables()[0]
        assert w.shape.as_list() == [2, 2]
        result = ran("hidden/y:0", {"x:0": [[1, 1]]})
    np.testing.assert_allclose(result, [[4.5, 6.5]])


def test_variables_follow_the_import_scope(use_resource: bool) -> None:
    layer(use_resource)
    message = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        by_name = meta_graph.import_scoped_meta_graph(message, import_scope="copy")
        assert {k: v.name for k, v in by_name.items()} == {
            "hidden/w:0": "copy/hidden/w:0",
            "hidden/b:0": "copy/hidden/b:0",
        }
        np.testing.assert_allclose(ran("copy/hidden/y:0", {"copy/x:0": [[1, 0]]}), [[1.5, 2.5]])


def test_a_second_import_into_the_same_scope_gets_variables_of_its_own() -> None:
    layer(False)
    message = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        meta_graph.import_scoped_meta_graph(message, import_scope="copy")
        second = meta_graph.import_scoped_meta_graph(message, import_scope="copy")
        assert second["hidden/w:0"].name == "copy_1/hidden/w:0"


def test_files_older_than_1_9_tell_trainable_variables_by_their_collection() -> None:
    layer(False)
    message = tf.train.export_meta_graph()
    message.meta_info_def.tensorflow_version = "1.8.0"
    with tf.Graph().as_default():
        tf.train.import_meta_graph(message)
        w, b = tf.global_variables()
        assert (w.trainable, b.trainable) == (True, False)
        assert tf.trainable_variables() == [w]


# -- Collections -----------------------------------------------------------------------------


def test_numbers_texts_and_nodes_come_back(graph: tf.Graph) -> None:
    y = tf.constant(1.0, name="y")
    for key, value in {"int": 3, "float": 2.5, "text": "words", "tensor": y, "op": y.op}.items():
        tf.add_to_collection(key, value)
    message = tf.train.export_meta_graph()
    kinds = {key: value.WhichOneof("kind") for key, value in message.collection_def.items()}
    assert kinds == {
        "int": "int64_list",
        "float": "float_list",
        "text": "bytes_list",
        "tensor": "node_list",
        "op": "node_list",
    }
    with tf.Graph().as_default() as copy:
        tf.train.import_meta_graph(message)
        assert tf.get_collection("int") == [3]
        assert tf.get_collection("float") == [2.5]
        assert tf.get_collection("text") == [b"words"]
        assert tf.get_collection("tensor") == [copy.get_tensor_by_name("y:0")]
        assert tf.get_collection("op") == [copy.get_operation_by_name("y")]


def test_only_the_listed_collections_are_exported() -> None:
    tf.add_to_collection("a", 1)
    tf.add_to_collection("b", 2)
    message = tf.train.export_meta_graph(collection_list=["b", "missing"])
    assert list(message.collection_def) == ["b"]


def test_a_predicate_chooses_the_collections_to_restore() -> None:
    tf.add_to_collection("a", 1)
    tf.add_to_collection("b", 2)
    message = tf.train.export_meta_graph()
    with tf.Graph().as_default() as copy:
        meta_graph.import_scoped_meta_graph(
            message, restore_collections_predicate=lambda key: key == "a"
        )
        assert copy.get_all_collection_keys() == ["a"]


def test_a_collection_that_cannot_be_written_is_left_out_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: warnings.append(text % args))
    tf.add_to_collection("odd", object())
    tf.add_to_collection("mixed", 1)
    tf.add_to_collection("mixed", "text")
    tf.add_to_collection(("not", "a string"), 1)
    message = tf.train.export_meta_graph(collection_list=["odd", "mixed", ("not", "a string")])
    assert not message.collection_def
    assert [w.split("\n")[0] for w in warnings] == [
        "Issue encountered when serializing odd.",
        "Issue encountered when serializing mixed.",
        "Only collections with string type keys will be serialized. This key has <class 'tuple'>",
    ]


class Note:
    """A member of a collection with a message form."""

    def __init__(self, text: str) -> None:
        self.text = text


def test_members_with_registered_functions_travel_as_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collection_protos, "_collections", dict(collection_protos._collections))
    collection_protos.register_proto_function(
        "notes",
        proto_type=tf.NodeDef,
        to_proto=lambda note, export_scope=None: tf.NodeDef(name=note.text) if note.text else None,
        from_proto=lambda proto, import_scope=None: Note(f"{import_scope}:{proto.name}"),
    )
    tf.add_to_collection("notes", Note("a"))
    tf.add_to_collection("notes", Note(""))
    message = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        meta_graph.import_scoped_meta_graph(message, import_scope="here")
        assert [note.text for note in tf.get_collection("notes")] == ["here:a"]
    with pytest.raises(KeyError, match="notes"):
        collection_protos.register_proto_function("notes")
    with pytest.raises(TypeError, match="must be callable"):
        collection_protos.register_proto_function("other", to_proto=3)  # type: ignore[arg-type]


# -- Scopes ----------------------------------------------------------------------------------


def test_a_scope_is_exported_without_its_name(graph: tf.Graph, use_resource: bool) -> None:
    layer(use_resource)
    with tf.name_scope("hidden2"):  # Not part of the scope `hidden`.
        tf.constant(1.0)
    message, variables = meta_graph.export_scoped_meta_graph(export_scope="hidden")
    names = {node.name for node in message.graph_def.node}
    assert {"w", "b", "y"} <= names
    assert not any(name.startswith("hidden") or name == "x" for name in names)
    assert sorted(variables) == ["b:0", "w:0"]
    assert list(message.collection_def["unbound_inputs"].bytes_list.value) == [b"$unbound_inputs_x"]
    for node in message.graph_def.node:
        for group in node.attr["_class"].list.s:
            assert group.decode().removeprefix("loc:@") in names


def test_unbound_inputs_must_be_mapped(use_resource: bool) -> None:
    layer(use_resource)
    message, _ = meta_graph.export_scoped_meta_graph(export_scope="hidden")
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="unbound inputs: \\$unbound_inputs_x. Must provide"):
            meta_graph.import_scoped_meta_graph(message)
        mine = tf.constant([[1.0, 1.0]])
        meta_graph.import_scoped_meta_graph(
            message, import_scope="new", input_map={"$unbound_inputs_x": mine}
        )
        np.testing.assert_allclose(ran("new/y:0"), [[4.5, 6.5]])


def test_a_scope_can_be_copied_inside_one_graph() -> None:
    with tf.variable_scope("tower"):
        v = tf.get_variable("v", initializer=2.0)
        tf.identity(v * 3.0, name="out")
    copied = meta_graph.copy_scoped_meta_graph("tower", "tower_copy")
    assert copied["v:0"].name == "tower_copy/v:0"
    assert ran("tower_copy/out:0") == 6.0
    with pytest.raises(ValueError, match="need to be different"):
        meta_graph.copy_scoped_meta_graph("tower", "tower")


def test_control_inputs_from_outside_are_unbound_too() -> None:
    outside = tf.no_op(name="outside")
    with tf.name_scope("part"), tf.control_dependencies([outside]):
        tf.constant(1.0, name="c")
    message, _ = meta_graph.export_scoped_meta_graph(export_scope="part")
    assert list(message.graph_def.node[0].input) == ["^$unbound_inputs_outside"]


# -- What else is in the message -------------------------------------------------------------


def test_the_message_says_who_wrote_it_and_which_ops_it_uses() -> None:
    layer(False)
    p = tf.placeholder(tf.bool, [])
    tf.cond(p, lambda: tf.constant(1.0) * 2.0, lambda: tf.constant(3.0) - 1.0)
    info = tf.train.export_meta_graph().meta_info_def
    assert info.tensorflow_version == tf.VERSION
    assert info.tensorflow_git_version == tf.GIT_VERSION
    used = [op.name for op in info.stripped_op_list.op]
    assert used == sorted(used)
    assert {"Placeholder", "VariableV2", "MatMul", "Mul", "Sub"} <= set(used)  # in the branches too


def test_tags_are_kept() -> None:
    info = tf.MetaGraphDef.MetaInfoDef(tags=["serve"])
    assert list(tf.train.export_meta_graph(meta_info_def=info).meta_info_def.tags) == ["serve"]


def test_devices_can_be_left_out_and_forgotten() -> None:
    with tf.device("/job:ps/task:1"):
        tf.constant(1.0, name="c")
    assert tf.train.export_meta_graph().graph_def.node[0].device == "/job:ps/task:1"
    assert not tf.train.export_meta_graph(clear_devices=True).graph_def.node[0].device
    message = tf.train.export_meta_graph()
    with tf.Graph().as_default() as copy:
        tf.train.import_meta_graph(message, clear_devices=True)
        assert copy.get_operation_by_name("c").device == ""
    assert message.graph_def.node[0].device, "the caller's message is not changed"


def test_default_attributes_can_be_stripped_and_come_back() -> None:
    layer(False)
    full = tf.train.export_meta_graph()
    short = tf.train.export_meta_graph(strip_default_attrs=True)
    (product,) = (n for n in short.graph_def.node if n.op == "MatMul")
    assert "transpose_a" not in product.attr
    assert "T" in product.attr
    assert short.meta_info_def.stripped_default_attrs
    with tf.Graph().as_default():
        meta_graph.import_scoped_meta_graph(short)
        again = tf.train.export_meta_graph()
    assert again.graph_def == full.graph_def


def test_nodes_of_other_savers_can_be_left_out() -> None:
    tf.add_to_collection("kept", tf.constant(1.0, name="c"))
    graph_def = tf.get_default_graph().as_graph_def()
    for scope in ("save", "save_1"):
        graph_def.node.add(name=f"{scope}/SaveV2", op="SaveV2")
        graph_def.node.add(name=f"{scope}/restore_all", op="NoOp")
    saver = tf.train.SaverDef(
        save_tensor_name="save_1/SaveV2:0", restore_op_name="save_1/restore_all"
    )
    message = tf.train.export_meta_graph(
        graph_def=graph_def, saver_def=saver, clear_extraneous_savers=True
    )
    assert [node.name for node in message.graph_def.node] == [
        "c",
        "save_1/SaveV2",
        "save_1/restore_all",
    ]
    assert message.saver_def == saver


@pytest.mark.parametrize("as_text", [False, True])
def test_a_file_holds_either_format(tmp_path: Path, as_text: bool) -> None:
    layer(False)
    path = tmp_path / "new folder" / "model.meta"
    message = tf.train.export_meta_graph(str(path), as_text=as_text)
    assert meta_graph.read_meta_graph_file(str(path)) == message
    assert path.read_bytes().startswith(b"meta_info_def {") is as_text
    assert [p.name for p in path.parent.iterdir()] == ["model.meta"]
    with tf.Graph().as_default():
        tf.train.import_meta_graph(str(path))
        assert len(tf.global_variables()) == 2


def test_a_file_that_is_missing_or_something_else_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="does not exist"):
        tf.train.import_meta_graph(str(tmp_path / "none.meta"))
    bad = tmp_path / "bad.meta"
    bad.write_bytes(b"\xff\xfe not a message")
    with pytest.raises(OSError, match="Cannot parse file"):
        tf.train.import_meta_graph(str(bad))


@pytest.mark.parametrize("name", ["graph", "meta_info_def", "graph_def", "saver_def"])
def test_an_argument_of_the_wrong_type_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} must be of type"):
        meta_graph.create_meta_graph_def(**{name: "text"})  # type: ignore[arg-type]


def test_return_elements_can_be_asked_for() -> None:
    layer(False)
    message = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        _, (y,) = meta_graph.import_scoped_meta_graph_with_return_elements(
            message, import_scope="m", return_elements=["hidden/y:0"]
        )
        assert y.name == "m/hidden/y:0"
