"""Initial values from checkpoints: `init_from_checkpoint`, `warm_start`, and looking into files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.training.checkpoint.warm_start import WarmStartSettings

ROWS = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    with tf.Graph().as_default(), tf.Session() as sess:
        with tf.variable_scope("old"):
            tf.get_variable("a", initializer=[1.0, 2.0])
            tf.get_variable("b", initializer=3)
        tf.get_variable("emb", initializer=ROWS)
        tf.get_variable("cut", initializer=ROWS, partitioner=tf.fixed_size_partitioner(2))
        sess.run(tf.global_variables_initializer())
        return str(tf.train.Saver().save(sess, str(tmp_path / "m")))


def initialised(variables: Any) -> Any:
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        return sess.run([tf.convert_to_tensor(v) for v in variables])


def test_a_checkpoint_tells_what_it_has(checkpoint: str) -> None:
    reader = tf.train.NewCheckpointReader(checkpoint)
    shapes = {"cut": [4, 3], "emb": [4, 3], "old/a": [2], "old/b": []}
    assert reader.get_variable_to_shape_map() == shapes
    assert reader.get_variable_to_dtype_map()["old/b"] == tf.int32
    assert reader.has_tensor("old/a") and not reader.has_tensor("a")
    np.testing.assert_array_equal(reader.get_tensor("cut"), ROWS)
    assert b"cut (DT_FLOAT) [4,3], 2 slices\n" in reader.debug_string()
    with pytest.raises(tf.errors.NotFoundError, match="Key nope not found in checkpoint"):
        reader.get_tensor("nope")


def test_a_folder_stands_for_its_newest_checkpoint(checkpoint: str, tmp_path: Path) -> None:
    folder = str(tmp_path)
    assert tf.train.list_variables(folder) == tf.train.list_variables(checkpoint)
    assert tf.train.load_variable(folder, "old/b:0") == 3
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="Couldn't find 'checkpoint' file or checkpoints"):
        tf.train.load_checkpoint(str(tmp_path / "empty"))
    with pytest.raises(tf.errors.NotFoundError, match="Failed to find any matching files"):
        tf.train.load_checkpoint(str(tmp_path / "nothing"))


def test_new_checkpoints_are_yielded_as_they_come(checkpoint: str, tmp_path: Path) -> None:
    steps = tf.train.checkpoints_iterator(str(tmp_path), timeout=0)
    assert next(steps) == checkpoint
    tf.train.update_checkpoint_state(str(tmp_path), checkpoint)
    with pytest.raises(StopIteration):
        next(steps)
    answers = [False, True]
    assert list(
        tf.train.checkpoints_iterator(str(tmp_path), timeout=0, timeout_fn=lambda: answers.pop(0))
    ) == [checkpoint]
    assert answers == []


@pytest.mark.parametrize("resource", [False, True])
def test_every_form_of_an_assignment_map(checkpoint: str, resource: bool) -> None:
    def made() -> list[Any]:
        with tf.variable_scope("new", use_resource=resource):
            return [
                tf.get_variable("a", initializer=[0.0, 0.0]),
                tf.get_variable("b", initializer=0),
            ]

    for form in ("scope", "names", "variables", "pairs"):
        with tf.Graph().as_default():
            a, b = made()
            maps: dict[str, Any] = {
                "scope": {"old/": "new/"},
                "names": {"old/a": "new/a", "old/b": "new/b"},
                "variables": {"old/a": a, "old/b": b},
                "pairs": [("old/a", a), ("old/b", "new/b")],
            }
            tf.train.init_from_checkpoint(checkpoint, maps[form])
            found = initialised([a, b])
            np.testing.assert_array_equal(found[0], [1.0, 2.0])
            assert found[1] == 3


def test_all_of_a_checkpoint_goes_into_a_scope_and_into_parts(checkpoint: str) -> None:
    with tf.Graph().as_default():
        with tf.variable_scope("net"):
            cut = tf.get_variable("emb", [4, 3], partitioner=tf.fixed_size_partitioner(3))
            with tf.variable_scope("old"):
                a = tf.get_variable("a", [2])
        tf.train.init_from_checkpoint(checkpoint, {"/": "net/"})
        found = initialised([cut, a])
        np.testing.assert_array_equal(found[0], ROWS)
        np.testing.assert_array_equal(found[1], [1.0, 2.0])
    for given in ("parts", "whole", "name"):
        with tf.Graph().as_default():
            cut = tf.get_variable("x", [4, 3], partitioner=tf.fixed_size_partitioner(2))
            target: Any = {"parts": list(cut), "whole": cut, "name": "x"}[given]
            tf.train.init_from_checkpoint(checkpoint, {"cut": target})
            np.testing.assert_array_equal(initialised([cut])[0], ROWS)


def test_what_does_not_fit_is_named(checkpoint: str) -> None:
    with tf.Graph().as_default():
        a = tf.get_variable("a", [3])
        cut = tf.get_variable("p", [5, 3], partitioner=tf.fixed_size_partitioner(2))
        for bad, text in (
            ({"old/a": a}, r"Shape of variable a:0 \(\(3,\)\) doesn't match .* old/a \(\[2\]\)"),
            ({"emb": cut}, r"p/part_0:0,p/part_1:0 \(\[5, 3\]\) doesn't match .*emb \(\[4, 3\]\)"),
            ({"gone": a}, "Tensor gone is not found in"),
            ({"old/": "a/"}, None),
            ({"old/x": "b/c"}, "should map to scope only old/x"),
            ({"old/": "/"}, "Tensor old/p .* is not found in|Shape of variable"),
        ):
            if text is None:
                tf.train.init_from_checkpoint(checkpoint, bad)  # an empty scope
                continue
            with pytest.raises(ValueError, match=text):
                tf.train.init_from_checkpoint(checkpoint, bad)


def test_a_warm_start_takes_variables_by_pattern_and_by_other_names(checkpoint: str) -> None:
    with tf.Graph().as_default():
        emb = tf.get_variable("emb", [4, 3])
        other = tf.get_variable("other", [2], initializer=tf.zeros_initializer())
        fixed = tf.get_variable("old/a", [2], trainable=False)
        tf.train.warm_start(checkpoint, ".*emb")
        tf.train.warm_start(checkpoint, ["old/a"])
        tf.train.warm_start(checkpoint, [other], var_name_to_prev_var_name={"other": "old/a"})
        found = initialised([emb, other, fixed])
        np.testing.assert_array_equal(found[0], ROWS)
        np.testing.assert_array_equal(found[1], [1.0, 2.0])
        np.testing.assert_array_equal(found[2], [1.0, 2.0])
        with pytest.raises(ValueError, match="not used: .*'typo'.*Perhaps you misspelled"):
            tf.train.warm_start(checkpoint, "emb", var_name_to_prev_var_name={"typo": "old/a"})
        with pytest.raises(ValueError, match="must be all `Variable` or all `str`"):
            tf.train.warm_start(checkpoint, [emb, "emb"])


@pytest.mark.parametrize("parts", [1, 3])
def test_rows_follow_their_words_into_another_vocabulary(
    checkpoint: str, tmp_path: Path, parts: int
) -> None:
    """The words of the embedding: a b c d; of the new one: c new a, and a bucket."""
    (tmp_path / "old.txt").write_text("a\nb\nc\nd\n")
    (tmp_path / "new.txt").write_text("c\nnew\na\n")
    info = tf.train.VocabInfo(
        new_vocab=str(tmp_path / "new.txt"),
        new_vocab_size=3,
        num_oov_buckets=1,
        old_vocab=str(tmp_path / "old.txt"),
        backup_initializer=tf.ones_initializer(),
    )
    with tf.Graph().as_default():
        emb = tf.get_variable("emb", [4, 3], partitioner=tf.fixed_size_partitioner(parts))
        tf.train.warm_start(checkpoint, "emb", {"emb": info})
        expected = [ROWS[2], [1.0] * 3, ROWS[0], [1.0] * 3]
        np.testing.assert_array_equal(initialised([emb])[0], expected)


def test_columns_follow_their_words_and_only_the_words_that_count(
    checkpoint: str, tmp_path: Path
) -> None:
    (tmp_path / "old.txt").write_text("x\ny\nz\n")
    (tmp_path / "new.txt").write_text("z\nx\n")
    with tf.Graph().as_default():
        emb = tf.get_variable("emb", [4, 2])
        info = tf.train.VocabInfo(
            str(tmp_path / "new.txt"), 2, 0, str(tmp_path / "old.txt"), axis=1
        )
        tf.train.warm_start(checkpoint, None, {"emb": info})
        np.testing.assert_array_equal(initialised([emb])[0], ROWS[:, [2, 0]])
    (tmp_path / "old.txt").write_text("z\nb\nx\nd\n")
    with tf.Graph().as_default():
        emb = tf.get_variable("emb", [2, 3])
        info = tf.train.VocabInfo(
            str(tmp_path / "new.txt"), 2, 0, str(tmp_path / "old.txt"), old_vocab_size=2
        )
        tf.train.warm_start(checkpoint, None, {"emb": info})
        np.testing.assert_array_equal(initialised([emb])[0], [ROWS[0], [0, 0, 0]])
    with pytest.raises(ValueError, match="axis argument are 0 and 1.  Provided axis: 2"):
        tf.train.VocabInfo("a", 1, 0, "b", axis=2)


def test_settings_of_a_warm_start_have_defaults() -> None:
    settings = WarmStartSettings("folder")
    assert settings == ("folder", ".*", {}, {})
    with pytest.raises(ValueError, match="MUST be set"):
        WarmStartSettings("")
