"""Every optimizer with every option, over twenty steps.

The model has a dense weight, a bias and an embedding that each step looks up with repeated
positions, so one trajectory covers dense gradients and IndexedSlices with duplicates.
"""

import numpy as np
from parity_kit import scenario

STEPS = 20
REPLAYED = "the same optimizers are replayed in optimizers.py, in fewer steps"


def _decayed(tf, rate):
    return tf.train.exponential_decay(rate, tf.train.get_or_create_global_step(), 4, 0.8)


OPTIMIZERS = {
    "gradient_descent": lambda tf: tf.train.GradientDescentOptimizer(0.05),
    "gradient_descent_locking": lambda tf: tf.train.GradientDescentOptimizer(
        0.05, use_locking=True
    ),
    "gradient_descent_decayed": lambda tf: tf.train.GradientDescentOptimizer(_decayed(tf, 0.1)),
    "momentum": lambda tf: tf.train.MomentumOptimizer(0.02, 0.9),
    "momentum_nesterov": lambda tf: tf.train.MomentumOptimizer(
        0.02, 0.9, use_nesterov=True, use_locking=True
    ),
    "momentum_decayed": lambda tf: tf.train.MomentumOptimizer(_decayed(tf, 0.05), 0.5),
    "adam": lambda tf: tf.train.AdamOptimizer(0.05),
    "adam_options": lambda tf: tf.train.AdamOptimizer(
        0.05, beta1=0.7, beta2=0.95, epsilon=1e-3, use_locking=True
    ),
    "adam_decayed": lambda tf: tf.train.AdamOptimizer(_decayed(tf, 0.1)),
    "adagrad": lambda tf: tf.train.AdagradOptimizer(0.2),
    "adagrad_options": lambda tf: tf.train.AdagradOptimizer(
        0.3, initial_accumulator_value=2.0, use_locking=True
    ),
    "adadelta": lambda tf: tf.train.AdadeltaOptimizer(1.0),
    "adadelta_options": lambda tf: tf.train.AdadeltaOptimizer(
        2.0, rho=0.8, epsilon=1e-3, use_locking=True
    ),
    "rmsprop": lambda tf: tf.train.RMSPropOptimizer(0.02),
    "rmsprop_momentum": lambda tf: tf.train.RMSPropOptimizer(
        0.02, decay=0.8, momentum=0.6, epsilon=1e-3, use_locking=True
    ),
    "rmsprop_centered": lambda tf: tf.train.RMSPropOptimizer(
        0.02, decay=0.85, momentum=0.3, epsilon=1e-2, centered=True
    ),
    "ftrl": lambda tf: tf.train.FtrlOptimizer(0.2),
    "ftrl_l1_l2": lambda tf: tf.train.FtrlOptimizer(
        0.2,
        initial_accumulator_value=0.5,
        l1_regularization_strength=0.05,
        l2_regularization_strength=0.1,
        use_locking=True,
    ),
    "ftrl_power": lambda tf: tf.train.FtrlOptimizer(
        0.2, learning_rate_power=-0.3, l1_regularization_strength=0.01
    ),
    "ftrl_shrinkage": lambda tf: tf.train.FtrlOptimizer(
        0.2, l1_regularization_strength=0.02, l2_shrinkage_regularization_strength=0.1
    ),
    "ftrl_beta": lambda tf: tf.train.FtrlOptimizer(0.2, beta=0.5),
    "proximal_gradient_descent": lambda tf: tf.train.ProximalGradientDescentOptimizer(0.05),
    "proximal_gradient_descent_l1_l2": lambda tf: tf.train.ProximalGradientDescentOptimizer(
        0.05, l1_regularization_strength=0.1, l2_regularization_strength=0.2, use_locking=True
    ),
    "proximal_adagrad": lambda tf: tf.train.ProximalAdagradOptimizer(0.2),
    "proximal_adagrad_l1_l2": lambda tf: tf.train.ProximalAdagradOptimizer(
        0.2,
        initial_accumulator_value=0.4,
        l1_regularization_strength=0.05,
        l2_regularization_strength=0.1,
        use_locking=True,
    ),
    "adagrad_da": lambda tf: tf.train.AdagradDAOptimizer(0.2, tf.train.get_or_create_global_step()),
    "adagrad_da_l1_l2": lambda tf: tf.train.AdagradDAOptimizer(
        0.2,
        tf.train.get_or_create_global_step(),
        initial_gradient_squared_accumulator_value=0.5,
        l1_regularization_strength=0.02,
        l2_regularization_strength=0.1,
        use_locking=True,
    ),
}
#: Those whose hyper-parameters TensorFlow casts to the type of the variable.
DOUBLE = ("gradient_descent", "momentum_nesterov", "adam", "adagrad", "adadelta", "rmsprop")


def _numbers(*shape):
    """Numbers between -1 and 1 without a pattern, the same everywhere."""
    return np.sin(np.arange(1, np.prod(shape) + 1) ** 2.0).reshape(shape)


def _trajectory(run, tf, make, resource, dtype="float32"):
    weight = tf.Variable(_numbers(3, 2).astype(dtype), name="weight", use_resource=resource)
    bias = tf.Variable(_numbers(2).astype(dtype), name="bias", use_resource=resource)
    table = tf.Variable(_numbers(6, 3).astype(dtype), name="table", use_resource=resource)
    ids = tf.placeholder(tf.int32, [None], name="ids")
    target = tf.placeholder(tf.dtypes.as_dtype(dtype), [None, 2], name="target")
    rows = tf.nn.embedding_lookup(table, ids)
    loss = tf.reduce_mean(tf.square(tf.matmul(rows, weight) + bias - target))
    optimizer = make(tf)
    step = tf.train.get_or_create_global_step()
    train = optimizer.minimize(loss, global_step=step)
    slots = sorted(optimizer.get_slot_names())
    run.note(
        [[v.op.name, n, optimizer.get_slot(v, n).op.name] for v in (weight, table) for n in slots]
    )
    run.note(sorted(v.op.name for v in optimizer.variables()))
    run.initialize()
    for i in range(STEPS):
        feed = {ids: [i % 6, (i * i) % 5, i % 3, i % 6], target: _numbers(4, 2) + i % 4}
        run.value(train, feed)
        run([weight, bias, table])
    run([step, *(optimizer.get_slot(v, n) for v in (weight, bias, table) for n in slots)])


for _name, _make in OPTIMIZERS.items():
    for _flavour, _resource in (("ref", False), ("resource", True)):

        @scenario(name=f"{_name}_{_flavour}", rtol=2e-4, atol=2e-6, replay=REPLAYED)
        def trajectory(run, tf, make=_make, resource=_resource):
            _trajectory(run, tf, make, resource)

        if _name in DOUBLE:

            @scenario(name=f"{_name}_{_flavour}_float64", rtol=1e-6, atol=1e-9, replay=REPLAYED)
            def trajectory_of_doubles(run, tf, make=_make, resource=_resource):
                _trajectory(run, tf, make, resource, "float64")
