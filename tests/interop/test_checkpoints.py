"""Checkpoints and SavedModels travel both ways between Millrace and a stock TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.cli import main
from millrace.core.config import SaverDef

FORMATS: dict[str, dict[str, Any]] = {
    "whole": {},
    "sharded": {"sharded": True},
    "old": {"write_version": SaverDef.V1},
}


def build(parts: int) -> tuple[dict[str, Any], Any]:
    """The model of programs/checkpoints.py, its large variable cut into `parts`."""
    rows = tf.reshape(tf.range(28.0), [7, 4]) * 0.5
    variables = {
        "weights": tf.get_variable("weights", initializer=tf.range(6.0)),
        "counts": tf.Variable([[1, 2], [3, 4]], dtype=tf.int64, name="counts"),
        "words": tf.Variable(["ab", "", "é"], name="words"),
        "flags": tf.Variable([True, False], name="flags"),
        "half": tf.Variable([0.5, 1.5], dtype=tf.float16, name="half"),
        "handle": tf.get_variable("handle", initializer=[2.5, 3.5], use_resource=True),
    }
    kind = {"partitioner": tf.fixed_size_partitioner(parts)} if parts > 1 else {}
    with tf.device("/cpu:0"):
        variables["cut"] = tf.get_variable(
            "cut", [7, 4], initializer=tf.zeros_initializer(), **kind
        )
    fill = variables["cut"].assign(rows)
    return variables, tf.group(*fill) if isinstance(fill, list) else fill


def plain(value: Any) -> Any:
    if value.dtype == object:
        return [word.decode() for word in value]
    return value.tolist()


def values(sess: tf.Session, variables: dict[str, Any]) -> dict[str, Any]:
    return {name: plain(sess.run(tf.convert_to_tensor(v))) for name, v in variables.items()}


@pytest.fixture(scope="module")
def theirs(
    run_tensorflow: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Any]:
    """What TensorFlow wrote: the folder, and values and paths."""
    folder = tmp_path_factory.mktemp("theirs")
    return folder, run_tensorflow("checkpoints.py", "save", str(folder))


def save_compacted(folder: Path) -> None:
    """Saves a table by the rows that changed, and makes a full checkpoint of that."""
    folder.mkdir()
    with tf.Graph().as_default(), tf.Session() as sess:
        table = tf.get_variable("table", [2000, 4], initializer=tf.ones_initializer())
        saver = tf.train.Saver(keep_delta=True)
        sess.run(tf.global_variables_initializer())
        saver.save(sess, str(folder / "model"), global_step=0)
        sess.run(tf.scatter_add(table, [5, 1999], tf.ones([2, 4])))
        saver.save(sess, str(folder / "model"), global_step=1)
        assert main.main(["checkpoint", "compact", str(folder)]) == 0


@pytest.fixture(scope="module")
def ours(
    run_tensorflow: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, Any]:
    """The values that Millrace saved, and what TensorFlow restored."""
    folder = tmp_path_factory.mktemp("ours")
    with tf.Graph().as_default(), tf.Session() as sess:
        variables, fill = build(3)
        savers = {name: tf.train.Saver(**options) for name, options in FORMATS.items()}
        sess.run(tf.global_variables_initializer())
        sess.run(fill)
        for name, saver in savers.items():
            (folder / name).mkdir()
            saver.save(sess, str(folder / name / "model"), global_step=7)
        saved = values(sess, variables)
    save_compacted(folder / "compacted")
    with tf.Graph().as_default(), tf.Session() as sess:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        y = tf.matmul(x, tf.get_variable("w", initializer=[[1.0], [2.0]]))
        sess.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(sess, str(folder / "model"), {"x": x}, {"y": y})
    return saved, run_tensorflow("checkpoints.py", "restore", str(folder))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_a_checkpoint_of_tensorflow_is_restored(theirs: Any, name: str, parts: int) -> None:
    folder, saved = theirs
    path = tf.train.latest_checkpoint(str(folder / name))
    assert path == saved["paths"][name]
    with tf.Graph().as_default(), tf.Session() as sess:
        variables, _ = build(parts)
        tf.train.Saver().restore(sess, path)
        assert values(sess, variables) == saved["values"]


def test_a_graph_of_tensorflow_is_imported_with_its_saver(theirs: Any) -> None:
    folder, saved = theirs
    path = saved["paths"]["whole"]
    with tf.Graph().as_default(), tf.Session() as sess:
        saver = tf.train.import_meta_graph(f"{path}.meta")
        saver.restore(sess, path)
        assert plain(sess.run("weights:0")) == saved["values"]["weights"]
        parts = np.concatenate(sess.run([f"cut/part_{i}:0" for i in range(3)]))
        assert plain(parts) == saved["values"]["cut"]
        saver.save(sess, str(folder / "again"))
        assert tf.train.list_variables(str(folder / "again")) == tf.train.list_variables(path)


def test_a_model_of_tensorflow_is_loaded(theirs: Any) -> None:
    folder, _ = theirs
    with tf.Graph().as_default(), tf.Session() as sess:
        loaded = tf.saved_model.load(sess, ["serve"], str(folder / "model"))
        signature = loaded.signature_def["serving_default"]
        fed, fetched = signature.inputs["x"].name, signature.outputs["y"].name
        assert sess.run(fetched, {fed: [[1.0, 1.0]]}).tolist() == [[3.0]]


@pytest.mark.parametrize("name", FORMATS)
def test_tensorflow_restores_a_checkpoint_of_millrace(ours: Any, name: str) -> None:
    saved, restored = ours
    assert restored[name] == saved


def test_tensorflow_restores_a_compacted_checkpoint(ours: Any) -> None:
    table = np.array(ours[1]["compacted"]["table"])
    assert table.shape == (2000, 4) and set(table.ravel()) == {1.0, 2.0}
    assert np.flatnonzero((table == 2).all(axis=1)).tolist() == [5, 1999]


def test_tensorflow_imports_a_graph_of_millrace_with_its_saver(ours: Any) -> None:
    saved, restored = ours
    found = dict(restored["meta"])
    found["cut"] = [row for i in range(3) for row in found.pop(f"cut/part_{i}")]
    assert found == saved
    assert dict(restored["listed"])["cut"] == [7, 4]


def test_tensorflow_loads_a_model_of_millrace(ours: Any) -> None:
    _, restored = ours
    assert restored["v1 loader"] == restored["v2 loader"] == [[3.0]]


def test_tasks_of_millrace_save_and_restore_for_a_client_of_tensorflow(
    run_tensorflow: Callable[..., Any], cluster: Any, tmp_path: Path
) -> None:
    found = run_tensorflow("checkpoints.py", "remote", str(tmp_path), cluster.target)
    expected = [[float(i)] * 3 for i in range(4)] + [np.arange(10.0).reshape(5, 2).tolist()]
    for name in ("whole", "sharded"):
        assert found[name]["restored"] == found[name]["read"] == expected
        assert not np.any(np.concatenate([np.ravel(v) for v in found[name]["zeros"]]))
    assert len(list(tmp_path.glob("sharded-1.data-*-of-00002"))) == 2
