"""tf.gfile, the same tests on the local disk and on a file system behind a URL.

What is expected was tried on TensorFlow 2.21 (tf.compat.v1.gfile) with a local directory.
"""

import pathlib
import pickle
import uuid

import pytest

from millrace.core import errors
from millrace.platform import gfile


@pytest.fixture(params=["local", "file url", "memory"])
def base(request, tmp_path):
    if request.param == "local":
        yield str(tmp_path)
    elif request.param == "file url":
        yield f"file://{tmp_path}"
    else:
        url = f"memory://{uuid.uuid4().hex}"
        gfile.MakeDirs(url)
        yield url
        gfile.DeleteRecursively(url)


def write(name, content, mode="w"):
    with gfile.GFile(name, mode) as file:
        file.write(content)


def read(name):
    return gfile.GFile(name, "rb").read()


def test_text_is_written_as_utf8_and_read_as_str_or_bytes(base):
    write(f"{base}/a", "hé\nx")
    assert gfile.GFile(f"{base}/a").read() == "hé\nx"
    assert gfile.GFile(f"{base}/a", "rb").read() == b"h\xc3\xa9\nx"


def test_bytes_may_be_written_in_text_mode_and_text_in_binary_mode(base):
    write(f"{base}/a", b"\xc3\xa9", "w")
    assert gfile.GFile(f"{base}/a").read() == "é"
    write(f"{base}/a", "é", "wb")
    assert read(f"{base}/a") == b"\xc3\xa9"


def test_writing_a_number_is_a_type_error(base):
    with pytest.raises(TypeError, match="Expected binary or unicode string, got 3"):
        write(f"{base}/a", 3)


def test_reading_a_number_of_bytes_counts_bytes_in_text_mode_too(base):
    write(f"{base}/a", "héllo")
    file = gfile.GFile(f"{base}/a")
    assert file.read(3) == "hé"
    assert file.tell() == 3
    assert file.read(0) == ""
    assert file.read(100) == "llo"
    assert file.read(1) == ""


def test_reading_a_negative_number_of_bytes_is_invalid(base):
    write(f"{base}/a", "x")
    with pytest.raises(errors.InvalidArgumentError, match="negative number of bytes: -2"):
        gfile.GFile(f"{base}/a").read(-2)


def test_lines_keep_their_newline_and_lose_carriage_returns(base):
    write(f"{base}/a", "one\ntwo\r\nlast")
    assert gfile.GFile(f"{base}/a").readline() == "one\n"
    assert gfile.GFile(f"{base}/a").readlines() == ["one\n", "two\n", "last"]
    assert list(gfile.GFile(f"{base}/a", "rb")) == [b"one\n", b"two\n", b"last"]


def test_next_gives_lines_until_stop_iteration(base):
    write(f"{base}/a", "one\n")
    file = gfile.GFile(f"{base}/a")
    assert file.next() == "one\n"
    with pytest.raises(StopIteration):
        file.next()


def test_seek_and_tell_work_from_start_position_and_end(base):
    write(f"{base}/a", "0123456789")
    file = gfile.GFile(f"{base}/a", "rb")
    file.seek(4)
    assert (file.tell(), file.read(2)) == (4, b"45")
    file.seek(-1, 1)
    assert file.read(2) == b"56"
    file.seek(-2, 2)
    assert file.read() == b"89"
    file.seek(position=3)
    assert file.read(1) == b"3"
    assert file.seekable()


def test_seeking_behind_the_end_is_out_of_range_and_stops_at_the_end(base):
    write(f"{base}/a", "01234")
    file = gfile.GFile(f"{base}/a", "rb")
    with pytest.raises(errors.OutOfRangeError, match="has 5 bytes, asked to seek to 100"):
        file.seek(100)
    assert (file.tell(), file.read()) == (5, b"")


def test_seek_refuses_nonsense(base):
    write(f"{base}/a", "01234")
    file = gfile.GFile(f"{base}/a")
    with pytest.raises(errors.InvalidArgumentError, match="Invalid whence argument: 7"):
        file.seek(0, 7)
    with pytest.raises(errors.InvalidArgumentError, match="negative position: -1"):
        file.seek(-1)
    with pytest.raises(TypeError, match="offset argument required"):
        file.seek()
    with pytest.raises(TypeError, match="simultaneously"):
        file.seek(1, position=2)


