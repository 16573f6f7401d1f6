"""`tf.distributions`: probabilities, statistics, divergences, shapes; samples by their moments."""

from parity_kit import array, case, floats, scenario

X = array([[0.3, 0.7, 0.1], [0.9, 0.2, 0.5]])
P = array([0.5, 1.5, 2.5])
Q = array([1.2, 0.8, 3.0])

MAKERS = {
    "normal": lambda d, a, b: d.Normal(a, b),
    "uniform": lambda d, a, b: d.Uniform(-a, b),
    "laplace": lambda d, a, b: d.Laplace(a, b),
    "student_t": lambda d, a, b: d.StudentT(a + 3.0, a, b),
    "gamma": lambda d, a, b: d.Gamma(a, b),
    "exponential": lambda d, a, b: d.Exponential(a),
    "beta": lambda d, a, b: d.Beta(a, b),
}


def _functions(name, make):
    grad = ["a", "b", "x"] if name not in ("uniform", "exponential", "beta", "student_t") else []

    @case(name=f"{name}_density", inputs={"a": P, "b": Q, "x": X}, grad=grad,
          numeric="kinks at the edges of some")  # fmt: skip
    def density(tf, a, b, x):
        of = make(tf.distributions, a, b)
        return of.log_prob(x), of.prob(x)

    @case(name=f"{name}_cumulated", inputs={"a": P, "b": Q, "x": X})
    def cumulated(tf, a, b, x):
        of = make(tf.distributions, a, b)
        x = x[0] if name in ("student_t", "beta") else x  # Betainc broadcasts scalars only
        return of.cdf(x), of.log_cdf(x), of.survival_function(x), of.log_survival_function(x)

    @case(name=f"{name}_statistics", inputs={"a": P, "b": Q})
    def statistics(tf, a, b):
        of = make(tf.distributions, a, b)
        found = [of.mean(), of.variance(), of.stddev(), of.entropy(), of.batch_shape_tensor()]
        return found if name == "uniform" else [*found, of.mode()]


for each, how in MAKERS.items():
    _functions(each, how)


@case(inputs={"x": array([-30.0, -12.0, -3.0, 0.0, 2.0, 7.0])})
def normal_far_out(tf, x):
    of = tf.distributions.Normal(0.0, 1.0)
    return of.log_cdf(x), of.quantile(of.cdf(x[2:5]))


@case(inputs={"z": floats(2, 4)}, grad=["z"])
def bernoulli(tf, z):
    of = tf.distributions.Bernoulli(logits=z)
    return of.log_prob([[1, 0, 1, 0]]), of.entropy(), of.mean(), of.variance(), of.prob(1)


@case(inputs={"z": floats(2, 4)}, grad=["z"])
def categorical(tf, z):
    of = tf.distributions.Categorical(logits=z)
    return of.log_prob([1, 3]), of.log_prob([[0, 1], [2, 3], [3, 3]]), of.entropy(), of.prob(2)


@case(inputs={"z": floats(2, 4)})
def categorical_choices(tf, z):
    of = tf.distributions.Categorical(probs=tf.nn.softmax(z))
    return of.mode(), of.cdf([1, 3]), of.event_size, of.logits


@case(inputs={"z": floats(4), "c": array([[1.0, 0.0, 2.0, 1.0], [4.0, 0.0, 0.0, 0.0]])})
def multinomial(tf, z, c):
    of = tf.distributions.Multinomial(4.0, logits=z)
    return of.log_prob(c), of.mean(), of.variance(), of.covariance()


@case(inputs={"p": P, "x": array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])})
def dirichlet(tf, p, x):
    of = tf.distributions.Dirichlet(p)
    return of.log_prob(x), of.mean(), of.variance(), of.covariance(), of.entropy()


