"""`tf.distributions`. Re-exports only."""

from millrace.distributions.continuous import Laplace, Normal, StudentT, Uniform
from millrace.distributions.discrete import (
    Bernoulli,
    Categorical,
    DirichletMultinomial,
    Multinomial,
)
from millrace.distributions.distribution import (
    FULLY_REPARAMETERIZED,
    NOT_REPARAMETERIZED,
    Distribution,
    ReparameterizationType,
)
from millrace.distributions.divergence import RegisterKL, kl_divergence
from millrace.distributions.gamma_family import Beta, Dirichlet, Exponential, Gamma

__all__ = [
    "FULLY_REPARAMETERIZED",
    "NOT_REPARAMETERIZED",
    "Bernoulli",
    "Beta",
    "Categorical",
    "Dirichlet",
    "DirichletMultinomial",
    "Distribution",
    "Exponential",
    "Gamma",
    "Laplace",
    "Multinomial",
    "Normal",
    "RegisterKL",
    "ReparameterizationType",
    "StudentT",
    "Uniform",
    "kl_divergence",
]