def test_append_adds_and_tell_counts_from_the_start_of_the_file(base):
    write(f"{base}/a", "one")
    with gfile.GFile(f"{base}/a", "a") as file:
        file.write("two")
        assert file.tell() == 6
    assert read(f"{base}/a") == b"onetwo"


def test_flush_makes_what_was_written_readable(tmp_path):
    file = gfile.GFile(str(tmp_path / "a"), "w")
    file.write("one")
    file.flush()
    assert (tmp_path / "a").read_text() == "one"
    file.close()


def test_the_first_write_in_mode_r_plus_empties_the_file_as_tensorflow_does(base):
    write(f"{base}/a", "0123456789")
    with gfile.GFile(f"{base}/a", "r+") as file:
        assert file.read(3) == "012"
        file.write("AB")
    assert read(f"{base}/a") == b"AB"


def test_a_file_open_both_ways_reads_what_it_has_written(tmp_path):
    with gfile.GFile(str(tmp_path / "a"), "w+") as file:
        file.write("hello")
        assert file.read() == "hello"
        file.write(" again")
        assert file.read() == " again"
        file.seek(1)
        assert file.read(2) == "el"


def test_mode_a_plus_reads_from_the_start_and_writes_at_the_end(tmp_path):
    write(str(tmp_path / "a"), "AB")
    with gfile.GFile(str(tmp_path / "a"), "a+") as file:
        assert file.read(1) == "A"
        file.write("C")
        assert file.read() == "BC"


def test_an_unknown_mode_is_an_invalid_argument():
    for mode in ("x", "rt", "rU", ""):
        with pytest.raises(errors.InvalidArgumentError, match="mode is not 'r' or 'w'"):
            gfile.GFile("a", mode)


def test_reading_a_file_open_for_writing_is_denied_and_the_other_way_round(base):
    with pytest.raises(errors.PermissionDeniedError, match="File isn't open for reading"):
        gfile.GFile(f"{base}/a", "w").read()
    write(f"{base}/a", "x")
    with pytest.raises(errors.PermissionDeniedError, match="File isn't open for writing"):
        gfile.GFile(f"{base}/a").write("x")


def test_nothing_is_opened_before_it_is_used(base):
    assert gfile.GFile(f"{base}/none").name == f"{base}/none"
    gfile.GFile(f"{base}/none", "w").close()
    assert not gfile.Exists(f"{base}/none")


def test_a_closed_file_may_be_used_again(base):
    write(f"{base}/a", "xyz")
    file = gfile.GFile(f"{base}/a")
    assert file.read(2) == "xy"
    file.close()
    assert file.read(2) == "xy"


def test_a_missing_file_is_not_found_and_named(base):
    for use in (
        lambda name: gfile.GFile(name).read(),
        lambda name: gfile.GFile(name).size(),
        gfile.Stat,
        gfile.Remove,
        gfile.DeleteRecursively,
        lambda name: gfile.Copy(name, f"{base}/copy"),
        lambda name: gfile.Rename(name, f"{base}/other"),
    ):
        with pytest.raises(errors.NotFoundError) as caught:
            use(f"{base}/none")
        assert caught.value.message == f"{base}/none; No such file or directory"


def test_a_directory_is_no_file(base):
    gfile.MkDir(f"{base}/d")
    write(f"{base}/a", "x")
    for use in (
        lambda: write(f"{base}/d", "x"),
        lambda: gfile.Remove(f"{base}/d"),
        lambda: gfile.Copy(f"{base}/a", f"{base}/d", overwrite=True),
    ):
        with pytest.raises(errors.FailedPreconditionError, match="Is a directory"):
            use()


def test_writing_into_a_directory_that_is_not_there_is_not_found(tmp_path):
    with pytest.raises(errors.NotFoundError, match="No such file or directory"):
        write(str(tmp_path / "no" / "such"), "x")


