"""`tf.contrib.layers.optimize_loss`."""

from __future__ import annotations

import numpy as np
import pytest

import millrace as tf

optimize_loss = tf.contrib.layers.optimize_loss


def model():
    w = tf.get_variable("w", initializer=tf.constant([3.0, 4.0]))
    return w, tf.reduce_sum(w * w) / 2.0, tf.train.get_or_create_global_step()


def after_a_step(train, *fetches):
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(train), session.run(list(fetches))


@pytest.mark.parametrize(
    "optimizer",
    [
        "SGD",
        tf.train.GradientDescentOptimizer,
        tf.train.GradientDescentOptimizer(0.5),
        lambda rate: tf.train.GradientDescentOptimizer(rate),
    ],
    ids=["name", "class", "object", "function"],
)
def test_an_optimizer_may_be_given_in_four_ways(optimizer) -> None:
    w, loss, step = model()
    value, (found, count) = after_a_step(optimize_loss(loss, step, 0.5, optimizer), w, step)
    assert value == 12.5
    np.testing.assert_allclose(found, [1.5, 2.0])
    assert count == 1


@pytest.mark.parametrize("name", tf.contrib.layers.OPTIMIZER_CLS_NAMES)
def test_every_name_trains(name: str) -> None:
    w, loss, step = model()
    _, (found,) = after_a_step(optimize_loss(loss, step, 0.1, name), w)
    assert (found < [3.0, 4.0]).all()


def test_gradients_are_clipped_by_their_global_norm_or_by_a_function() -> None:
    w, loss, step = model()
    clipped = optimize_loss(loss, step, 1.0, "SGD", clip_gradients=1.0)
    _, (found,) = after_a_step(clipped, w)
    np.testing.assert_allclose(found, [2.4, 3.2], rtol=1e-6)
    doubled = optimize_loss(
        loss, step, 1.0, "SGD", clip_gradients=lambda pairs: [(2 * g, v) for g, v in pairs]
    )
    _, (found,) = after_a_step(doubled, w)
    np.testing.assert_allclose(found, [-3, -4], rtol=1e-6)


def test_a_rate_decays_and_gradients_are_multiplied() -> None:
    w, loss, step = model()
    train = optimize_loss(
        loss,
        step,
        1.0,
        "SGD",
        gradient_multipliers={"w": 0.5},
        learning_rate_decay_fn=lambda rate, at: tf.train.exponential_decay(rate * 0.5, at, 1, 0.1),
        increment_global_step=False,
    )
    _, (found, count) = after_a_step(train, w, step)
    np.testing.assert_allclose(found, [2.25, 3.0], rtol=1e-6)
    assert count == 0


def test_updates_run_before_and_summaries_are_made() -> None:
    _, loss, step = model()
    seen = tf.get_variable("seen", initializer=0, trainable=False)
    tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(seen, 1).op)
    train = optimize_loss(
        loss,
        step,
        0.1,
        "SGD",
        name="opt",
        clip_gradients=5.0,
        summaries=tf.contrib.layers.OPTIMIZER_SUMMARIES,
    )
    merged = tf.summary.merge_all()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run(seen) == 1
        tags = {v.tag for v in tf.Summary.FromString(session.run(merged)).value}
    assert tags == {
        # The variable of that name was there before.
        "opt/learning_rate_1",
        "opt/loss",
        "opt/gradients/w",
        "opt/gradient_norm/w",
        "opt/global_norm/gradient_norm",
        "opt/global_norm/clipped_gradient_norm",
    }


def test_what_makes_no_sense_is_refused() -> None:
    _, loss, step = model()
    with pytest.raises(ValueError, match="Optimizer name should be one of .* you provided Best"):
        optimize_loss(loss, step, 0.1, "Best")
    with pytest.raises(ValueError, match=r"Invalid learning_rate -1"):
        optimize_loss(loss, step, -1, "SGD")
    with pytest.raises(ValueError, match="should be 0d Tensor or float"):
        optimize_loss(loss, step, tf.constant([0.1]), "SGD")
    with pytest.raises(ValueError, match="Unknown type <class 'str'> for clip_gradients"):
        optimize_loss(loss, step, 0.1, "SGD", clip_gradients="much")
    with pytest.raises(ValueError, match="Unrecognized optimizer"):
        optimize_loss(loss, step, 0.1, 3)
    with pytest.raises(ValueError, match="Summaries should be one of"):
        optimize_loss(loss, step, 0.1, "SGD", summaries=["weather"])
