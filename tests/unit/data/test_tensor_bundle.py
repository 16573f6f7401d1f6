"""Checkpoint files of both formats: TensorFlow's read, ours the same bytes, damage found."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import google_crc32c
import ml_dtypes
import numpy as np
import pytest

from millrace.core import dtypes, errors
from millrace.data import checkpoint_v1, tensor_bundle
from millrace.data.checkpoint_reader import CheckpointReader, open_checkpoint
from millrace.data.checkpoint_v1 import CheckpointV1Reader, PartToSave
from millrace.data.tensor_bundle import BundleReader, BundleWriter, merge_bundles
from millrace.data.tensor_slice import TensorSlice, parse_shape_and_slice
from millrace.platform.atomic_file import AtomicFile

GOLDEN = Path(__file__).parent / "golden_checkpoints"
CUT = "5 2 0,3:0,2", "5 2 3,2:-"


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tested is what is written; a busy disk can take minutes to keep it."""
    monkeypatch.setenv("MILLRACE_FSYNC", "0")


def expected() -> dict[str, Any]:
    found = dict(np.load(GOLDEN / "expected.npz"))
    found["strings"] = found["strings"].astype(object)
    found["bfloat16"] = found["bfloat16"].astype(ml_dtypes.bfloat16)
    return found


def dtype_of(name: str, value: Any) -> dtypes.DType:
    return dtypes.string if name == "strings" else dtypes.as_dtype(value.dtype)


def files(folder: Path, prefix: str) -> dict[str, bytes]:
    """The files of a bundle by the ends of their names."""
    return {
        path.name.removeprefix(prefix): path.read_bytes()
        for path in folder.glob(f"{prefix}.*")
        if path.suffix != ".npz"
    }


def add_parts(writer: BundleWriter, value: Any, specs: tuple[str, ...] = CUT) -> None:
    for spec in specs:
        shape, part, _ = parse_shape_and_slice(spec)
        index = tuple(slice(*bounds) for bounds in part.ranges(shape))
        writer.add_slice("cut", shape, part, value[index], dtypes.float32)


def write_all(prefix: str) -> None:
    values = expected()
    writer = BundleWriter(prefix)
    for name in sorted(set(values) - {"cut"}):
        writer.add(name, values[name], dtype_of(name, values[name]))
    add_parts(writer, values["cut"])
    writer.finish()


@pytest.mark.parametrize("name", ["all", "merged", "old"])
def test_what_tensorflow_wrote_is_read(name: str) -> None:
    values = expected()
    reader = CheckpointReader(GOLDEN / name)
    names = set(reader.get_variable_to_shape_map())
    if name == "all":
        assert names == set(values)
    assert {"cut", "strings"} <= names
    for tensor in names:
        found = reader.get_tensor(tensor)
        assert found.dtype == values[tensor].dtype
        np.testing.assert_array_equal(found, values[tensor])


def test_what_is_written_is_what_tensorflow_writes(tmp_path: Path) -> None:
    write_all(str(tmp_path / "all"))
    assert files(tmp_path, "all") == files(GOLDEN, "all")


def test_what_is_merged_is_what_tensorflow_merges(tmp_path: Path) -> None:
    values = expected()
    for shard, (tensor, spec) in enumerate(zip(("float32", "strings"), CUT, strict=True)):
        writer = BundleWriter(str(tmp_path / f"shard{shard}"))
        writer.add(tensor, values[tensor], dtype_of(tensor, values[tensor]))
        add_parts(writer, values["cut"], (spec,))
        writer.finish()
    merge_bundles([str(tmp_path / f"shard{i}") for i in range(2)], str(tmp_path / "merged"))
    assert files(tmp_path, "merged") == files(GOLDEN, "merged")
    assert not list(tmp_path.glob("shard*"))


def test_old_files_are_written_as_tensorflow_writes_them(tmp_path: Path) -> None:
    values = expected()
    parts = []
    for name in sorted(set(values) - {"cut", "bfloat16", "uint32", "uint64", "empty"}):
        value = values[name]
        whole = TensorSlice.whole(value.ndim)
        parts.append(PartToSave(name, value.shape, whole, value, dtype_of(name, value)))
    for spec in reversed(CUT):  # as TensorFlow happened to sort them
        shape, part, _ = parse_shape_and_slice(spec)
        index = tuple(slice(*bounds) for bounds in part.ranges(shape))
        parts.append(PartToSave("cut", shape, part, values["cut"][index], dtypes.float32))
    checkpoint_v1.write(str(tmp_path / "old"), parts)
    assert (tmp_path / "old").read_bytes() == (GOLDEN / "old").read_bytes()
    bad = PartToSave("b", (1,), TensorSlice.whole(1), values["bfloat16"], dtypes.bfloat16)
    with pytest.raises(errors.UnimplementedError, match="no bfloat16 tensors"):
        checkpoint_v1.write(str(tmp_path / "bad"), [bad])
    assert [p.name for p in tmp_path.iterdir()] == ["old"]