def test_exists_and_is_directory(base):
    write(f"{base}/a", "x")
    assert gfile.Exists(f"{base}/a")
    assert gfile.Exists(base)
    assert not gfile.Exists(f"{base}/none")
    assert gfile.IsDirectory(base)
    assert not gfile.IsDirectory(f"{base}/a")
    assert not gfile.IsDirectory(f"{base}/none")


def test_names_may_be_bytes_or_path_objects(tmp_path):
    (tmp_path / "a").write_text("x")
    assert gfile.Exists(tmp_path / "a")
    assert gfile.Exists(bytes(tmp_path / "a"))
    assert gfile.GFile(tmp_path / "a").read() == "x"
    assert gfile.Glob(tmp_path / "*") == [str(tmp_path / "a")]
    with pytest.raises(TypeError):
        gfile.Exists(3)


def test_stat_tells_length_time_and_kind(tmp_path, base):
    write(f"{base}/a", "four")
    assert gfile.Stat(f"{base}/a").length == 4
    assert not gfile.Stat(f"{base}/a").is_directory
    assert gfile.Stat(f"{base}/a").mtime_nsec > 10**18
    assert gfile.Stat(base).is_directory


def test_the_local_modification_time_is_exact(tmp_path):
    (tmp_path / "a").write_text("x")
    assert gfile.Stat(str(tmp_path / "a")).mtime_nsec == (tmp_path / "a").stat().st_mtime_ns


def test_directories_are_made_once_and_making_them_again_does_nothing(base):
    gfile.MkDir(f"{base}/d")
    gfile.MkDir(f"{base}/d")
    gfile.MakeDirs(f"{base}/x/y/z")
    gfile.MakeDirs(f"{base}/x/y/z")
    assert gfile.IsDirectory(f"{base}/d")
    assert gfile.IsDirectory(f"{base}/x/y/z")


def test_a_directory_cannot_be_made_where_a_file_is(base):
    write(f"{base}/a", "x")
    with pytest.raises(errors.FailedPreconditionError, match="Not a directory"):
        gfile.MakeDirs(f"{base}/a")


def test_mkdir_does_not_make_the_directories_above(tmp_path):
    with pytest.raises(errors.NotFoundError):
        gfile.MkDir(str(tmp_path / "q" / "r"))


def test_list_directory_gives_bare_names_sorted(base):
    for name in ("b", "a", ".hidden"):
        write(f"{base}/{name}", "x")
    gfile.MkDir(f"{base}/dir")
    assert gfile.ListDirectory(base) == [".hidden", "a", "b", "dir"]
    assert gfile.ListDirectory(f"{base}/") == [".hidden", "a", "b", "dir"]
    assert gfile.ListDirectory(f"{base}/dir") == []


def test_listing_what_is_no_directory_is_not_found(base):
    write(f"{base}/a", "x")
    for name in (f"{base}/none", f"{base}/a"):
        with pytest.raises(errors.NotFoundError, match=f"Could not find directory {name}"):
            gfile.ListDirectory(name)


def test_copy_refuses_to_replace_unless_told(base):
    write(f"{base}/a", "new")
    write(f"{base}/b", "old")
    with pytest.raises(errors.AlreadyExistsError, match="file already exists"):
        gfile.Copy(f"{base}/a", f"{base}/b")
    assert read(f"{base}/b") == b"old"
    gfile.Copy(f"{base}/a", f"{base}/b", overwrite=True)
    assert read(f"{base}/b") == b"new"
    assert read(f"{base}/a") == b"new"


