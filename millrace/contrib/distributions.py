"""`tf.contrib.distributions`: `tf.distributions` and more of them. Re-exports only."""

from millrace.distributions import (
    FULLY_REPARAMETERIZED,
    NOT_REPARAMETERIZED,
    Bernoulli,
    Beta,
    Categorical,
    Dirichlet,
    DirichletMultinomial,
    Distribution,
    Exponential,
    Gamma,
    Laplace,
    Multinomial,
    Normal,
    RegisterKL,
    ReparameterizationType,
    StudentT,
    Uniform,
    kl_divergence,
)
from millrace.distributions.continuous import NormalWithSoftplusScale
from millrace.distributions.discrete import BernoulliWithSigmoidProbs, OneHotCategorical
from millrace.distributions.gamma_family import Chi2, InverseGamma
from millrace.distributions.multivariate import (
    Independent,
    MultivariateNormalDiag,
    MultivariateNormalDiagWithSoftplusScale,
    MultivariateNormalFullCovariance,
    MultivariateNormalTriL,
)

__all__ = [
    "FULLY_REPARAMETERIZED",
    "NOT_REPARAMETERIZED",
    "Bernoulli",
    "BernoulliWithSigmoidProbs",
    "Beta",
    "Categorical",
    "Chi2",
    "Dirichlet",
    "DirichletMultinomial",
    "Distribution",
    "Exponential",
    "Gamma",
    "Independent",
    "InverseGamma",
    "Laplace",
    "Multinomial",
    "MultivariateNormalDiag",
    "MultivariateNormalDiagWithSoftplusScale",
    "MultivariateNormalFullCovariance",
    "MultivariateNormalTriL",
    "Normal",
    "NormalWithSoftplusScale",
    "OneHotCategorical",
    "RegisterKL",
    "ReparameterizationType",
    "StudentT",
    "Uniform",
    "kl_divergence",
]
