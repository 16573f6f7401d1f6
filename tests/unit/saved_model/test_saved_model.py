"""SavedModels: written, loaded again, and refused when something is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.saved_model.loader import SavedModelLoader


def build() -> tuple[Any, Any]:
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    w = tf.get_variable("w", initializer=[[1.0], [2.0]])
    r = tf.get_variable("r", initializer=3.0, use_resource=True)
    return x, tf.multiply(tf.matmul(x, w), r, name="y")


def table(vocabulary: Path) -> tuple[Any, Any]:
    words = tf.placeholder(tf.string, [None], name="words")
    content = tf.lookup.TextFileInitializer(
        str(vocabulary),
        tf.string,
        tf.lookup.TextFileIndex.WHOLE_LINE,
        tf.int64,
        tf.lookup.TextFileIndex.LINE_NUMBER,
    )
    found = tf.lookup.StaticHashTable(content, -1).lookup(words)
    return words, tf.identity(found, name="ids")


def test_a_simple_model_is_loaded_under_any_scope(tmp_path: Path) -> None:
    folder = str(tmp_path / "a" / "model")
    assert not tf.saved_model.maybe_saved_model_directory(folder)
    with tf.Graph().as_default(), tf.Session() as sess:
        x, y = build()
        sess.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(sess, folder, {"in": x}, {"out": y})
    assert tf.saved_model.contains_saved_model(folder)
    for scope in (None, "scope"):
        with tf.Graph().as_default(), tf.Session() as sess:
            loaded = tf.saved_model.loader.load(sess, ["serve"], folder, import_scope=scope)
            signature = loaded.signature_def["serving_default"]
            assert tf.saved_model.is_valid_signature(signature)
            get = tf.saved_model.utils.get_tensor_from_tensor_info
            fed = get(signature.inputs["in"], import_scope=scope)
            fetched = get(signature.outputs["out"], import_scope=scope)
            assert fed.shape.as_list() == [None, 2]
            np.testing.assert_array_equal(sess.run(fetched, {fed: [[1, 1]]}), [[9.0]])


@pytest.mark.parametrize("as_text", [False, True])
def test_a_model_takes_its_files_along(tmp_path: Path, as_text: bool) -> None:
    vocabulary = tmp_path / "vocabulary.txt"
    vocabulary.write_text("a\nb\nc\n")
    with tf.Graph().as_default(), tf.Session() as sess:
        build()
        words, ids = table(vocabulary)
        sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
        builder = tf.saved_model.builder.SavedModelBuilder(str(tmp_path / "model"))
        builder.add_meta_graph_and_variables(
            sess,
            ["serve", "mine"],
            {"words": tf.saved_model.predict_signature_def({"words": words}, {"ids": ids})},
            assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
            main_op=tf.tables_initializer(),
        )
        written = builder.save(as_text=as_text).decode()
    assert written.endswith("saved_model.pbtxt" if as_text else "saved_model.pb")
    vocabulary.unlink()
    (tmp_path / "model").rename(tmp_path / "moved")
    for scope in (None, "scope"):
        with tf.Graph().as_default(), tf.Session() as sess:
            tf.saved_model.load(sess, {"mine", "serve"}, str(tmp_path / "moved"), scope)
            prefix = f"{scope}/" if scope else ""
            found = sess.run(f"{prefix}ids:0", {f"{prefix}words:0": ["c", "x", "a"]})
            assert found.tolist() == [2, -1, 0]


def test_several_graphs_share_the_variables_of_the_first(tmp_path: Path) -> None:
    folder = str(tmp_path / "model")
    builder = tf.saved_model.Builder(folder)
    with tf.Graph().as_default(), tf.Session() as sess:
        build()
        sess.run(tf.global_variables_initializer())
        with pytest.raises(AssertionError, match="has not been saved yet"):
            builder.add_meta_graph(["other"])
        builder.add_meta_graph_and_variables(sess, ["train"])
        with pytest.raises(AssertionError, match="has already been saved"):
            builder.add_meta_graph_and_variables(sess, ["again"])
    with tf.Graph().as_default():
        w = tf.get_variable("w", [2, 1])
        tf.multiply(w, 10.0, name="tenfold")
        builder.add_meta_graph(["serve"], strip_default_attrs=True, clear_devices=True)
    builder.save()
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.saved_model.load(sess, ["serve"], folder)
        np.testing.assert_array_equal(sess.run("tenfold:0"), [[10.0], [20.0]])
    loader = SavedModelLoader(folder)
    assert len(loader.saved_model.meta_graphs) == 2
    with pytest.raises(RuntimeError, match=r"tags 'gone' could not be found .*\{'train'\}"):
        loader.get_meta_graph_def_from_tags(["gone"])


def test_a_model_without_variables_is_saved_and_loaded(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [], name="x")
        tf.saved_model.simple_save(sess, str(tmp_path / "m"), {"x": x}, {"y": x + 1.0})
    with tf.Graph().as_default(), tf.Session() as sess:
        loaded = tf.saved_model.load(sess, ["serve"], str(tmp_path / "m"))
        name = loaded.signature_def["serving_default"].outputs["y"].name
        assert sess.run(name, {"x:0": 1.0}) == 2.0


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    with pytest.raises(AssertionError, match="already exists, and isn't empty"):
        tf.saved_model.Builder(str(tmp_path / "full"))
    with tf.Graph().as_default(), tf.Session() as sess:
        with pytest.raises(OSError, match="SavedModel file does not exist at"):
            tf.saved_model.load(sess, ["serve"], str(tmp_path / "none"))
        (tmp_path / "full" / "saved_model.pb").write_bytes(b"\xff\xff")
        with pytest.raises(OSError, match="Cannot parse file"):
            tf.saved_model.load(sess, ["serve"], str(tmp_path / "full"))
        x, y = build()
        sess.run(tf.global_variables_initializer())
        builder = tf.saved_model.Builder(str(tmp_path / "m"))
        nameless = tf.saved_model.build_signature_def({"x": tf.TensorInfo(dtype=1)})
        typeless = tf.saved_model.build_signature_def({"x": tf.TensorInfo(name="x:0")})
        for arguments, error, text in (
            ({"signature_def_map": {"a": nameless}}, AssertionError, "'encoding' fields"),
            ({"signature_def_map": {"a": typeless}}, AssertionError, "dtype field set"),
            (
                {
                    "signature_def_map": {
                        "__saved_model_init_op": tf.saved_model.build_signature_def()
                    }
                },
                KeyError,
                "reserved for initialization",
            ),
            ({"main_op": x}, TypeError, "to be an Operation"),
            ({"assets_collection": [y]}, TypeError, "must be of type constant"),
            ({"assets_collection": ["file"]}, TypeError, "must be a Tensor"),
            ({"assets_collection": [tf.constant(1)]}, TypeError, "must be of dtype string"),
        ):
            with pytest.raises(error, match=text):
                builder.add_meta_graph_and_variables(sess, ["serve"], **arguments)


def test_files_of_one_name_stay_apart_unless_they_are_equal(tmp_path: Path) -> None:
    paths = []
    for folder, content in (("a", "1"), ("b", "2"), ("c", "1")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "words.txt").write_text(content)
        paths.append(str(tmp_path / folder / "words.txt"))
    with tf.Graph().as_default(), tf.Session() as sess:
        builder = tf.saved_model.Builder(str(tmp_path / "m"))
        builder.add_meta_graph_and_variables(
            sess, ["serve"], assets_collection=[tf.constant(path) for path in paths]
        )
        builder.save()
    assets = tmp_path / "m" / "assets"
    assert {p.name: p.read_text() for p in assets.iterdir()} == {
        "words.txt": "1",
        "words.txt_1": "2",
    }


def test_signatures_that_serve() -> None:
    with tf.Graph().as_default():
        examples = tf.placeholder(tf.string, [None])
        numbers = tf.placeholder(tf.float32, [None])
        utils = tf.saved_model.signature_def_utils
        valid = [
            utils.regression_signature_def(examples, numbers),
            utils.classification_signature_def(examples, examples, numbers),
            utils.classification_signature_def(examples, None, numbers),
            utils.predict_signature_def({"x": numbers}, {"y": examples}),
        ]
        assert all(utils.is_valid_signature(signature) for signature in valid)
        assert valid[0].method_name == tf.saved_model.REGRESS_METHOD_NAME
        assert set(valid[1].outputs) == {"classes", "scores"}
        assert not utils.is_valid_signature(None)
        assert not utils.is_valid_signature(utils.build_signature_def(method_name="other"))
        for make, text in (
            (lambda: utils.regression_signature_def(numbers, numbers), "must be of type string"),
            (lambda: utils.regression_signature_def(examples, examples), "must be of type float"),
            (lambda: utils.regression_signature_def(None, numbers), "cannot be None"),
            (
                lambda: utils.classification_signature_def(examples, None, None),
                "cannot both be None",
            ),
            (lambda: utils.predict_signature_def({}, {"y": numbers}), "`inputs` cannot be None"),
        ):
            with pytest.raises(ValueError, match=text):
                make()
        sparse = tf.sparse_placeholder(tf.float32, [2, 3])
        info = tf.saved_model.build_tensor_info(sparse)
        assert tf.saved_model.get_tensor_from_tensor_info(info).values.name == sparse.values.name
