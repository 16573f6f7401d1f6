"""Which tasks have left a job well, and when that is over."""

from millrace.protocol.leaving import LeavingTasks


def test_it_is_over_when_all_served_tasks_have_left():
    job = LeavingTasks(["a", "b"])
    job.left("a")
    assert not job.is_over
    job.left("b")
    assert job.is_over


def test_a_task_that_comes_again_is_there_again():
    job = LeavingTasks(["a"])
    job.left("a")
    job.came("a")
    assert not job.is_over and not job.gone
    job.left("a")
    assert job.is_over


def test_strangers_do_not_count():
    job = LeavingTasks(["a"])
    job.left("x")
    job.came("x")
    job.left("a")
    assert job.is_over and job.gone == ["a"]


def test_a_task_that_serves_nobody_waits_for_nobody_and_stays():
    assert not LeavingTasks([]).is_over


def test_tasks_of_the_same_job_are_known_to_have_left_but_do_not_end_it():
    job = LeavingTasks(["w0", "w1"], others=["ps1"])
    job.left("ps1")
    job.left("w1")
    assert job.gone == ["ps1", "w1"] and not job.is_over
