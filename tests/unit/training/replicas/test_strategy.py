"""Strategies of one replica, and `tf.config`."""

from __future__ import annotations

import pytest

import millrace as tf


def test_without_a_strategy_the_default_one_answers() -> None:
    assert not tf.distribute.has_strategy()
    strategy = tf.distribute.get_strategy()
    assert strategy.num_replicas_in_sync == 1
    assert strategy.experimental_run_v2(lambda x: x + 1, (2,)) == 3


def test_one_device_is_where_everything_in_the_scope_is() -> None:
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with tf.Graph().as_default(), strategy.scope():
        assert tf.distribute.get_strategy() is strategy
        assert tf.constant(1).device == "/device:CPU:0"
    assert not tf.distribute.has_strategy()


def test_devices_of_the_process_are_listed() -> None:
    (cpu,) = tf.config.experimental.list_physical_devices("CPU")
    assert cpu.name == "/physical_device:CPU:0"
    assert tf.config.experimental.list_physical_devices("GPU") == []
    with pytest.raises(ValueError, match="non-GPU"):
        tf.config.experimental.set_memory_growth(cpu, True)
    with pytest.raises(NotImplementedError, match="JAX_PLATFORMS"):
        tf.config.experimental.set_visible_devices([], "CPU")
