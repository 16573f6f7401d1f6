"""A checkpoint goes from a variable's memory to the file, and back, without copies in between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf
from millrace.data import tensor_bundle
from millrace.platform.atomic_file import AtomicFile
from millrace.runtime.resources import VariableSlot


def addresses(sess: tf.Session) -> dict[str, int]:
    """Where the values of variables are."""
    found = sess._backend.state.resources.all_of(VariableSlot)
    return {name: slot.value.unsafe_buffer_pointer() for _, name, slot in found}


def make(resource: bool) -> list[Any]:
    return [
        tf.get_variable(f"v{i}", initializer=np.full([i + 1, 100], i, np.float32) + 0.5,
                        use_resource=resource)
        for i in range(3)
    ]  # fmt: skip


@pytest.mark.parametrize("resource", [False, True])
def test_a_save_writes_what_the_variables_hold_where_it_is(
    tmp_path: Path, resource: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(resource)
    written: list[int] = []
    write = AtomicFile.write

    def note(self: AtomicFile, content: Any) -> None:
        if isinstance(content, np.ndarray):
            written.append(content.ctypes.data)
        write(self, content)

    monkeypatch.setattr(AtomicFile, "write", note)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        tf.train.Saver().save(sess, str(tmp_path / "m"))
        assert sorted(written) == sorted(addresses(sess).values())


@pytest.mark.parametrize("resource", [False, True])
def test_a_restored_variable_has_the_memory_that_the_file_was_read_into(
    tmp_path: Path, resource: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = make(resource)
    read: list[int] = []
    aligned = tensor_bundle._aligned

    def note(*args: Any) -> Any:
        value = aligned(*args)
        read.append(value.ctypes.data)
        return value

    monkeypatch.setattr(tensor_bundle, "_aligned", note)
    changes = [v.assign_add(tf.ones_like(v)) for v in variables]
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        before = sess.run(variables)
        path = saver.save(sess, str(tmp_path / "m"))
        sess.run(changes)
        saver.restore(sess, path)
        assert sorted(read) == sorted(addresses(sess).values())
        restored = sess.run(variables)
        sess.run(changes)
        for old, back, new in zip(before, restored, sess.run(variables), strict=True):
            np.testing.assert_array_equal(back, old)
            np.testing.assert_array_equal(new, old + 1)


def test_two_variables_that_get_one_restored_tensor_do_not_share_it(tmp_path: Path) -> None:
    a, b = (tf.get_variable(name, initializer=np.zeros(100, np.float32)) for name in "ab")
    saver = tf.train.Saver([a])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        path = saver.save(sess, str(tmp_path / "m"))
        (tensor,) = tf.raw_ops.RestoreV2(
            prefix=path, tensor_names=["a"], shape_and_slices=[""], dtypes=[tf.float32]
        )
        sess.run([a.assign(tensor), b.assign(tensor)])
        places = addresses(sess)
        assert places["a"] != places["b"]
        for _ in range(3):
            sess.run(a.assign_add(tf.ones([100])))
        assert sess.run([a, b])[0].tolist() == [3.0] * 100
        assert sess.run(b).tolist() == [0.0] * 100
        kept = sess.run([tensor, a.assign(tensor)])[0]
        sess.run(a.assign_add(tf.ones([100])))
        assert kept.tolist() == [0.0] * 100
