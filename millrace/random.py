"""`tf.random`: seeds and random tensors, with and without state."""

from millrace.graph.random_seed import get_seed, set_random_seed
from millrace.ops.nn.candidate_sampling import (
    all_candidate_sampler,
    fixed_unigram_candidate_sampler,
    learned_unigram_candidate_sampler,
    log_uniform_candidate_sampler,
    uniform_candidate_sampler,
)
from millrace.ops.random.random import categorical, multinomial, truncated_normal
from millrace.ops.random.random import random_gamma as gamma
from millrace.ops.random.random import random_normal as normal
from millrace.ops.random.random import random_poisson as poisson
from millrace.ops.random.random import random_shuffle as shuffle
from millrace.ops.random.random import random_uniform as uniform
from millrace.ops.random.stateless import (
    stateless_categorical,
    stateless_multinomial,
    stateless_parameterized_truncated_normal,
    stateless_truncated_normal,
)
from millrace.ops.random.stateless import stateless_random_binomial as stateless_binomial
from millrace.ops.random.stateless import stateless_random_gamma as stateless_gamma
from millrace.ops.random.stateless import stateless_random_normal as stateless_normal
from millrace.ops.random.stateless import stateless_random_poisson as stateless_poisson
from millrace.ops.random.stateless import stateless_random_uniform as stateless_uniform

__all__ = [
    "all_candidate_sampler",
    "categorical",
    "fixed_unigram_candidate_sampler",
    "gamma",
    "get_seed",
    "learned_unigram_candidate_sampler",
    "log_uniform_candidate_sampler",
    "multinomial",
    "normal",
    "poisson",
    "set_random_seed",
    "shuffle",
    "stateless_binomial",
    "stateless_categorical",
    "stateless_gamma",
    "stateless_multinomial",
    "stateless_normal",
    "stateless_parameterized_truncated_normal",
    "stateless_poisson",
    "stateless_truncated_normal",
    "stateless_uniform",
    "truncated_normal",
    "uniform",
    "uniform_candidate_sampler",
]
