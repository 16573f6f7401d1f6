"""The ops behind a Saver, as a TensorFlow client's graph has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as tf

raw = tf.raw_ops


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILLRACE_FSYNC", "0")


def run(make: Any) -> Any:
    with tf.Graph().as_default(), tf.Session() as sess:
        return sess.run(make())


def save(prefix: Any, names: list[str], specs: list[str], tensors: list[Any]) -> Any:
    return raw.SaveV2(
        prefix=str(prefix), tensor_names=names, shape_and_slices=specs, tensors=tensors
    )


def restore(prefix: Any, names: list[str], specs: list[str], types: list[Any]) -> Any:
    return raw.RestoreV2(
        prefix=str(prefix), tensor_names=names, shape_and_slices=specs, dtypes=types
    )


def test_tensors_and_parts_go_out_and_come_back(tmp_path: Path) -> None:
    rows = np.arange(10, dtype=np.float32).reshape(5, 2)
    run(
        lambda: save(
            tmp_path / "new" / "m",
            ["a", "p", "p"],
            ["", "5 2 0,3:-", "5 2 3,2:0,2"],
            [tf.constant([1, 2]), rows[:3], rows[3:]],
        )
    )
    found = run(
        lambda: restore(
            tmp_path / "new" / "m",
            ["p", "a", "p"],
            ["", "", "5 2 1,3:1,1"],
            [tf.float32, tf.int32, tf.float32],
        )
    )
    np.testing.assert_array_equal(found[0], rows)
    np.testing.assert_array_equal(found[1], [1, 2])
    np.testing.assert_array_equal(found[2], rows[1:4, 1:2])


def test_static_shapes_come_from_the_parts_that_are_asked_for() -> None:
    with tf.Graph().as_default():
        whole, part = restore("m", ["a", "b"], ["", "5 2 1,3:-"], [tf.float32, tf.float32])
        assert whole.shape.ndims is None
        assert part.shape.as_list() == [3, 2]
        name = raw.ShardedFilename(basename="m", shard=3, num_shards=12)
        assert name.shape.as_list() == []
        for make, text in (
            (lambda: restore("m", ["a"], ["abc"], [tf.float32]), "Need least two elements"),
            (lambda: restore("m", ["a"], ["5 x 0,3"], [tf.float32]), "Non numerical dimension"),
            (lambda: restore("m", ["a"], ["5 2 0;3:-"], [tf.float32]), "pair of numbers or '-'"),
            (lambda: restore("m", ["a"], ["5 2 3,3:-"], [tf.float32]), "dimension 0 out of bounds"),
            (lambda: restore("m", ["a"], ["5 2 3,2"], [tf.float32]), "Mismatching ranks"),
            (lambda: restore("m", ["a"], [""], [tf.float32] * 2), "doesn't match tensor outputs"),
            (lambda: save("m", ["a", "b"], ["", ""], [tf.constant(1)]), "must be 1 but is 2"),
        ):
            with pytest.raises(ValueError, match=text):
                make()


def test_errors_are_tensorflows(tmp_path: Path) -> None:
    prefix = tmp_path / "m"
    run(lambda: save(prefix, ["a", "p"], ["", ""], [tf.constant([1, 2]), tf.zeros([5, 2])]))
    (tmp_path / "file").write_text("x")
    invalid, not_found = tf.errors.InvalidArgumentError, tf.errors.NotFoundError
    one = [np.int32(1)]
    for make, error, text in (
        (lambda: restore(prefix, ["q"], [""], [tf.int32]), not_found, "Key q not found"),
        (
            lambda: restore(prefix, ["a"], [""], [tf.float32]),
            invalid,
            "tensor_name = a; expected dtype float does not equal original dtype int32",
        ),
        (
            lambda: restore(prefix, ["p"], ["6 2 0,3:0,2"], [tf.float32]),
            invalid,
            r"spec \[6,2\] does not match the shape stored in checkpoint: \[5,2\]",
        ),
        (
            lambda: restore(tmp_path / "no", ["a"], [""], [tf.int32]),
            not_found,
            "Failed to find any matching files for .*no",
        ),
        (lambda: save(tmp_path / "x", ["a", "a"], ["", ""], one * 2), invalid, "duplicate key: a"),
        (
            lambda: save(tmp_path / "x", ["a"], ["5 2 0,2:0,2"], [tf.constant([1.0, 2.0])]),
            invalid,
            r"does not match the shape of the tensor to save: 5 2 0,2:0,2, tensor: \[2\]",
        ),
        (lambda: save(tmp_path / "no/no/x", ["a"], [""], one), not_found, "no/no; No such file"),
        (
            lambda: save(tmp_path / "file" / "x", ["a"], [""], one),
            tf.errors.OpError,
            "file.*(Not a directory|exists)",
        ),
        (
            lambda: raw.Restore(file_pattern=f"{prefix}.index", tensor_name="a", dt=tf.int32),
            not_found,
            'Tensor name "a" not found in checkpoint files',
        ),
        (
            lambda: raw.Restore(file_pattern=str(tmp_path / "file"), tensor_name="a", dt=tf.int32),
            tf.errors.DataLossError,
            "different restore operator",
        ),
    ):
        with pytest.raises(error, match=text):
            run(make)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "file",
        "m.data-00000-of-00001",
        "m.index",
    ]


def test_shards_are_merged_and_their_folder_goes(tmp_path: Path) -> None:
    prefixes = [str(tmp_path / "m_temp" / f"part-{i:05d}-of-00002") for i in range(2)]
    for i, prefix in enumerate(prefixes):
        run(lambda i=i, p=prefix: save(p, [f"v{i}"], [""], [tf.constant(float(i))]))
    # What a writer that was killed left behind.
    (tmp_path / "m_temp" / "part-00000-of-00002.index.tempstate1").write_text("")
    merged = tmp_path / "m"
    run(
        lambda: raw.MergeV2Checkpoints(checkpoint_prefixes=prefixes, destination_prefix=str(merged))
    )
    assert run(lambda: restore(merged, ["v0", "v1"], ["", ""], [tf.float32] * 2)) == [0.0, 1.0]
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "m.data-00000-of-00002",
        "m.data-00001-of-00002",
        "m.index",
    ]
    with pytest.raises(tf.errors.InvalidArgumentError, match="did not exist"):
        run(
            lambda: raw.MergeV2Checkpoints(
                checkpoint_prefixes=prefixes, destination_prefix=str(merged)
            )
        )
    assert run(lambda: restore(merged, ["v1"], [""], [tf.float32])) == [1.0]


def test_names_of_shards() -> None:
    names = run(
        lambda: [
            raw.ShardedFilename(basename="m", shard=3, num_shards=12),
            raw.ShardedFilespec(basename="m", num_shards=12),
        ]
    )
    assert names == [b"m-00003-of-00012", b"m-?????-of-00012"]


def test_the_old_ops_read_what_they_write(tmp_path: Path) -> None:
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    for shard, part in enumerate((rows[:2], rows[2:])):
        run(
            lambda shard=shard, part=part: raw.SaveSlices(
                filename=str(tmp_path / f"m-0000{shard}-of-00002"),
                tensor_names=["p", f"x{shard}"],
                shapes_and_slices=[f"3 2 {2 * shard},{len(part)}:-", ""],
                data=[part, tf.constant(shard)],
            )
        )
    pattern = str(tmp_path / "m-?????-of-00002")

    def part(spec: str) -> Any:
        return raw.RestoreSlice(
            file_pattern=pattern, tensor_name="p", shape_and_slice=spec, dt=tf.float32
        )

    np.testing.assert_array_equal(run(lambda: part("3 2 1,2:-")), rows[1:])
    np.testing.assert_array_equal(run(lambda: part("")), rows)
    assert run(lambda: raw.Restore(file_pattern=pattern, tensor_name="x1", dt=tf.int32)) == 1
    # RestoreV2 reads them, too.
    assert run(lambda: restore(pattern, ["x0"], [""], [tf.int32])) == [0]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[4,2\], save file shape: \[3,2\]"):
        run(lambda: part("4 2 1,2:-"))
    run(
        lambda: raw.Save(
            filename=str(tmp_path / "one"), tensor_names=["a"], data=[tf.constant([b"x", b""])]
        )
    )
    found = run(lambda: restore(tmp_path / "one", ["a"], [""], [tf.string]))
    assert found[0].tolist() == [b"x", b""]
