"""`tf.train.Saver`: what it saves, restores, keeps and deletes, and what it says when it cannot."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.core.config import SaverDef
from millrace.training.checkpoint.saver_builder import BaseSaverBuilder


def build(parts: int = 3, resource: bool = False) -> list[Any]:
    return [
        tf.Variable(np.arange(20, dtype=np.int64), name="a"),
        tf.Variable([b"hello", b"world"], name="s"),
        tf.get_variable(
            "p",
            initializer=tf.reshape(tf.range(10.0), [5, 2]) if parts == 1 else None,
            shape=None if parts == 1 else [5, 2],
            partitioner=None if parts == 1 else tf.fixed_size_partitioner(parts),
            use_resource=resource,
        ),
        tf.Variable(2.5, name="r", use_resource=True),
    ]


def values(sess: tf.Session, variables: list[Any]) -> list[Any]:
    return [sess.run(tf.convert_to_tensor(v)) for v in variables]


def save(path: Any, parts: int = 3, resource: bool = False, **options: Any) -> tuple[str, Any]:
    with tf.Graph().as_default():
        variables = build(parts, resource)
        saver = tf.train.Saver(**options)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            saved = saver.save(sess, str(path))
            assert saved is not None
            return saved, values(sess, variables)


@pytest.mark.parametrize("version", [SaverDef.V1, SaverDef.V2])
@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("resource", [False, True])
def test_what_was_saved_in_three_parts_is_restored_in_any_number(
    tmp_path: Path, version: int, sharded: bool, resource: bool
) -> None:
    path, expected = save(
        tmp_path / "model", resource=resource, sharded=sharded, write_version=version
    )
    for parts in (1, 2, 3):
        with tf.Graph().as_default():
            variables = build(parts, resource)
            with tf.Session() as sess:
                tf.train.Saver().restore(sess, path)
                for found, wanted in zip(values(sess, variables), expected, strict=True):
                    np.testing.assert_array_equal(found, wanted)


def test_the_newest_checkpoint_is_found_by_the_folder(tmp_path: Path) -> None:
    assert tf.train.latest_checkpoint(str(tmp_path)) is None
    assert tf.train.get_checkpoint_state(str(tmp_path)) is None
    path, _ = save(tmp_path / "model")
    assert tf.train.latest_checkpoint(str(tmp_path)) == path
    assert tf.train.get_checkpoint_state(tmp_path).model_checkpoint_path == path
    assert tf.train.checkpoint_exists(path)
    os.remove(f"{path}.index")
    assert tf.train.latest_checkpoint(str(tmp_path)) is None
    assert not tf.train.checkpoint_exists(path)


def test_a_step_becomes_part_of_the_name(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        step = tf.Variable(41, name="step")
        sess.run(step.initializer)
        saver = tf.train.Saver(pad_step_number=True)
        prefix = str(tmp_path / "m")
        assert tf.train.Saver().save(sess, prefix, global_step=7) == f"{prefix}-7"
        assert saver.save(sess, prefix, global_step=step) == f"{prefix}-00000041"
        assert saver.save(sess, prefix, global_step="step:0") == f"{prefix}-00000041"
        assert saver.save(sess, prefix, global_step=np.int64(3)) == f"{prefix}-00000003"


def test_only_as_many_checkpoints_are_kept_as_asked_for(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(1.0, name="v")
        sess.run(v.initializer)
        saver = tf.train.Saver(max_to_keep=2)
        for step in range(4):
            saver.save(sess, str(tmp_path / "m"), global_step=step)
        kept = [str(tmp_path / f"m-{step}") for step in (2, 3)]
        assert saver.last_checkpoints == kept
        assert list(tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths) == kept
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["checkpoint"] + [
        f"m-{step}.{end}" for step in (2, 3) for end in ("data-00000-of-00001", "index", "meta")
    ]


@pytest.mark.parametrize("max_to_keep", [0, None])
def test_all_checkpoints_are_kept_without_a_limit(tmp_path: Path, max_to_keep: Any) -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(1.0, name="v")
        sess.run(v.initializer)
        saver = tf.train.Saver(max_to_keep=max_to_keep)
        for step in range(7):
            saver.save(sess, str(tmp_path / "m"), global_step=step, write_meta_graph=False)
        assert saver.last_checkpoints == []
    assert len(list(tmp_path.glob("*.index"))) == 7
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert list(state.all_model_checkpoint_paths) == [str(tmp_path / "m-6")]


def test_one_more_checkpoint_is_kept_every_n_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr("millrace.training.checkpoint.saver.time.time", lambda: now[0])
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(1.0, name="v")
        sess.run(v.initializer)
        saver = tf.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=1)
        for step in range(6):
            now[0] = 1000.0 + step * 1500  # a checkpoint every 25 minutes
            saver.save(sess, str(tmp_path / "m"), global_step=step, write_meta_graph=False)
    # 3 at 75 minutes, 5 at 125 minutes and the newest.
    assert sorted(p.stem for p in tmp_path.glob("*.index")) == ["m-3", "m-5"]


def test_a_restarted_saver_goes_on_with_the_checkpoints_that_there_are(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(1.0, name="v")
        sess.run(v.initializer)
        first = tf.train.Saver(max_to_keep=2)
        paths = [first.save(sess, str(tmp_path / "m"), global_step=i) for i in range(2)]
        second = tf.train.Saver(max_to_keep=2)
        second.recover_last_checkpoints([*paths, str(tmp_path / "gone")])
        assert second.last_checkpoints == paths
        assert [t for _, t in second._last_checkpoints] == tf.train.get_checkpoint_mtimes(paths)
        second.save(sess, str(tmp_path / "m"), global_step=2)
        assert not tf.train.checkpoint_exists(paths[0])
        assert tf.train.checkpoint_exists(paths[1])
        tf.train.remove_checkpoint(paths[1])
        assert not list(tmp_path.glob("m-1*"))


def test_saving_twice_under_one_name_keeps_one_checkpoint(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(1.0, name="v")
        saver = tf.train.Saver()
        path = str(tmp_path / "m")
        for value in (1.0, 2.0, 3.0):
            v.load(value, sess)
            saver.save(sess, path, write_meta_graph=False)
        assert saver.last_checkpoints == [path]
        v.load(0.0, sess)
        saver.restore(sess, path)
        assert sess.run(v) == 3.0
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "checkpoint",
        "m.data-00000-of-00001",
        "m.index",
    ]


def test_variables_are_saved_under_other_names_and_in_part(tmp_path: Path) -> None:
    path = str(tmp_path / "m")
    with tf.Graph().as_default(), tf.Session() as sess:
        a = tf.Variable([1.0, 2.0], name="a")
        b = tf.Variable(3, name="b")
        sess.run(tf.global_variables_initializer())
        tf.train.Saver({"old/a": a, "old/b": b}).save(sess, path)
    with tf.Graph().as_default(), tf.Session() as sess:
        new = tf.Variable([0.0, 0.0], name="new")
        other = tf.Variable(7, name="other")
        sess.run(tf.global_variables_initializer())
        tf.train.Saver({"old/a": new}).restore(sess, path)
        np.testing.assert_array_equal(sess.run(new), [1.0, 2.0])
        assert sess.run(other) == 7


def test_a_variable_takes_a_value_of_another_shape_when_told_so(tmp_path: Path) -> None:
    path = str(tmp_path / "m")
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.Variable(tf.range(6.0), name="v")
        sess.run(tf.global_variables_initializer())
        tf.train.Saver().save(sess, path)
    for resource in (False, True):
        with tf.Graph().as_default(), tf.Session() as sess:
            v = tf.Variable(tf.zeros([2, 3]), name="v", use_resource=resource)
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"v \(variable v\) has shape"):
                tf.train.Saver().restore(sess, path)
            tf.train.Saver(reshape=True).restore(sess, path)
            np.testing.assert_array_equal(sess.run(v), [[0, 1, 2], [3, 4, 5]])


def test_errors_of_a_restore_name_variables_and_numbers(tmp_path: Path) -> None:
    path, _ = save(tmp_path / "m")

    def restoring(make: Callable[[], Any], error: Any, text: str) -> None:
        with tf.Graph().as_default(), tf.Session() as sess:
            make()
            with pytest.raises(error, match=text):
                tf.train.Saver().restore(sess, path)

    restoring(
        lambda: tf.Variable([1, 2], name="a", dtype=tf.int64),
        tf.errors.InvalidArgumentError,
        r"(?s)a \(variable a\) has shape \[20\] in the checkpoint and \[2\] in the graph.*lhs "
        r"shape= \[2\] rhs shape= \[20\]",
    )
    restoring(
        lambda: tf.Variable(np.zeros(20, np.float32), name="a"),
        tf.errors.InvalidArgumentError,
        "(?s)is int64 in the checkpoint and float32 in the graph.*expected dtype float does not "
        "equal original dtype int64",
    )
    restoring(
        lambda: tf.get_variable("p", [6, 2], partitioner=tf.fixed_size_partitioner(2)),
        tf.errors.InvalidArgumentError,
        r"shape in shape_and_slice spec \[6,2\] does not match the shape stored in checkpoint: "
        r"\[5,2\]",
    )
    restoring(
        lambda: [tf.Variable(1, name="x"), tf.Variable(1, name="y"), tf.Variable([b"x"], name="s")],
        tf.errors.NotFoundError,
        r"Key x not found in checkpoint .*; neither are y \(2 of 3 tensors are missing",
    )


def test_bad_arguments_are_refused_as_tensorflow_refuses_them(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        with pytest.raises(ValueError, match="No variables to save"):
            tf.train.Saver()
        empty = tf.train.Saver(allow_empty=True)
        assert empty.save(sess, str(tmp_path / "e")) is None
        empty.restore(sess, "anything")
        v = tf.Variable(1, name="v")
        for bad, error, text in (
            ([tf.constant(1)], TypeError, "Variable to save is not a Variable"),
            ({"a": tf.constant(1)}, TypeError, "Not a variable"),
            ({1: v}, TypeError, "Name is not a string: 1"),
            (v, TypeError, "passed in a dict or a list"),
            ([v, v], ValueError, "At least two variables have the same name: v"),
            ({"a": v, "b": v}, ValueError, "restored with two names: b"),
            ({"a": [v]}, ValueError, "Slices must all be slices"),
            ({"a": [3]}, ValueError, "Slices must all be Variables: 3"),
        ):
            with pytest.raises(error, match=text):
                tf.train.Saver(bad)
        with pytest.raises(ValueError, match="build cannot be deferred"):
            tf.train.Saver([v], defer_build=True)
        deferred = tf.train.Saver(defer_build=True)
        with pytest.raises(RuntimeError, match=r"build\(\)` should be called before save"):
            deferred.save(sess, str(tmp_path / "m"))
        deferred.build()
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value v"):
            deferred.save(sess, str(tmp_path / "m"))
        sess.run(v.initializer)
        saver = tf.train.Saver()
        with pytest.raises(ValueError, match="collides with 'save_path'"):
            saver.save(sess, str(tmp_path / "checkpoint"))
        with pytest.raises(ValueError, match="must not contain path components"):
            saver.save(sess, str(tmp_path / "m"), latest_filename="a/b")
        with pytest.raises(ValueError, match="Parent directory of .* doesn't exist, can't save"):
            saver.save(sess, str(tmp_path / "no" / "no" / "m"))
        with pytest.raises(TypeError, match="'sess' must be a Session"):
            saver.save(None, str(tmp_path / "m"))
        with pytest.raises(ValueError, match="Can't load save_path when it is None"):
            saver.restore(sess, None)
        with pytest.raises(ValueError, match="not a valid checkpoint"):
            saver.restore(sess, str(tmp_path / "nothing"))
        assert not list(tmp_path.glob("m*"))


def test_a_meta_graph_brings_its_saver_along(tmp_path: Path) -> None:
    path, expected = save(tmp_path / "model", resource=True)
    for scope in (None, "inner"):
        with tf.Graph().as_default() as graph, tf.Session() as sess:
            saver = tf.train.import_meta_graph(f"{path}.meta", import_scope=scope)
            assert isinstance(saver, tf.train.Saver)
            saver.restore(sess, path)
            prefix = f"{scope}/" if scope else ""
            np.testing.assert_array_equal(sess.run(f"{prefix}a:0"), expected[0])
            parts = [v for v in tf.global_variables() if "/part_" in v.name]
            assert [v._save_slice_info.full_name for v in parts] == [f"{prefix}p"] * 3
            again = saver.save(sess, str(tmp_path / "again"), write_meta_graph=False)
            assert again == str(tmp_path / "again")
            if scope is None:
                assert tf.train.list_variables(again) == tf.train.list_variables(path)
            assert graph.get_operation_by_name(saver.saver_def.restore_op_name)


def test_a_saver_becomes_a_message_and_a_saver_again(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        with tf.name_scope("outer"):
            v = tf.Variable(1.0, name="v")
            saver = tf.train.Saver(max_to_keep=3)
        tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
        assert saver.as_saver_def() is saver.to_proto()
        stripped = saver.to_proto(export_scope="outer")
        assert stripped is not None and stripped.save_tensor_name == "save/control_dependency:0"
        assert saver.to_proto(export_scope="elsewhere") is None
        sess.run(v.initializer)
        again = tf.train.Saver.from_proto(stripped, import_scope="outer")
        path = again.save(sess, str(tmp_path / "m"))
        assert path is not None and again.saver_def.max_to_keep == 3
        meta = tf.train.export_meta_graph(saver_def=saver.saver_def)
        with pytest.raises(ValueError, match="must specify the save_tensor_name"):
            tf.train.Saver(saver_def=SaverDef(restore_op_name="x"))
    with tf.Graph().as_default(), tf.Session() as sess:
        imported = tf.train.import_meta_graph(meta)
        imported.restore(sess, path)
        (collected,) = tf.get_collection(tf.GraphKeys.SAVERS)
        collected.restore(sess, path)
        assert sess.run("outer/v:0") == 1.0


def test_a_table_is_saved_with_the_variables(tmp_path: Path) -> None:
    def make() -> Any:
        return tf.lookup.experimental.DenseHashTable(
            tf.string, tf.int64, -1, empty_key="", deleted_key="-", name="words"
        )

    with tf.Graph().as_default(), tf.Session() as sess:
        words = make()
        sess.run(words.insert(["a", "b"], [1, 2]))
        path = tf.train.Saver().save(sess, str(tmp_path / "m"))
    with tf.Graph().as_default(), tf.Session() as sess:
        words = make()
        tf.train.Saver().restore(sess, path)
        assert sess.run(words.lookup(["b", "c", "a"])).tolist() == [2, -1, 1]


def test_an_object_that_says_how_is_saved_as_it_says(tmp_path: Path) -> None:
    class Halved(BaseSaverBuilder.SaveableObject):
        """Saves twice the value of a variable, and restores half of what it finds."""

        def __init__(self, variable: Any, name: str) -> None:
            spec = BaseSaverBuilder.SaveSpec(variable * 2.0, "", f"{name}/doubled")
            super().__init__(variable, [spec], name)

        def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
            return self.op.assign(restored_tensors[0] / 2.0)

    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(3.0, name="v")
        sess.run(v.initializer)
        saver = tf.train.Saver([Halved(v, "v")])
        path = saver.save(sess, str(tmp_path / "m"))
        assert tf.train.load_variable(path, "v/doubled") == 6.0
        v.load(0.0, sess)
        saver.restore(sess, path)
        assert sess.run(v) == 3.0


def test_checkpoints_of_objects_are_restored_by_name() -> None:
    """Written by tf.train.Checkpoint; see golden_checkpoints/record.py."""
    path = str(Path(__file__).parents[2] / "data" / "golden_checkpoints" / "objects")
    with tf.Graph().as_default(), tf.Session() as sess:
        w = tf.Variable([0.0, 0.0], name="w")
        step = tf.Variable(0, name="step")
        saver = tf.train.Saver()
        for _ in range(2):
            saver.restore(sess, path)
            assert sess.run(step) == 7
            np.testing.assert_array_equal(sess.run(w), [1.5, 2.5])
        tf.Variable(0, name="gone")
        with pytest.raises(tf.errors.NotFoundError, match="not in the checkpoint: gone"):
            tf.train.Saver().restore(sess, path)


def test_everything_works_behind_a_url(request: pytest.FixtureRequest) -> None:
    folder = f"memory://{abs(hash(request.node.name))}"
    with tf.Graph().as_default(), tf.Session() as sess:
        v = tf.Variable(0.0, name="v")
        with tf.device("/cpu:0"):
            tf.Variable(1.0, name="w").initializer.run(session=sess)
        for sharded in (False, True):
            saver = tf.train.Saver(sharded=sharded, max_to_keep=2)
            for step in range(3):
                v.load(step + 10.0 * sharded, sess)
                saver.save(sess, f"{folder}/m{sharded}", global_step=step)
            found = tf.train.latest_checkpoint(folder)
            assert found == f"{folder}/m{sharded}-2"
            v.load(-1.0, sess)
            saver.restore(sess, found)
            assert sess.run(v) == 2.0 + 10.0 * sharded
            assert not tf.train.checkpoint_exists(f"{folder}/m{sharded}-0")
            # The same name again.
            for value in (5.0, 6.0):
                v.load(value, sess)
                saver.save(sess, f"{folder}/same")
                v.load(-1.0, sess)
                saver.restore(sess, f"{folder}/same")
                assert sess.run(v) == value
        with tf.Graph().as_default(), tf.Session() as other:
            imported = tf.train.import_meta_graph(f"{folder}/same.meta")
            imported.restore(other, f"{folder}/same")
            assert other.run("v:0") == 6.0
    assert not [n for n in tf.gfile.ListDirectory(folder) if "temp" in n]


def test_a_folder_that_was_moved_is_found_when_paths_are_relative(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.Variable(1.0, name="v").initializer.run(session=sess)
        saver = tf.train.Saver(save_relative_paths=True)
        (tmp_path / "a").mkdir()
        for step in range(2):
            saver.save(sess, str(tmp_path / "a" / "m"), global_step=step)
    (tmp_path / "a").rename(tmp_path / "b")
    state = tf.train.get_checkpoint_state(str(tmp_path / "b"))
    assert state.model_checkpoint_path == str(tmp_path / "b" / "m-1")
    assert list(state.all_model_checkpoint_paths) == [
        str(tmp_path / "b" / f"m-{i}") for i in (0, 1)
    ]
    assert tf.train.latest_checkpoint(str(tmp_path / "b")) == str(tmp_path / "b" / "m-1")


def test_relative_names_are_written_relative_to_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with tf.Graph().as_default(), tf.Session() as sess:
        tf.Variable(1.0, name="v").initializer.run(session=sess)
        saver = tf.train.Saver()
        for prefix in ("m", "./m", "folder/m"):
            path = saver.save(sess, prefix, global_step=1, latest_filename="latest")
            folder = os.path.dirname(prefix)
            assert path == f"{prefix}-1"
            text = Path(folder, "latest").read_text()
            assert text.startswith('model_checkpoint_path: "m-1"\n')
            found = tf.train.latest_checkpoint(folder, "latest")
            assert found is not None and os.path.normpath(found) == os.path.normpath(path)


def test_a_state_file_that_cannot_be_read_is_as_none(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text("model_checkpoint_path: nothing quoted {")
    assert tf.train.get_checkpoint_state(str(tmp_path)) is None
    (tmp_path / "checkpoint").write_bytes(b"\xff\xfe\x00")
    assert tf.train.latest_checkpoint(str(tmp_path)) is None
    (tmp_path / "checkpoint").write_text("")
    with pytest.raises(ValueError, match="Invalid checkpoint state loaded from"):
        tf.train.get_checkpoint_state(str(tmp_path))
    with pytest.raises(ValueError, match="timestamps, if provided, must match"):
        tf.train.generate_checkpoint_state_proto(
            str(tmp_path), "m", ["m"], all_model_checkpoint_timestamps=[1.0, 2.0]
        )
    with pytest.raises(RuntimeError, match="conflicts with path used for checkpoint state"):
        path = str(tmp_path / "checkpoint")
        tf.train.update_checkpoint_state(str(tmp_path), path)


def test_a_graph_that_comes_without_a_saver_gets_one_if_it_has_variables(tmp_path: Path) -> None:
    path, expected = save(tmp_path / "m")
    with tf.Graph().as_default():
        build()
        with_variables = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        tf.constant(1)
        without = tf.train.export_meta_graph()
    with tf.Graph().as_default(), tf.Session() as sess:
        saver = tf.train.import_meta_graph(with_variables)
        saver.restore(sess, path)
        np.testing.assert_array_equal(sess.run("a:0"), expected[0])
    with tf.Graph().as_default():
        assert tf.train.import_meta_graph(without) is None