@case(inputs={"p": P, "c": array([[1.0, 0.0, 2.0], [3.0, 0.0, 0.0]])})
def dirichlet_multinomial(tf, p, c):
    of = tf.distributions.DirichletMultinomial(3.0, p)
    return of.log_prob(c), of.mean(), of.variance(), of.covariance()


@case(inputs={"a": P, "b": Q, "z": floats(2, 4), "m": floats(2, 4)}, grad=["a", "b", "z", "m"])
def divergences(tf, a, b, z, m):
    d = tf.distributions
    return (
        d.kl_divergence(d.Normal(a, b), d.Normal(b, a)),
        d.kl_divergence(d.Categorical(logits=z), d.Categorical(logits=m)),
        d.kl_divergence(d.Bernoulli(logits=z), d.Bernoulli(logits=m)),
        d.kl_divergence(d.Gamma(a, b), d.Gamma(b, a)),
        d.kl_divergence(d.Beta(a, b), d.Beta(b, a)),
        d.kl_divergence(d.Dirichlet(a), d.Dirichlet(b)),
        d.Normal(a, b).cross_entropy(d.Normal(b, a)),
    )


@scenario
def samples_have_the_moments(run, tf):
    d = tf.distributions
    for of in (
        d.Normal([1.0, -2.0], 0.5), d.Uniform(-1.0, [1.0, 3.0]), d.Laplace([0.0, 1.0], 0.3),
        d.Gamma([2.0, 3.0], 4.0), d.Exponential([2.0, 4.0]), d.Beta([2.0, 1.0], 3.0),
        d.StudentT([9.0, 12.0], 1.0, 0.5), d.Bernoulli(probs=[0.2, 0.7]),
        d.Multinomial(3.0, probs=[0.2, 0.8]), d.Dirichlet([2.0, 3.0]),
    ):  # fmt: skip
        drawn = of.sample([4000], seed=7)
        run.note([of.name, drawn.shape.as_list(), of.batch_shape.as_list(), of.dtype.name])
        value, mean, spread = run.value(
            [
                tf.to_float(drawn),
                of.mean(),
                of.stddev()
                if not isinstance(of, (d.Multinomial, d.Dirichlet))
                else tf.sqrt(of.variance()),
            ]
        )
        assert abs(value.mean(0) - mean).max() < 0.08 * (1 + abs(mean).max()), of.name
        assert abs(value.std(0) - spread).max() < 0.08 * (1 + spread.max()), of.name


@scenario
def gradients_flow_through_samples_that_move(run, tf):
    a = tf.constant([2.0, 3.0])
    for of in (tf.distributions.Normal(a, 1.0), tf.distributions.Gamma(a, 1.0)):
        (slope,) = tf.gradients(tf.reduce_mean(of.sample(5000, seed=3)), a)
        value = run.value(slope)
        assert abs(value - 0.5).max() < 0.05, value
    logits = tf.constant([0.0, 1.0])
    drawn = tf.distributions.Categorical(logits=logits).sample(3)
    run.note([tf.gradients(tf.to_float(drawn), logits) == [None], str(drawn.dtype)])


@scenario
def names_and_errors(run, tf):
    of = tf.distributions.Normal(0.0, [1.0, 2.0], name="n")
    run.note([of.name, of.sample().name, of.sample().name, of.log_prob(1.0).name, repr(of)])
    run.note([str(tf.distributions.Normal(tf.zeros([2]), 1.0)), sorted(of.parameters)])
    run.raises("ValueError", lambda: tf.distributions.Bernoulli(), words="Must pass probs or")
    run.raises("NotImplementedError", lambda: tf.distributions.Gamma(1.0, 1.0).quantile(0.5))
    run.raises("NotImplementedError", lambda: of.kl_divergence(tf.distributions.Gamma(1.0, 1.0)),
               words="No KL")  # fmt: skip
    bad = tf.distributions.Normal(0.0, tf.placeholder_with_default(-1.0, []), validate_args=True)
    run.fails("InvalidArgumentError", bad.sample())
