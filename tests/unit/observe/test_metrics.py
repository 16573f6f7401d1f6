"""A task's metrics, and who gets them."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from millrace.core import errors
from millrace.observe import metrics
from millrace.observe.http import MetricsServer
from millrace.observe.observation import Observation, Times

STATUS = {
    "task": "/job:ps/replica:0/task:0",
    "incarnation": 255,
    "uptime_seconds": 3.5,
    "steps": 7,
    "running_steps": 1,
    "sessions": 0,
    "global_step": 41,
    "xla_calls": 3,
    "published": 2,
    "variables": [{"name": f"v{i}", "bytes": i} for i in range(30)],
    "queues": [{"name": "input", "size": 4, "capacity": 32}],
    "accumulators": [{"count": 2, "stale": 5}, {"count": 1, "stale": 1}],
    "traffic": {
        "worker": {
            "bytes_sent": 10,
            "bytes_received": 20,
            "messages_sent": 1,
            "messages_received": 2,
        }
    },
}


def samples(observed: Observation | None = None) -> dict[tuple[str, ...], float]:
    text = metrics.text_of(lambda: STATUS, observed or Observation()).decode()
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_a_task_knows_is_told_in_prometheus_words() -> None:
    found = samples()
    assert found["millrace_steps_total",] == 7
    assert found["millrace_global_step",] == 41
    assert found["millrace_queue_size", "input"] == 4
    assert found["millrace_bytes_received_total", "worker"] == 20
    assert found["millrace_stale_gradients_total",] == 6
    assert found["millrace_round_gradients",] == 2
    assert found["millrace_published_variable_groups",] == 2
    assert found["process_resident_memory_bytes",] > 0
    names = {name for name, *_ in found}
    assert {"millrace_compile_seconds_total", "millrace_host_runs_total"} <= names


def test_only_the_largest_variables_are_named() -> None:
    named = [key[1] for key in samples() if key[0] == "millrace_largest_variable_bytes"]
    assert len(named) == 20 and "v29" in named and "v9" not in named


def test_step_times_and_waits_are_told_by_task() -> None:
    observed = Observation()
    for seconds in (0.0004, 0.02, 60.0):
        observed.steps.note(seconds)
    observed.note_transfer("ps:0", 100, 0.5)
    observed.note_transfer("ps:0", 100, 0.25)
    found = samples(observed)
    assert found["millrace_step_seconds_bucket", "0.0005"] == 1
    assert found["millrace_step_seconds_bucket", "0.025"] == 2
    assert found["millrace_step_seconds_bucket", "+Inf"] == 3
    assert found["millrace_waited_seconds_total", "ps:0"] == 0.75
    assert found["millrace_values_received_bytes_total", "ps:0"] == 200


def test_times_are_counted_up_to_each_bound() -> None:
    times = Times()
    times.note(0.3)
    counts, total, last = times.read()
    assert counts[-1] == 1 and counts[0] == 0 and total == last == 0.3


@pytest.fixture
def server():
    made = MetricsServer("0", "127.0.0.1", lambda: STATUS, lambda: False, "secret", Observation())
    yield made
    made.close()


def asked(server: MetricsServer, path: str, token: str = "") -> tuple[int, str]:
    request = urllib.request.Request(f"http://{server.address}{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_health_is_open_and_metrics_are_for_those_with_the_token(server) -> None:
    assert asked(server, "/healthz") == (200, "ok\n")
    assert asked(server, "/readyz") == (503, "not ready\n")
    assert asked(server, "/metrics")[0] == asked(server, "/metrics", "guess")[0] == 401
    code, text = asked(server, "/metrics", "secret")
    assert code == 200 and "millrace_steps_total 7.0" in text
    assert asked(server, "/") == (404, "There are /metrics, /healthz and /readyz.\n")


def test_a_port_that_is_taken_and_one_that_is_none_are_sentences(server) -> None:
    with pytest.raises(errors.UnknownError, match=r"metrics cannot be served at .* in use"):
        MetricsServer(server.address, "127.0.0.1", lambda: STATUS, lambda: True)
    with pytest.raises(errors.InvalidArgumentError, match="is no port; write 9100"):
        MetricsServer("many", "127.0.0.1", lambda: STATUS, lambda: True)


def test_the_dashboard_asks_only_for_metrics_that_there_are() -> None:
    dashboard = json.loads((Path(__file__).parents[3] / "deploy/grafana.json").read_text())
    asked_for = set()
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            asked_for.update(re.findall(r"\b((?:millrace|process)_\w+)\{", target["expr"]))
    told = {name for name, *_ in samples()} | {
        f"millrace_{name}_total" for name in ("waited_seconds", "bytes_received")
    }
    assert asked_for <= told and len(asked_for) > 10
