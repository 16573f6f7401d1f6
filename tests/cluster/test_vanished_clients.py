"""Sessions whose remote client has vanished go; what sessions share stays."""

import pytest

import millrace as tf
from millrace.client.remote import RemoteBackend
from millrace.rpc import service_messages
from millrace.rpc.service import Connection
from millrace.server.admission import session_leases


@pytest.fixture(autouse=True)
def short_grace(monkeypatch):
    monkeypatch.setattr(session_leases, "GRACE_SECONDS", 0.05)


def sessions(cluster):
    return [len(server._master.sessions) for server in cluster.servers.values()] + [
        len(server.worker.sessions.by_handle) for server in cluster.servers.values()
    ]


def test_the_session_of_a_client_that_is_gone_is_closed_everywhere(cluster, until):
    with tf.device("/job:ps/task:0"):
        v = tf.get_variable("v", initializer=3.0)
    target = cluster.target("worker", remote=True)
    other = tf.Session(target)
    other.run(v.initializer)
    lost = RemoteBackend(target, tf.Graph(), tf.ConfigProto())
    until(lambda: sum(lease.holds for lease in cluster["worker", 0]._leases._leases.values()) == 2)
    assert sessions(cluster) == [0, 2, 0, 2, 2, 2]
    lost._connection.close()  # as when its process is killed: no CloseSession
    until(lambda: sessions(cluster) == [0, 1, 0, 1, 1, 1])
    assert other.run(v) == 3.0
    other.close()
    until(lambda: not sum(sessions(cluster)))


def test_a_client_that_comes_back_in_time_keeps_its_session(monkeypatch):
    monkeypatch.setattr(session_leases, "GRACE_SECONDS", 60.0)
    closed = []
    leases = session_leases.SessionLeases(lambda handle: False, closed.append)
    leases.open("s")
    lease = leases._leases["s"]
    leases.hold("s")()  # The connection breaks ...
    assert lease.timer is not None
    let_go = leases.hold("s")  # ... and is there again.
    assert lease.timer is None
    monkeypatch.setattr(session_leases, "GRACE_SECONDS", 0.0)
    leases._look("s", lease)
    assert not closed
    let_go()
    lease.timer.join()
    assert closed == ["s"] and leases.hold("s") is None
    leases.stop()


def test_a_step_that_runs_keeps_its_session(until):
    busy, closed = [True], []
    leases = session_leases.SessionLeases(lambda handle: busy[0], closed.append)
    leases.open("s")
    leases.hold("s")()
    until(lambda: leases._leases["s"].timer is not None)
    assert not closed
    busy[0] = False
    until(lambda: closed == ["s"])
    leases.stop()


def test_a_session_that_is_used_is_not_closed_though_nobody_holds_it(cluster):
    """A client of TensorFlow's holds nothing."""
    connection = Connection(cluster.target("worker", remote=True).removeprefix("grpc://"))
    master = connection.master()
    handle = master.create_session(service_messages.CreateSessionRequest()).session_handle
    leases = cluster["worker", 0]._leases
    leases.close_idle()
    request = service_messages.ListDevicesRequest(session_handle=handle)
    assert len(master.list_devices(request).local_device) == 1
    master.close_session(service_messages.CloseSessionRequest(session_handle=handle))
    assert not leases._leases
    connection.close()


def test_one_that_was_idle_for_long_goes_when_another_is_made(cluster, monkeypatch):
    connection = Connection(cluster.target("worker", remote=True).removeprefix("grpc://"))
    master = connection.master()
    first = master.create_session(service_messages.CreateSessionRequest()).session_handle
    monkeypatch.setenv("MILLRACE_IDLE_SESSION_SECONDS", "3600")
    cluster["worker", 0]._leases._leases[first].used -= 3601
    second = master.create_session(service_messages.CreateSessionRequest()).session_handle
    with pytest.raises(tf.errors.AbortedError):
        master.list_devices(service_messages.ListDevicesRequest(session_handle=first))
    master.close_session(service_messages.CloseSessionRequest(session_handle=second))
    connection.close()