def test_any_part_is_put_together_from_any_parts(tmp_path: Path) -> None:
    whole = np.arange(7 * 5, dtype=np.float32).reshape(7, 5)
    cuts = [(0, 3), (3, 2), (5, 2)], [(0, 1), (1, 4)]
    parts = [TensorSlice.parse(f"{a},{n}:{b},{m}") for (a, n), (b, m) in itertools.product(*cuts)]
    writer = BundleWriter(str(tmp_path / "cut"))
    for part in parts:
        index = tuple(slice(*bounds) for bounds in part.ranges(whole.shape))
        writer.add_slice("x", whole.shape, part, whole[index], dtypes.float32)
    writer.finish()
    plain = BundleWriter(str(tmp_path / "plain"))
    plain.add("x", whole, dtypes.float32)
    plain.finish()
    for name in ("cut", "plain"):
        with BundleReader(str(tmp_path / name)) as reader:
            assert reader.parts("x") == (parts if name == "cut" else [])
            np.testing.assert_array_equal(reader.read("x"), whole)
            for a, b in itertools.combinations(range(8), 2):
                wanted = TensorSlice.parse(f"{a},{b - a}:-")
                np.testing.assert_array_equal(reader.read_slice("x", wanted), whole[a:b])
            wanted = TensorSlice.parse("2,4:1,3")
            np.testing.assert_array_equal(reader.read_slice("x", wanted), whole[2:6, 1:4])
            with pytest.raises(ValueError, match="out of bounds"):
                reader.read_slice("x", TensorSlice.parse("5,3:-"))


def test_a_part_that_is_missing_is_not_made_up(tmp_path: Path) -> None:
    writer = BundleWriter(str(tmp_path / "m"))
    add_parts(writer, expected()["cut"], CUT[:1])
    writer.finish()
    with (
        BundleReader(str(tmp_path / "m")) as reader,
        pytest.raises(errors.NotFoundError, match="cut: 4 of 10 elements are missing"),
    ):
        reader.read("cut")


def test_a_name_is_written_once(tmp_path: Path) -> None:
    writer = BundleWriter(str(tmp_path / "m"))
    one = np.zeros(1, np.float32)
    writer.add("x", one, dtypes.float32)
    with pytest.raises(errors.InvalidArgumentError, match="Adding duplicate key: x"):
        writer.add("x", one, dtypes.float32)
    writer.add_slice("y", (2,), TensorSlice.parse("0,1"), one, dtypes.float32)
    with pytest.raises(errors.InvalidArgumentError, match="y do not belong together"):
        writer.add_slice("y", (3,), TensorSlice.parse("1,1"), one, dtypes.float32)
    writer.discard()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["all", "old"])
def test_every_changed_byte_is_found(tmp_path: Path, name: str) -> None:
    """Whatever byte is damaged: an error that names the file, or what was written."""
    values = expected()
    for source in GOLDEN.glob(f"{name}*"):
        shutil.copy(source, tmp_path)
    found = 0
    for path in sorted(tmp_path.iterdir()):
        good = path.read_bytes()
        for place in range(0, len(good), 3):
            bad = bytearray(good)
            bad[place] ^= 0x10
            path.write_bytes(bytes(bad))
            try:
                with open_checkpoint(str(tmp_path / name)) as reader:
                    for tensor in sorted(values):
                        if tensor in reader:
                            np.testing.assert_array_equal(reader.read(tensor), values[tensor])
            except errors.DataLossError as error:
                found += 1
                assert path.name in error.message or name in error.message
        path.write_bytes(good)
    assert found > 100


def test_damage_names_tensor_file_and_place(tmp_path: Path) -> None:
    write_all(str(tmp_path / "m"))
    data = tmp_path / "m.data-00000-of-00001"
    with BundleReader(str(tmp_path / "m")) as reader:
        entry = reader.entries[b"int64"]
    good = data.read_bytes()
    data.write_bytes(good[: entry.offset] + b"\xff" + good[entry.offset + 1 :])
    with pytest.raises(errors.DataLossError) as damaged:
        CheckpointReader(tmp_path / "m").get_tensor("int64")
    for text in (str(data), "tensor int64", f"{entry.size} bytes at {entry.offset}", "Checksum"):
        assert text in damaged.value.message
    np.testing.assert_array_equal(CheckpointReader(tmp_path / "m").get_tensor("scalar"), 2.5)
    data.write_bytes(good[: entry.offset + 5])
    with pytest.raises(errors.DataLossError, match="int64: the file ends after 5 of its bytes"):
        CheckpointReader(tmp_path / "m").get_tensor("int64")
    data.unlink()
    with pytest.raises(errors.NotFoundError, match="data-00000-of-00001; No such file"):
        CheckpointReader(tmp_path / "m").get_tensor("int64")