@pytest.mark.parametrize("content", [b"", b"x" * 3_000_000])
def test_copy_crosses_file_systems(base, tmp_path, content):
    source = str(tmp_path / "source")
    write(source, content)
    gfile.Copy(source, f"{base}/a")
    gfile.Copy(f"{base}/a", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == content


def test_a_file_copied_onto_itself_stays(tmp_path):
    write(str(tmp_path / "a"), "x")
    gfile.Copy(str(tmp_path / "a"), f"file://{tmp_path}/a", overwrite=True)
    assert read(str(tmp_path / "a")) == b"x"


def test_rename_refuses_to_replace_unless_told(base):
    write(f"{base}/a", "new")
    write(f"{base}/b", "old")
    with pytest.raises(errors.AlreadyExistsError, match="file already exists"):
        gfile.Rename(f"{base}/a", f"{base}/b")
    gfile.Rename(f"{base}/a", f"{base}/b", overwrite=True)
    assert read(f"{base}/b") == b"new"
    assert not gfile.Exists(f"{base}/a")


def test_rename_moves_a_directory_with_its_contents(base):
    gfile.MakeDirs(f"{base}/d")
    write(f"{base}/d/a", "x")
    gfile.Rename(f"{base}/d", f"{base}/e")
    assert gfile.ListDirectory(base) == ["e"]
    assert read(f"{base}/e/a") == b"x"


def test_rename_across_file_systems_is_not_implemented(tmp_path):
    write(str(tmp_path / "a"), "x")
    with pytest.raises(errors.UnimplementedError, match="different file systems"):
        gfile.Rename(str(tmp_path / "a"), "memory://somewhere/a")
    assert (tmp_path / "a").exists()


def test_a_directory_that_is_not_empty_is_not_replaced(tmp_path):
    for name in ("d/x", "e/y"):
        gfile.MakeDirs(str(tmp_path / name))
    with pytest.raises(errors.FailedPreconditionError, match="Directory not empty"):
        gfile.Rename(str(tmp_path / "d"), str(tmp_path / "e"), overwrite=True)


def test_delete_recursively_takes_a_tree_or_a_file(base):
    gfile.MakeDirs(f"{base}/d/e")
    write(f"{base}/d/e/a", "x")
    write(f"{base}/b", "x")
    gfile.DeleteRecursively(f"{base}/d")
    gfile.DeleteRecursively(f"{base}/b")
    assert gfile.ListDirectory(base) == []


def test_delete_recursively_removes_a_link_and_not_what_it_points_to(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "kept").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "d")
    gfile.DeleteRecursively(str(tmp_path / "link"))
    assert (tmp_path / "d" / "kept").exists()
    assert not (tmp_path / "link").exists()


@pytest.fixture
def tree(base):
    gfile.MakeDirs(f"{base}/w/s0")
    gfile.MakeDirs(f"{base}/w/s1/t")
    for name in ("f1", ".hid", "s1/f2"):
        write(f"{base}/w/{name}", "x")
    return f"{base}/w"


def test_walk_goes_down_in_order_and_up_otherwise(tree):
    down = [
        (tree, ["s0", "s1"], [".hid", "f1"]),
        (f"{tree}/s0", [], []),
        (f"{tree}/s1", ["t"], ["f2"]),
        (f"{tree}/s1/t", [], []),
    ]
    assert list(gfile.Walk(tree)) == down
    assert list(gfile.Walk(tree, in_order=False)) == [down[1], down[3], down[2], down[0]]


def test_walk_of_what_is_no_directory_yields_nothing_and_tells_onerror(base):
    told = []
    assert list(gfile.Walk(f"{base}/none")) == []
    assert list(gfile.walk(f"{base}/none", onerror=told.append)) == []
    assert [type(error) for error in told] == [errors.NotFoundError]


def test_directories_taken_out_of_a_walk_are_not_entered(tree):
    visited = []
    for directory, directories, _ in gfile.walk(tree):
        visited.append(directory)
        directories[:] = [each for each in directories if each != "s1"]
    assert visited == [tree, f"{tree}/s0"]


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("*", [".hid", "f1", "s0", "s1"]),
        ("**", [".hid", "f1", "s0", "s1"]),
        ("*/*", ["s1/f2", "s1/t"]),
        ("s1/f*", ["s1/f2"]),
        ("*/f2", ["s1/f2"]),
        ("s?", ["s0", "s1"]),
        ("s[01]", ["s0", "s1"]),
        ("s[^0]", ["s1"]),
        ("s[!0]", ["s1"]),
        ("{f1,s0}", []),
        ("f1", ["f1"]),
        ("zz*", []),
        ("zz/*", []),
        ("f9", []),
        ("f1/*", []),
    ],
)
def test_glob_matches_within_one_component(tree, pattern, matches):
    assert gfile.Glob(f"{tree}/{pattern}") == [f"{tree}/{each}" for each in matches]


