"""Who is waited for, who is pinged, who is given up: with a clock that is an argument."""

import pytest

from millrace.protocol.heartbeat import Heartbeat, Instruction, Settings, pause_seconds

PING, PROBE, WARN, LOSE = Instruction
SETTINGS = Settings(silence=2.0, busy=60.0)


class Peer:
    """A heartbeat, looked at every half second of a fake clock."""

    def __init__(self):
        self.now = 100.0
        self.heartbeat = Heartbeat(SETTINGS, self.now)

    def look(self, seconds=0.5):
        self.now += seconds
        return self.heartbeat.look(self.now)


@pytest.fixture
def peer():
    return Peer()


def test_a_task_that_speaks_is_left_alone(peer):
    for _ in range(100):
        peer.heartbeat.heard()
        peer.heartbeat.look(peer.now)
        peer.now += 0.4
    assert not peer.heartbeat.is_lost


def test_a_silent_task_is_pinged_then_probed_then_lost(peer):
    assert peer.look() == [PING]
    assert peer.look() == [PING, PROBE]
    peer.heartbeat.probed(False)
    assert peer.look() == [PING, PROBE]
    peer.heartbeat.probed(False)
    assert peer.look() == [LOSE]
    assert peer.heartbeat.is_lost
    assert peer.look() == []


def test_a_word_at_the_last_moment_saves_it(peer):
    for _ in range(3):
        peer.look()
        peer.heartbeat.probed(False)
    peer.heartbeat.heard()
    assert peer.look() == [PING]
    assert not peer.heartbeat.is_lost


def test_a_task_that_answers_probes_is_busy_and_is_waited_for(peer):
    said = []
    while not peer.heartbeat.is_lost:
        said.append(peer.look())
        peer.heartbeat.probed(True)
    assert sum(WARN in each for each in said) == 1
    assert peer.now - 100.0 == SETTINGS.busy


def test_nobody_is_lost_before_a_probe_has_failed(peer):
    said = [peer.look() for _ in range(20)]
    assert sum(PROBE in each for each in said) == 1  # one at a time
    assert not any(WARN in each for each in said)  # nothing is known of it yet
    peer.heartbeat.probed(False)
    assert peer.look() == [LOSE]


def test_an_answered_probe_starts_the_count_of_the_unanswered_again(peer):
    for _ in range(2):
        peer.look()
    peer.heartbeat.probed(True)
    peer.look()
    peer.heartbeat.probed(False)
    for _ in range(2):
        assert LOSE not in peer.look()
        peer.heartbeat.probed(False)
    assert LOSE in peer.look()


def test_time_in_which_the_observer_slept_is_nobodys_silence(peer):
    peer.look()
    assert LOSE not in peer.look(3600.0)
    assert peer.heartbeat.silent == 1.5


def test_a_clock_that_goes_back_harms_nobody(peer):
    assert peer.look(-50.0) == []
    assert peer.heartbeat.silent == 0.0


def test_who_did_not_look_for_half_as_long_as_others_wait_may_be_given_up():
    assert pause_seconds(SETTINGS) == 1.0
