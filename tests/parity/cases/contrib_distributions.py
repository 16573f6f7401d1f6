"""`tf.contrib.distributions`, by TensorFlow 1.15's figures."""

from parity_kit import scenario

WHY = "TensorFlow 1.15's graph goes through its own linear operators"


def _vectors(name, make):
    @scenario(name=name, replay=WHY)
    def vectors(run, tf):
        d = tf.contrib.distributions
        a, b = make(d, tf, 0.5), make(d, tf, 1.5)
        x = tf.constant([[0.3, -0.2], [1.0, 2.0], [0.0, 0.1]])
        run.note([a.batch_shape.as_list(), a.event_shape.as_list(), a.dtype.name])
        run([a.log_prob(x), a.entropy(), a.mean(), a.variance(), a.stddev()])
        run(d.kl_divergence(a, b))
        drawn = a.sample(3000, seed=5)
        run.note(drawn.shape.as_list())
        found, mean = run.value([drawn, a.mean()])
        assert abs(found.mean(0) - mean).max() < 0.15, found.mean(0)

    return vectors


_vectors(
    "normal_diag",
    lambda d, tf, s: d.MultivariateNormalDiag([1.0, s], [s, 2.0]),
)
_vectors(
    "normal_diag_of_a_batch",
    lambda d, tf, s: d.MultivariateNormalDiag(tf.zeros([3, 2]), tf.ones([2]) * s),
)
_vectors(
    "normal_diag_times",
    lambda d, tf, s: d.MultivariateNormalDiag([1.0, s], scale_identity_multiplier=s),
)
_vectors(
    "normal_tril",
    lambda d, tf, s: d.MultivariateNormalTriL([1.0, 0.0], [[1.0, 0.0], [s, 2.0]]),
)
_vectors(
    "normal_full",
    lambda d, tf, s: d.MultivariateNormalFullCovariance([1.0, 0.0], [[2.0, s], [s, 3.0]]),
)
_vectors(
    "independent",
    lambda d, tf, s: d.Independent(d.Normal([1.0, 0.0], [s, 2.0]), reinterpreted_batch_ndims=1),
)


@scenario(replay=WHY)
def more_of_numbers(run, tf):
    d = tf.contrib.distributions
    chi = d.Chi2([3.0, 5.0])
    run([chi.log_prob([1.0, 2.0]), chi.mean(), chi.variance()])
    inverse = d.InverseGamma([3.0, 4.0], 2.0)
    run([inverse.log_prob([0.5, 1.0]), inverse.cdf([0.5, 1.0]), inverse.mean(), inverse.variance(),
         inverse.entropy(), inverse.mode()])  # fmt: skip
    hot = d.OneHotCategorical(logits=[[0.1, 0.2, 0.7], [1.0, 0.0, 0.0]])
    run([hot.log_prob([[0, 0, 1], [1, 0, 0]]), hot.entropy(), hot.mode()])
    run.note(hot.sample(4).shape.as_list())
    soft = d.NormalWithSoftplusScale([0.0, 1.0], [0.5, -1.0])
    run([soft.log_prob([0.1, 0.2]), soft.stddev()])