@pytest.mark.parametrize("size", [0, 20, 47, 400])
def test_a_file_that_was_cut_off_is_no_checkpoint(tmp_path: Path, size: int) -> None:
    (tmp_path / "m.index").write_bytes((GOLDEN / "all.index").read_bytes()[:size])
    with pytest.raises(errors.DataLossError, match="m.index"):
        BundleReader(str(tmp_path / "m"))
    (tmp_path / "old").write_bytes((GOLDEN / "old").read_bytes()[:size])
    with pytest.raises(errors.DataLossError, match="Unable to open table file .*old"):
        CheckpointV1Reader(str(tmp_path / "old"))


def test_a_merge_that_cannot_be_done_changes_nothing(tmp_path: Path) -> None:
    for name in ("a", "b"):
        writer = BundleWriter(str(tmp_path / name))
        writer.add("x", np.zeros(3), dtypes.float64)
        writer.finish()
    before = sorted(p.name for p in tmp_path.iterdir())
    prefixes = [str(tmp_path / name) for name in ("a", "b", "c")]
    for given, text in (
        (prefixes[::2], "c did not exist"),
        (prefixes[:2], "Duplicate tensor keyed by x encountered, when merging prefix: .*b"),
        ([], "At least one prefix"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=text):
            merge_bundles(given, str(tmp_path / "out"))
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    merge_bundles([prefixes[0], prefixes[2]], str(tmp_path / "out"), allow_missing_files=True)
    np.testing.assert_array_equal(CheckpointReader(tmp_path / "out").get_tensor("x"), np.zeros(3))


def test_many_tensors_need_many_blocks(tmp_path: Path) -> None:
    """More than one block of the index, which begins again at 256 KiB."""
    writer = BundleWriter(str(tmp_path / "m"))
    names = [f"layer_{i:05d}/{'x' * (i % 90)}" for i in range(6000)]
    for i, name in enumerate(names):
        writer.add(name, np.int32(i)[None], dtypes.int32)
    writer.finish()
    assert (tmp_path / "m.index").stat().st_size > 2 * 262144 // 2
    with BundleReader(str(tmp_path / "m")) as reader:
        assert list(reader.names()) == sorted(names)
        for i in (0, 17, 5999):
            assert reader.read(names[i]) == [i]


def test_bundles_live_behind_urls(request: pytest.FixtureRequest) -> None:
    prefix = f"memory://{request.node.name}/deep/m"
    for value in (1.0, 2.0):
        writer = BundleWriter(prefix)
        writer.add("x", np.array(value), dtypes.float64)
        writer.finish()
        assert tensor_bundle.exists(prefix)
        assert CheckpointReader(prefix).get_tensor("x") == value
    checkpoint_v1.write(
        f"{prefix}1", [PartToSave("y", (), TensorSlice.whole(0), np.array(3), dtypes.int64)]
    )
    assert CheckpointReader(f"{prefix}1").get_tensor("y") == 3


def test_large_tensors_are_written_and_read_in_pieces_that_stay_in_a_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {
        "a": np.arange(3, dtype=np.uint8),  # what follows begins at an odd place
        "b": np.random.default_rng(1).integers(0, 255, 700_001, np.uint8),
        "c": np.random.default_rng(2).random(100_000),
    }
    ends: list[int] = []
    write = AtomicFile.write

    def note(self: AtomicFile, content: Any) -> None:
        write(self, content)
        if ".data-" in self.name:
            ends.append(self.size)

    monkeypatch.setattr(AtomicFile, "write", note)
    writer = BundleWriter(str(tmp_path / "m"))
    for name, value in values.items():
        writer.add(name, value, dtypes.as_dtype(value.dtype))
    writer.finish()
    # A piece ends where its tensor does, or where a page of that size does.
    cached = 256 << 10
    assert ends == [3, cached, 2 * cached, 700_004, 3 * cached, 4 * cached, 5 * cached, 1_500_004]
    with BundleReader(str(tmp_path / "m")) as reader:
        for name, value in values.items():
            entry = reader.entries[name.encode()]
            crc = google_crc32c.value(value.tobytes())
            assert entry.crc32c == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
            np.testing.assert_array_equal(reader.read(name), value)
