"""Which names lead out of the folders that a server allows."""

import pytest

from millrace.core import errors
from millrace.platform import gfile
from millrace.platform.file_access import ALLOWED_FOLDERS, FileAccess, confined, current


@pytest.mark.parametrize(
    ("scheme", "path", "allowed"),
    [
        ("s3://", "bucket/job/model", True),
        ("S3://", "bucket/job", True),
        ("s3://", "bucket/job2/model", False),
        ("s3://", "bucket/job/../other", False),
        ("s3://", "bucket/job/%2e%2e/other", False),
        ("s3://", "bucket/job::file:///etc/passwd", False),
        ("gs://", "bucket/job/model", False),
        ("", "/data/x", True),
        ("file://", "/data/x", True),
        ("", "/data/../etc/passwd", False),
        ("", "/data2/x", False),
        ("", "data/x", False),
        ("", "/data/\0", False),
    ],
)
def test_a_name_is_judged_by_where_it_leads(scheme, path, allowed):
    access = FileAccess(["/data/", "s3://bucket/job"])
    assert access.allows(scheme, path) is allowed


def test_a_star_allows_everything():
    assert FileAccess(["*"]).allows("", "/etc/passwd")


def test_a_server_that_others_reach_allows_nothing_by_itself(monkeypatch):
    monkeypatch.delenv(ALLOWED_FOLDERS, raising=False)
    assert not FileAccess.for_server(None, is_reachable=True).allows("", "/tmp/x")
    assert FileAccess.for_server(None, is_reachable=False).allows("", "/tmp/x")


def test_the_environment_names_folders_and_urls(monkeypatch):
    monkeypatch.setenv(ALLOWED_FOLDERS, "/a:s3://bucket/b:/c")
    for reachable in (True, False):
        access = FileAccess.for_server(None, reachable)
        assert access.allows("", "/a/x") and access.allows("", "/c/x")
        assert access.allows("s3://", "bucket/b/x") and not access.allows("", "/b/x")


def test_confinement_is_the_threads_and_ends(tmp_path):
    (tmp_path / "file").write_text("content")
    with confined(FileAccess([])):
        with pytest.raises(errors.PermissionDeniedError, match=ALLOWED_FOLDERS):
            gfile.GFile(str(tmp_path / "file")).read()
        with confined(None):
            assert gfile.exists(str(tmp_path / "file"))
        with pytest.raises(errors.PermissionDeniedError):
            gfile.glob(str(tmp_path / "*"))
    assert current() is None
    assert gfile.GFile(str(tmp_path / "file")).read() == "content"