def test_glob_takes_several_patterns_and_keeps_duplicates(tree):
    f, s0, s1 = f"{tree}/f1", f"{tree}/s0", f"{tree}/s1"
    assert gfile.Glob([f"{tree}/f*", f"{tree}/s*"]) == [f, s0, s1]
    assert gfile.Glob(iter([f"{tree}/f*", f"{tree}/f*"])) == [f, f]
    assert gfile.Glob([]) == []
    assert gfile.Glob("") == []


def test_a_relative_pattern_gives_relative_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gfile.MakeDirs("w")
    write("w/a", "x")
    assert gfile.Glob("w/*") == ["w/a"]
    assert gfile.Glob("*") == ["./w"]
    assert gfile.Glob("./w/*") == ["./w/a"]


def test_a_backslash_in_a_pattern_takes_the_next_character_as_it_is(tmp_path):
    write(str(tmp_path / "b[1]"), "x")
    write(str(tmp_path / "b1"), "x")
    assert gfile.Glob(f"{tmp_path}/b\\[1\\]") == [f"{tmp_path}/b[1]"]


def test_a_tilde_is_an_ordinary_character(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("~", "x")
    assert (tmp_path / "~").read_text() == "x"


def test_an_unknown_scheme_is_not_implemented():
    with pytest.raises(errors.UnimplementedError, match="File system scheme 'foo' not implemented"):
        gfile.Exists("foo://x/y")


def test_ram_is_tensorflows_name_for_memory():
    name = uuid.uuid4().hex
    write(f"ram://{name}/a", "x")
    assert read(f"memory://{name}/a") == b"x"
    gfile.DeleteRecursively(f"ram://{name}")


def test_a_file_that_may_not_be_read_is_denied(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(errors.PermissionDeniedError, match="a; Permission denied"):
        gfile.GFile(str(tmp_path / "a")).read()


def test_what_expects_a_python_file_can_read_a_gfile(base):
    with gfile.GFile(f"{base}/a", "wb") as file:
        pickle.dump({"k": [1, 2]}, file)
    with gfile.GFile(f"{base}/a", "rb") as file:
        assert pickle.load(file) == {"k": [1, 2]}


def test_open_and_fast_gfile_are_gfile(tmp_path):
    assert gfile.Open is gfile.GFile
    write(str(tmp_path / "a"), "x")
    assert gfile.FastGFile(str(tmp_path / "a")).mode == "r"
    assert gfile.FastGFile(str(tmp_path / "a"), "rb").read() == b"x"


def test_the_lower_case_names_take_tensorflow_2s_keywords(tmp_path):
    here = pathlib.Path(tmp_path)
    write(str(here / "a"), "x")
    gfile.copy(src=here / "a", dst=here / "b", overwrite=False)
    gfile.rename(src=here / "b", dst=here / "c", overwrite=False)
    gfile.makedirs(path=here / "d" / "e")
    gfile.mkdir(path=here / "d" / "f")
    assert gfile.glob(pattern=str(here / "?")) == [str(here / each) for each in "acd"]
    assert gfile.listdir(path=here / "d") == ["e", "f"]
    assert gfile.exists(path=here / "c") and gfile.isdir(path=here / "d")
    assert gfile.stat(path=here / "a").length == 1
    gfile.remove(path=here / "c")
    gfile.rmtree(path=here / "d")
    assert gfile.listdir(here) == ["a"]


def test_join_keeps_the_scheme_of_a_url():
    assert gfile.join("a", "b") == "a/b"
    assert gfile.join("a/", "", "b") == "a/b"
    assert gfile.join("gs://a", "b", "c") == "gs://a/b/c"
    assert gfile.join("ram://", "b") == "ram://b"
    assert gfile.join("s3://x/", "/y") == "/y"
