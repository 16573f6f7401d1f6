"""Writes the checkpoints beside it, with real TensorFlow.

    python record.py        # in an environment with tensorflow 2.21

`expected.npz` has what is in them. Strings are stored as bytes, bfloat16 as float32.

- `all`: a V2 checkpoint with every type, shapes from scalar to empty, and `cut` in two parts.
- `merged`: a V2 checkpoint of two shards, each with a tensor of its own and a part of `cut`.
- `old`: a V1 checkpoint with the types that V1 has, without the empty tensor.
- `objects`: what tf.train.Checkpoint writes.
"""

from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
NUMBERS = np.array([[0, 1, 2], [3, 100, 7]])
TYPES = (
    "float32 float64 int32 uint8 int16 int8 complex64 int64 bool bfloat16 uint16 complex128 "
    "float16 uint32 uint64"
).split()
CUT = np.arange(10, dtype=np.float32).reshape(5, 2) / 4
PARTS = {"5 2 0,3:0,2": CUT[:3], "5 2 3,2:-": CUT[3:]}


def main() -> None:
    import tensorflow as tf

    raw = tf.raw_ops
    expected = {name: NUMBERS.astype("float32" if name == "bfloat16" else name) for name in TYPES}
    expected["scalar"] = np.float32(2.5)
    expected["empty"] = np.zeros([0, 3], np.int64)
    expected["deep/name with spaces/ünïcode"] = np.arange(4, dtype=np.int32)
    expected["strings"] = np.array([[b"", b"x" * 300], [b"a\x01b", "ü".encode()]])
    names = list(expected)
    expected["cut"] = CUT

    with tf.Graph().as_default(), tf.compat.v1.Session() as sess:

        def constants(whole: list[str]) -> list:
            return [
                tf.cast(expected[n], tf.bfloat16) if n == "bfloat16" else tf.constant(expected[n])
                for n in whole
            ]

        def parts(whole: list[str], specs: list[str]) -> dict:
            return {
                "tensor_names": whole + ["cut"] * len(specs),
                "specs": [""] * len(whole) + specs,
                "tensors": constants(whole) + [tf.constant(PARTS[s]) for s in specs],
            }

        def save(prefix: str, whole: list[str], specs: list[str]) -> None:
            made = parts(whole, specs)
            sess.run(
                raw.SaveV2(
                    prefix=str(HERE / prefix),
                    tensor_names=made["tensor_names"],
                    shape_and_slices=made["specs"],
                    tensors=made["tensors"],
                )
            )

        specs = list(PARTS)
        save("all", sorted(names), specs)
        save("shards/one", ["float32"], specs[:1])
        save("shards/two", ["strings"], specs[1:])
        sess.run(
            raw.MergeV2Checkpoints(
                checkpoint_prefixes=[str(HERE / "shards/one"), str(HERE / "shards/two")],
                destination_prefix=str(HERE / "merged"),
            )
        )
        old = [n for n in sorted(names) if n not in ("bfloat16", "uint32", "uint64", "empty")]
        made = parts(old, specs)
        sess.run(
            raw.SaveSlices(
                filename=str(HERE / "old"),
                tensor_names=made["tensor_names"],
                shapes_and_slices=made["specs"],
                data=made["tensors"],
            )
        )

    net = tf.Module()
    net.w = tf.Variable([1.5, 2.5], name="w")
    net.step = tf.Variable(7, name="step")
    tf.train.Checkpoint(net=net).write(str(HERE / "objects"))
    np.savez_compressed(HERE / "expected.npz", **expected)


if __name__ == "__main__":
    main()
