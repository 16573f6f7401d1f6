"""When a job is over for a task that only serves."""

from millrace.protocol.departures import Departures


def test_it_is_over_when_all_have_left():
    job = Departures(["a", "b"])
    job.left("a")
    assert not job.is_over
    job.left("b")
    assert job.is_over


def test_who_comes_again_is_there_again():
    job = Departures(["a"])
    job.left("a")
    job.came("a")
    assert not job.is_over
    job.left("a")
    assert job.is_over


def test_strangers_do_not_count():
    job = Departures(["a"])
    job.left("x")
    job.came("x")
    job.left("a")
    assert job.is_over


def test_who_serves_nobody_waits_for_nobody_and_stays():
    assert not Departures([]).is_over
