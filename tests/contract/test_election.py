"""What every place for the lease of the chief must do; run on a task, on ZooKeeper and on etcd."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import millrace as tf
from millrace.core import errors
from millrace.platform.ports import HeldPorts
from millrace.protocol.election import Reading, Record
from millrace.training.checkpoint.fence import Term
from millrace.training.election.backends import open_register
from millrace.training.election.campaign import Campaign
from millrace.training.election.register import Address, Register
from tests.contract.conftest import patiently

SECONDS = 60.0
#: Long enough for a chief on busy cores to renew it in time.
LEASE = 4.0
_paths = (f"/jobs/{number}/chief" for number in itertools.count())


class Place:
    """Where a lease may be: opens registers for one path, as different processes would."""

    def __init__(self, kind: str, request: pytest.FixtureRequest) -> None:
        self.kind = kind
        self.path = next(_paths)
        self._opened: list[Register] = []
        if kind == "builtin":
            self._server = tf.train.Server({"ps": ["localhost:0"]}, start=True)
        else:
            self.server = request.getfixturevalue(kind)

    def open(self, path: str | None = None) -> Register:
        if self.kind == "builtin":
            address = Address.parse("builtin")._replace(path=path or self.path)
            register = open_register(address, self._server.target)
        else:
            text = f"{self.kind}://{self.server.address}{path or self.path}"
            register = open_register(Address.parse(text), "")
        self._opened.append(register)
        return register

    def close(self) -> None:
        for register in self._opened:
            register.close()
        if self.kind == "builtin":
            self._server.stop()


@pytest.fixture(params=["builtin", "zookeeper", "etcd"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    place = Place(request.param, request)
    yield place
    place.close()


def write(register: Register, record: Record, version: int) -> bool:
    """Whether a write is taken; looks, if the answer to it is lost."""
    while True:
        try:
            return register.write(record, version)
        except errors.UnavailableError:
            reading = patiently(register.read)
            if reading.record == record or reading.version != version:
                return reading.record == record


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """What the condition is at last."""
    deadline = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.01)
    return found


def test_a_place_without_a_lease_says_so(place: Place) -> None:
    assert patiently(place.open().read).record is None


def test_what_one_wrote_another_reads(place: Place) -> None:
    one, other = place.open(), place.open()
    record = Record("worker 0, «eins»", 1, 0, 3.0)
    assert write(one, record, patiently(one.read).version)
    reading = patiently(other.read)
    assert reading.record == record
    assert write(other, record._replace(renewal=1), reading.version)
    assert patiently(one.read).record == record._replace(renewal=1)


def test_a_write_over_another_version_than_was_read_is_refused(place: Place) -> None:
    one, other = place.open(), place.open()
    first, second = Record("a", 1, 0, 3.0), Record("b", 2, 0, 3.0)
    empty = patiently(one.read)
    assert write(one, first, empty.version)
    assert not write(other, second, empty.version)
    reading = patiently(other.read)
    assert reading.record == first
    assert write(one, first._replace(renewal=1), reading.version)
    assert not write(other, second, reading.version)
    assert patiently(other.read).record == first._replace(renewal=1)


def test_two_jobs_with_paths_of_their_own_do_not_meet(place: Place) -> None:
    one, other = place.open(), place.open(f"{place.path}-other")
    assert write(one, Record("a", 1, 0, 3.0), patiently(one.read).version)
    assert patiently(other.read).record is None


def test_of_many_writers_at_once_one_succeeds(place: Place, background: Any) -> None:
    registers = [place.open() for _ in range(8)]
    versions = [patiently(register.read).version for register in registers]
    calls = [
        background(lambda r=r, v=v, i=i: write(r, Record(str(i), 1, 0, 3.0), v))
        for i, (r, v) in enumerate(zip(registers, versions, strict=True))
    ]
    assert sum(call.result() for call in calls) == 1


@pytest.mark.parametrize("place", ["zookeeper", "etcd"], indirect=True)
def test_a_server_that_does_not_answer_is_unavailable_and_comes_back(place: Place) -> None:
    register = place.open()
    record = Record("a", 1, 0, 3.0)
    assert write(register, record, patiently(register.read).version)
    place.server.signal(signal.SIGSTOP)
    try:
        with pytest.raises(errors.UnavailableError, match=place.server.address):
            register.read()
    finally:
        place.server.signal(signal.SIGCONT)
    assert patiently(register.read).record == record


@pytest.mark.parametrize("place", ["zookeeper", "etcd"], indirect=True)
def test_a_server_that_was_killed_and_started_again_still_has_the_lease(place: Place) -> None:
    register = place.open()
    record = Record("a", 1, 0, 3.0)
    assert write(register, record, patiently(register.read).version)
    place.server.kill()
    try:
        with pytest.raises(errors.UnavailableError, match=place.server.address):
            register.read()
    finally:
        place.server.start()
    reading = patiently(register.read)
    assert reading.record == record
    assert write(register, record._replace(renewal=1), reading.version)


# -- Campaigns -----------------------------------------------------------------------------


@pytest.fixture
def campaign(place: Place) -> Iterator[Callable[[], Campaign]]:
    campaigns: list[Campaign] = []

    def start(**options: Any) -> Campaign:
        campaigns.append(Campaign(place.open(), LEASE, **options))
        return campaigns[-1]

    yield start
    for each in campaigns:
        each.stop()


def freeze(campaign: Campaign) -> None:
    """Ends a campaign as a kill would: the lease is not given up."""
    campaign._ending.set()
    campaign._thread.join(SECONDS)


def test_one_of_several_candidates_becomes_chief(campaign: Callable[[], Campaign]) -> None:
    candidates = [campaign() for _ in range(3)]

    def is_decided() -> bool:
        chiefs = [c.name for c in candidates if c.term()]
        assert len(chiefs) <= 1
        return {c.holder for c in candidates} == set(chiefs) != set()

    wait_for(is_decided, "the candidates did not agree on one of them")


def test_when_the_chief_dies_another_one_follows_with_a_later_term(
    campaign: Callable[[], Campaign],
) -> None:
    first = campaign()
    term = wait_for(first.term, "nobody was elected")
    second = campaign()
    wait_for(lambda: second.holder == first.name, "the second did not see the first")
    freeze(first)
    assert wait_for(second.term, "nobody followed") > term
    assert first.term() is None
    third = campaign()
    wait_for(lambda: third.holder == second.name, "the one who returned did not see the chief")


def test_a_chief_who_resigns_is_followed_at_once(campaign: Callable[..., Campaign]) -> None:
    told: list[Term | None] = []
    first, second = campaign(), campaign(head_start=SECONDS)
    term = wait_for(first.term, "nobody was elected")
    second.listen(told.append)
    first.stop()
    assert wait_for(lambda: told, "the second was not told")[0] > term


def test_a_chief_at_his_end_is_told_whether_he_still_is_one(
    campaign: Callable[..., Campaign],
) -> None:
    first = campaign()
    wait_for(first.term, "nobody was elected")
    assert first.settle() is not None
    second = campaign()
    wait_for(lambda: second.holder == first.name, "the second did not see the first")
    assert second.settle() is None


def test_a_term_is_later_than_those_that_the_folder_knows(
    campaign: Callable[..., Campaign],
) -> None:
    candidate = campaign(latest=lambda: Term(41, "aa"))
    assert wait_for(candidate.term, "nobody was elected").token == 42


def test_a_wait_for_the_chief_ends_when_the_waiting_one_is_elected(
    campaign: Callable[..., Campaign],
) -> None:
    candidate = campaign(head_start=0.2)
    with pytest.raises(errors.AbortedError, match="it is this task now"):
        candidate.sleep(SECONDS)
    with pytest.raises(errors.AbortedError, match="it is this task now"):
        candidate.sleep(SECONDS)  # nobody waits for himself


def test_something_else_at_the_place_of_the_lease_is_an_error_with_advice(
    place: Place, campaign: Callable[[], Campaign], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Record, "encode", lambda self: b"a list of groceries")
    register = place.open()
    patiently(lambda: register.write(Record("a", 1, 0, 3.0), patiently(register.read).version))
    candidate = campaign()

    def fails() -> bool:
        try:
            candidate.term()
        except ValueError as error:
            return "path of its own" in str(error)
        return False

    wait_for(fails, "the campaign did not fail")


# -- Only some -----------------------------------------------------------------------------


@pytest.fixture
def address() -> Iterator[str]:
    """An address that nobody else is given while the test runs."""
    with HeldPorts(1) as held:
        yield held.addresses[0]


def test_a_task_that_restarts_forgets_and_refuses_writes_for_what_it_held(address: str) -> None:
    server = tf.train.Server({"ps": [address]})
    register = open_register(Address.parse("builtin"), server.target)
    record = Record("a", 1, 0, 3.0)
    empty = patiently(register.read)
    assert write(register, record, empty.version)
    held = patiently(register.read)
    server.stop()
    with pytest.raises(errors.UnavailableError):
        register.read()
    server = tf.train.Server({"ps": [address]})
    try:
        reading = patiently(register.read)
        assert reading.record is None
        assert not write(register, record, held.version)
        assert not write(register, record, empty.version)
        assert write(register, record, reading.version)
    finally:
        register.close()
        server.stop()


def test_a_task_that_is_not_there_is_unavailable() -> None:
    register = open_register(Address.parse("builtin"), "grpc://localhost:1")
    with pytest.raises(errors.UnavailableError):
        register.read()
    register.close()


def test_without_a_cluster_a_built_in_lease_is_in_the_process() -> None:
    register = open_register(Address.parse("builtin"), "")
    assert register.read() == Reading(None, 0)
    assert register.write(Record("a", 1, 0, 3.0), 0)
    register.close()


@pytest.mark.parametrize(
    "text, expected",
    [
        ("builtin", ("builtin", "", "/millrace/chief", 3.0)),
        ("builtin?lease=1.5", ("builtin", "", "/millrace/chief", 1.5)),
        ("etcd://a:2379/job", ("etcd", "a:2379", "/job", 3.0)),
        ("etcd://a:1,b:2/my/job?lease=2", ("etcd", "a:1,b:2", "/my/job", 2.0)),
        ("zookeeper://a:2181/job/", ("zookeeper", "a:2181", "/job", 3.0)),
    ],
)
def test_an_address_says_where_and_for_how_long(text: str, expected: tuple[Any, ...]) -> None:
    assert Address.parse(text) == expected


@pytest.mark.parametrize(
    "text", ["", "yes", "consul://a:1", "etcd://a:1", "etcd:///a", "builtin?lease=0", "builtin?x=1",
             "builtin?lease=soon", "builtin://a:1"]
)  # fmt: skip
def test_what_is_no_address_is_refused_with_the_ones_there_are(text: str) -> None:
    with pytest.raises(ValueError, match="zookeeper://host:port/path"):
        Address.parse(text)
