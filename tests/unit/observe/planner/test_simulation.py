"""The planner's simulation, held against what can be worked out by hand."""

from __future__ import annotations

import pytest

from millrace.observe.planner import cost, picture
from millrace.observe.planner.cost import NotMeasured, StepCost
from millrace.observe.planner.simulation import Setting, simulate

FAST = 1e15


#: What headers add to bytes on the wire.
WIRE = 1514 / 1448


def rate(step: StepCost, **setting: float) -> float:
    return simulate(step, Setting(**{"link": FAST, **setting})).steps_per_second  # type: ignore[arg-type]


def test_workers_that_share_nothing_scale_linearly() -> None:
    step = StepCost(worker=0.1, ps=0.0, down=0, up=0)
    for workers in (1, 10, 100):
        assert rate(step, workers=workers, ps=1) == pytest.approx(10 * workers, rel=0.01)


def test_the_cpu_of_the_ps_is_a_ceiling_that_more_ps_raise() -> None:
    step = StepCost(worker=0.1, ps=0.01, down=0, up=0)
    for ps in (1, 2, 4):
        found = simulate(step, Setting(200, ps, FAST))
        assert found.steps_per_second == pytest.approx(100 * ps, rel=0.05)
        assert found.limit == "CPU of the ps" and found.busy["CPU of the ps"] > 0.95


def test_the_link_of_the_ps_is_a_ceiling() -> None:
    step = StepCost(worker=0.1, ps=0.0, down=1e6, up=1e3)  # 8 Mbit at 80 Mbit/s: ten a second
    found = simulate(step, Setting(50, 1, 80e6))
    assert found.steps_per_second == pytest.approx(10 / WIRE, rel=0.05)
    assert found.limit == "link out of the ps"


def test_one_worker_waits_for_its_transfers_and_round_trips() -> None:
    step = StepCost(worker=0.1, ps=0.02, down=1e6, up=1e6)
    expected = 0.1 + 0.02 + 2 * 8e6 * WIRE / 160e6 + 2 * 0.05
    assert rate(step, workers=1, ps=1, link=160e6, rtt=0.05) == pytest.approx(
        1 / expected, rel=0.01
    )


def test_three_workers_do_not_overlap_perfectly() -> None:
    # Mean value analysis of a closed network: two queues of 80 ms, 29 ms elsewhere.
    step = StepCost(worker=0.029, ps=0.0, down=1e6, up=1e6)
    assert rate(step, workers=3, ps=1, link=100e6) == pytest.approx(9.06 / WIRE, rel=0.06)


def test_a_synchronous_round_is_as_slow_as_all_its_transfers() -> None:
    step = StepCost(worker=0.1, ps=0.001, down=1e6, up=1e6)
    rounds = rate(step, workers=8, ps=1, link=160e6, synchronous=True)
    # Eight reads and eight writes of 50 ms go through one link, each way; reads overlap nothing.
    assert 1 / rounds == pytest.approx(0.1 + 8 * 0.05 + 8 * 0.05, rel=0.25)
    alone = rate(step, workers=1, ps=1, link=160e6, synchronous=True)
    assert rounds < alone


def test_the_published_curve_has_this_shape() -> None:
    """Seed 003: from 25 to 200 workers, 500 to above 2,000 images a second."""
    batch = 32  # of Inception, 100 MB of variables, on GPUs that make 20 images a second
    step = StepCost(worker=batch / 20, ps=0.02, down=1e8, up=1e8)
    images = {
        workers: batch * rate(step, workers=workers, ps=5, link=10e9) for workers in (25, 200)
    }
    assert images[25] == pytest.approx(500, rel=0.2)
    assert images[200] == pytest.approx(2000, rel=0.2)


def test_the_cost_of_a_step_is_what_two_looks_differ_by() -> None:
    def look(steps: int, waited: float, size: int, cpu: float) -> dict[str, object]:
        waits = {"/job:x/task:0": {"seconds": waited, "num_bytes": size, "messages": 1}}
        return {"own_steps": steps, "waits": waits, "process": {"cpu_seconds": cpu}}

    worker = look(10, 1.0, 1000, 0), look(110, 3.0, 101_000, 0)
    ps = look(0, 0.0, 0, 5.0), look(0, 0.0, 50_000, 6.0)
    found = cost.between(worker, ps, 10.0, per_byte=0.0)
    assert found == StepCost(worker=0.08, ps=0.01, down=1000, up=500)
    with pytest.raises(NotMeasured, match="made 0 steps"):
        cost.between((worker[0], worker[0]), ps, 10.0, 0.0)


@pytest.mark.parametrize(("text", "bits"), [("10gbit", 1e10), ("2.5 Mbit", 2.5e6), ("9bps", 9)])
def test_rates_are_read_as_tc_writes_them(text: str, bits: float) -> None:
    assert cost.parse_rate(text) == bits


@pytest.mark.parametrize("text", ["", "fast", "10", "-1gbit", "0gbit", "10gb it"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no rate"):
        cost.parse_rate(text)


def test_times_are_read() -> None:
    assert cost.parse_time("100us") == pytest.approx(1e-4)
    with pytest.raises(ValueError, match="no time"):
        cost.parse_time("soon")


def test_the_picture_has_a_curve_for_each_number_of_ps() -> None:
    step = StepCost(worker=0.1, ps=0.01, down=1e6, up=1e6)
    outcomes = [simulate(step, Setting(w, p, 1e9)) for p in (1, 2) for w in (1, 4)]
    drawn = picture.draw(outcomes, "a & b")
    assert "1 ps" in drawn and "2 ps" in drawn and "a &amp; b" in drawn
    assert drawn.count("<circle") == 4 and "limit: " in drawn
