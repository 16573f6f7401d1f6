"""The log of transfers: bounded, and in the form of StepStats."""

import numpy as np

from millrace.server.transfer_log import TransferLog

PS, WORKER = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"


def note(log, step, *values, names=("x:0",)):
    log.note(step, names, PS, WORKER, values, 1_000_000)


def test_a_transfer_is_an_entry_of_its_receiver_with_size_and_names():
    log = TransferLog()
    note(log, 7, np.zeros(4, np.float32), np.array([b"ab", b"c"], object), names=("x:0", "s:0"))
    (row,) = log.take([7])[7].dev_stats
    (entry,) = row.node_stats
    assert row.device == WORKER
    assert entry.node_name == "RecvTensor"
    assert entry.timeline_label.startswith("[19B] [")
    assert entry.timeline_label.endswith(f"x:0, s:0 from {PS} to {WORKER}")
    assert entry.all_start_micros == 1000
    assert entry.all_end_rel_nanos > 0


def test_what_was_taken_is_forgotten_and_what_is_unknown_is_left_out():
    log = TransferLog()
    note(log, 1, np.zeros(1))
    note(log, 2, np.zeros(1))
    assert list(log.take([2, 3])) == [2]
    assert list(log.take([1, 2, 1])) == [1]


def test_the_oldest_steps_go_when_there_are_too_many():
    log = TransferLog(max_steps=2)
    for step in (1, 2, 3):
        note(log, step, np.zeros(1))
    assert list(log.take([1, 2, 3])) == [2, 3]


def test_the_oldest_transfers_of_a_step_go_when_there_are_too_many():
    log = TransferLog(max_transfers=2)
    for name in ("a:0", "b:0", "c:0"):
        note(log, 1, np.zeros(1), names=(name,))
    (row,) = log.take([1])[1].dev_stats
    assert [entry.timeline_label.split()[2] for entry in row.node_stats] == ["b:0", "c:0"]


def test_clearing_forgets_everything():
    log = TransferLog()
    note(log, 1, np.zeros(1))
    log.clear()
    assert log.take([1]) == {}
