"""Optimizers: three steps each, dense and sparse, on ref and resource variables; raw kernels."""

import numpy as np
from parity_kit import case, cases, scenario

TOL = {"rtol": 1e-5, "atol": 1e-6}

OPTIMIZERS = {
    "gradient_descent": lambda tf: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda tf: tf.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda tf: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adam": lambda tf: tf.train.AdamOptimizer(0.1),
    "adam_options": lambda tf: tf.train.AdamOptimizer(0.05, beta1=0.8, beta2=0.99, epsilon=1e-2),
    "adagrad": lambda tf: tf.train.AdagradOptimizer(0.1),
    "adagrad_options": lambda tf: tf.train.AdagradOptimizer(0.3, initial_accumulator_value=1.0),
    "adadelta": lambda tf: tf.train.AdadeltaOptimizer(1.0, rho=0.9, epsilon=1e-3),
    "rmsprop": lambda tf: tf.train.RMSPropOptimizer(0.05),
    "rmsprop_momentum": lambda tf: tf.train.RMSPropOptimizer(
        0.05, decay=0.8, momentum=0.5, epsilon=1e-3
    ),
    "rmsprop_centered": lambda tf: tf.train.RMSPropOptimizer(0.05, momentum=0.3, centered=True),
    "ftrl": lambda tf: tf.train.FtrlOptimizer(0.2),
    "ftrl_regularized": lambda tf: tf.train.FtrlOptimizer(
        0.2, l1_regularization_strength=0.05, l2_regularization_strength=0.1
    ),
    "ftrl_shrinkage": lambda tf: tf.train.FtrlOptimizer(
        0.2, learning_rate_power=-0.4, l2_shrinkage_regularization_strength=0.1
    ),
    "proximal_gd": lambda tf: tf.train.ProximalGradientDescentOptimizer(
        0.1, l1_regularization_strength=0.05, l2_regularization_strength=0.1
    ),
    "proximal_adagrad": lambda tf: tf.train.ProximalAdagradOptimizer(
        0.1, l1_regularization_strength=0.05, l2_regularization_strength=0.1
    ),
    "adagrad_da": lambda tf: tf.train.AdagradDAOptimizer(
        0.1, tf.train.get_or_create_global_step(), l1_regularization_strength=0.01
    ),
    "locking": lambda tf: tf.train.AdamOptimizer(0.1, use_locking=True),
}


def _dense_steps(run, tf, make, resource):
    w = tf.Variable([[1.0, -2.0], [3.0, 0.5]], name="w", use_resource=resource)
    b = tf.Variable([0.1, 0.2], name="b", use_resource=resource)
    x = tf.placeholder(tf.float32, [2])
    loss = tf.reduce_sum(tf.square(tf.matmul([x], w) + b - 1.0))
    optimizer = make(tf)
    step = tf.train.get_or_create_global_step()
    train = optimizer.minimize(loss, global_step=step)
    slots = [[n, optimizer.get_slot(w, n).name] for n in sorted(optimizer.get_slot_names())]
    run.note(slots)
    run.note([v.name for v in tf.global_variables()])
    run.initialize()
    for value in ([1.0, 2.0], [0.5, -1.0], [2.0, 0.0]):
        run.value(train, {x: value})
        run([w, b])
    run([step, [optimizer.get_slot(w, n) for n, _ in slots]])


def _sparse_steps(run, tf, make, resource):
    table = tf.Variable(
        np.linspace(-1, 1, 10, dtype=np.float32).reshape(5, 2), name="table", use_resource=resource
    )
    ids = tf.placeholder(tf.int32, [None])
    loss = tf.reduce_sum(tf.square(tf.gather(table, ids) - 0.3))
    optimizer = make(tf)
    train = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
    run.initialize()
    for value in ([0, 3], [3, 3, 1], [4]):
        run.value(train, {ids: value})
        run(table)


for _name, _make in OPTIMIZERS.items():
    for _flavour, _resource in (("ref", False), ("resource", True)):

        @scenario(name=f"{_name}_dense_{_flavour}", **TOL)
        def dense(run, tf, make=_make, resource=_resource):
            _dense_steps(run, tf, make, resource)

        @scenario(name=f"{_name}_sparse_{_flavour}", **TOL)
        def sparse(run, tf, make=_make, resource=_resource):
            _sparse_steps(run, tf, make, resource)


@scenario
def compute_and_apply(run, tf):
    a, b = tf.Variable([1.0, 2.0], name="a"), tf.Variable([3.0], name="b")
    unused = tf.Variable([9.0], name="unused")
    optimizer = tf.train.GradientDescentOptimizer(0.5)
    pairs = optimizer.compute_gradients(tf.reduce_sum(a * a) + tf.reduce_sum(b * 3.0))
    run.note([[str(g is None), v.op.name] for g, v in pairs])
    clipped = [(tf.clip_by_value(g, -1.0, 1.0), v) for g, v in pairs if g is not None]
    train = optimizer.apply_gradients(clipped, name="apply_it")
    run.note([train.name, train.type, unused.op.name])
    run.initialize()
    run.value(train)
    run([a, b, unused])


@scenario
def minimize_errors(run, tf):
    v = tf.Variable([1.0], name="v")
    optimizer = tf.train.GradientDescentOptimizer(0.5)
    run.raises(
        "ValueError", lambda: optimizer.minimize(tf.constant(1.0)), words="No gradients provided"
    )
    run.raises("ValueError", lambda: optimizer.apply_gradients([]))
    run.raises(
        "ValueError", lambda: optimizer.apply_gradients([(None, v)]), words="No gradients provided"
    )
    run.raises("TypeError", lambda: optimizer.apply_gradients([("x", v)]))
    run.raises("ValueError", lambda: tf.train.AdamOptimizer().compute_gradients(tf.constant(1)))


@scenario
def var_list_limits(run, tf):
    a, b = tf.Variable([1.0]), tf.Variable([1.0])
    frozen = tf.Variable([1.0], trainable=False)
    loss = tf.reduce_sum(a + b + frozen)
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss, var_list=[b])
    run.initialize()
    run.value(train)
    run([a, b, frozen])


@scenario
def fed_learning_rate(run, tf):
    v = tf.Variable([1.0])
    rate = tf.placeholder(tf.float32, [])
    train = tf.train.MomentumOptimizer(rate, 0.9).minimize(tf.reduce_sum(v * v))
    run.initialize()
    for value in (0.1, 0.0, 0.5):
        run.value(train, {rate: value})
        run(v)


@scenario
def callable_learning_rate(run, tf):
    v = tf.Variable([1.0])
    train = tf.train.GradientDescentOptimizer(lambda: 0.25).minimize(tf.reduce_sum(v))
    run.initialize()
    run.value(train)
    run(v)


@scenario
def float64_variables(run, tf):
    for make in (OPTIMIZERS["adam"], OPTIMIZERS["rmsprop"], OPTIMIZERS["adagrad"]):
        v = tf.Variable(np.array([1.0, -2.0]))
        train = make(tf).minimize(tf.reduce_sum(v * v))
        run.initialize()
        run.value(train)
        run.value(train)
        run(v)


@scenario
def two_variables_of_one_optimizer_share_powers(run, tf):
    a, b = tf.Variable([1.0], name="a"), tf.Variable([1.0], name="b")
    optimizer = tf.train.AdamOptimizer(0.1)
    optimizer.minimize(tf.reduce_sum(a * b))
    run.note(sorted(v.name for v in optimizer.variables()))
    run.note([optimizer.get_name(), sorted(optimizer.get_slot_names())])


@scenario
def gate_gradients(run, tf):
    v = tf.Variable([1.0])
    optimizer = tf.train.GradientDescentOptimizer(0.5)
    for gate in (optimizer.GATE_NONE, optimizer.GATE_OP, optimizer.GATE_GRAPH):
        train = optimizer.minimize(tf.reduce_sum(v * v), gate_gradients=gate)
        run.initialize()
        run.value(train)
        run(v)


@scenario
def moving_average(run, tf):
    v = tf.Variable([1.0, 2.0], name="v")
    average = tf.train.ExponentialMovingAverage(0.9)
    maintain = average.apply([v])
    run.note([average.average(v).name, average.average_name(v)])
    run.note(sorted(average.variables_to_restore()))
    run.initialize()
    run(average.average(v))
    for value in ([2.0, 3.0], [4.0, 0.0]):
        run.value(tf.assign(v, value))
        run.value(maintain)
        run(average.average(v))


@scenario
def moving_average_options(run, tf):
    steps = tf.Variable(0, trainable=False)
    v = tf.Variable([1.0])
    tensor = tf.identity(v) * 10.0
    average = tf.train.ExponentialMovingAverage(0.99, num_updates=steps, zero_debias=True)
    maintain = average.apply([tensor, v])
    run.initialize()
    for n in (0, 5, 100):
        run.value(tf.assign(steps, n))
        run.value(maintain)
        run([average.average(tensor), average.average(v)])


# --- raw kernels, as a stock client's graph has them

SCALARS = {
    "alpha": 0.1,
    "lr": 0.1,
    "rho": 0.9,
    "epsilon": 1e-3,
    "momentum": 0.8,
    "beta1": 0.9,
    "beta2": 0.99,
    "beta1_power": 0.81,
    "beta2_power": 0.98,
    "l1": 0.05,
    "l2": 0.1,
    "l2_shrinkage": 0.02,
    "lr_power": -0.5,
    "logbase": 1.0,
    "sign_decay": 0.7,
    "beta": 0.9,
}
# name: (slots, scalars, name of the gradient, extra attributes)
KERNELS = {
    "GradientDescent": ([], ["alpha"], "delta"),
    "ProximalGradientDescent": ([], ["alpha", "l1", "l2"], "delta"),
    "Momentum": (["accum"], ["lr", "momentum"], "grad"),
    "Adagrad": (["accum"], ["lr"], "grad"),
    "AdagradV2": (["accum"], ["lr", "epsilon"], "grad"),
    "ProximalAdagrad": (["accum"], ["lr", "l1", "l2"], "grad"),
    "Adadelta": (["accum", "accum_update"], ["lr", "rho", "epsilon"], "grad"),
    "Adam": (["m", "v"], ["beta1_power", "beta2_power", "lr", "beta1", "beta2", "epsilon"], "grad"),
    "AdaMax": (["m", "v"], ["beta1_power", "lr", "beta1", "beta2", "epsilon"], "grad"),
    "RMSProp": (["ms", "mom"], ["lr", "rho", "momentum", "epsilon"], "grad"),
    "CenteredRMSProp": (["mg", "ms", "mom"], ["lr", "rho", "momentum", "epsilon"], "grad"),
    "Ftrl": (["accum", "linear"], ["lr", "l1", "l2", "lr_power"], "grad"),
    "FtrlV2": (["accum", "linear"], ["lr", "l1", "l2", "l2_shrinkage", "lr_power"], "grad"),
    "AddSign": (["m"], ["lr", "alpha", "sign_decay", "beta"], "grad"),
    "PowerSign": (["m"], ["lr", "logbase", "sign_decay", "beta"], "grad"),
    "AdagradDA": (
        ["gradient_accumulator", "gradient_squared_accumulator"],
        ["lr", "l1", "l2"],
        "grad",
    ),
}
NO_SPARSE = {"GradientDescent", "Adam", "AdaMax", "AddSign", "PowerSign"}
START = {"var": [[1.0, -2.0], [0.5, 3.0], [-1.5, 0.2]], "mg": 0.05, "ms": 0.8, "v": 0.6}


def _initial(tf, name):
    value = START.get(name, 0.3)
    return value if isinstance(value, list) else np.full((3, 2), value, np.float32)


def _arguments(tf, kind, sparse):
    _, scalars, gradient = KERNELS[kind]
    arguments = {n: tf.constant(SCALARS[n]) for n in scalars}
    if kind == "AdagradDA":
        arguments["global_step"] = tf.constant(3, tf.int64)
    if sparse:
        arguments["grad"] = tf.constant([[0.5, -1.0], [2.0, 0.1]])
        arguments["indices"] = tf.constant([2, 0])
    else:
        arguments[gradient] = tf.constant([[0.5, -1.0], [2.0, 0.1], [0.0, -0.4]])
    return arguments


def _raw_ref(run, tf, kind, sparse):
    names = ["var", *KERNELS[kind][0]]
    refs = {n: tf.raw_ops.VariableV2(shape=[3, 2], dtype=tf.float32, shared_name=n) for n in names}
    fill = [tf.raw_ops.Assign(ref=ref, value=_initial(tf, n)) for n, ref in refs.items()]
    op = getattr(tf.raw_ops, f"SparseApply{kind}" if sparse else f"Apply{kind}")
    update = op(**refs, **_arguments(tf, kind, sparse))
    run.value(fill)
    run(update)
    run(update)
    run(list(refs.values()))


def _raw_resource(run, tf, kind, sparse):
    names = ["var", *KERNELS[kind][0]]
    handles = {
        n: tf.raw_ops.VarHandleOp(shape=[3, 2], dtype=tf.float32, shared_name=n) for n in names
    }
    fill = [
        tf.raw_ops.AssignVariableOp(resource=h, value=np.asarray(_initial(tf, n), np.float32))
        for n, h in handles.items()
    ]
    op = getattr(tf.raw_ops, f"ResourceSparseApply{kind}" if sparse else f"ResourceApply{kind}")
    update = op(**handles, **_arguments(tf, kind, sparse))
    run.value(fill)
    run.value(update)
    run.value(update)
    run([tf.raw_ops.ReadVariableOp(resource=h, dtype=tf.float32) for h in handles.values()])


for _kind in KERNELS:

    @scenario(name=f"raw_Apply{_kind}", **TOL)
    def raw_dense(run, tf, kind=_kind):
        _raw_ref(run, tf, kind, False)

    @scenario(name=f"raw_ResourceApply{_kind}", **TOL)
    def raw_resource_dense(run, tf, kind=_kind):
        _raw_resource(run, tf, kind, False)

    if _kind in NO_SPARSE:
        continue

    @scenario(name=f"raw_SparseApply{_kind}", **TOL)
    def raw_sparse(run, tf, kind=_kind):
        _raw_ref(run, tf, kind, True)

    @scenario(name=f"raw_ResourceSparseApply{_kind}", **TOL)
    def raw_resource_sparse(run, tf, kind=_kind):
        _raw_resource(run, tf, kind, True)


@scenario(**TOL)
def raw_nesterov_variants(run, tf):
    for op, attributes in (
        ("ApplyMomentum", {"use_nesterov": True}),
        ("ApplyAdam", {"use_nesterov": True}),
        ("ApplyAdagrad", {"update_slots": False}),
    ):
        kind = op.removeprefix("Apply")
        refs = {
            n: tf.raw_ops.VariableV2(shape=[3, 2], dtype=tf.float32)
            for n in ["var", *KERNELS[kind][0]]
        }
        fill = [tf.raw_ops.Assign(ref=ref, value=_initial(tf, n)) for n, ref in refs.items()]
        update = getattr(tf.raw_ops, op)(**refs, **_arguments(tf, kind, False), **attributes)
        run.value(fill)
        run(update)
        run(list(refs.values()))


# --- learning-rate schedules

SCHEDULES = {
    "exponential": lambda tf, s: tf.train.exponential_decay(0.1, s, 10, 0.5),
    "exponential_staircase": lambda tf, s: tf.train.exponential_decay(
        0.1, s, 10, 0.5, staircase=True
    ),
    "natural_exp": lambda tf, s: tf.train.natural_exp_decay(0.1, s, 10, 0.5),
    "natural_exp_staircase": lambda tf, s: tf.train.natural_exp_decay(
        0.1, s, 10, 0.5, staircase=True
    ),
    "inverse_time": lambda tf, s: tf.train.inverse_time_decay(0.1, s, 10, 0.5),
    "inverse_time_staircase": lambda tf, s: tf.train.inverse_time_decay(
        0.1, s, 10, 0.5, staircase=True
    ),
    "polynomial": lambda tf, s: tf.train.polynomial_decay(0.1, s, 20, 0.01, power=2.0),
    "polynomial_cycle": lambda tf, s: tf.train.polynomial_decay(0.1, s, 10, 0.01, cycle=True),
    "piecewise": lambda tf, s: tf.train.piecewise_constant(s, [3, 15], [1.0, 0.5, 0.1]),
    "cosine": lambda tf, s: tf.train.cosine_decay(0.1, s, 20, alpha=0.1),
    "cosine_restarts": lambda tf, s: tf.train.cosine_decay_restarts(0.1, s, 7),
    "linear_cosine": lambda tf, s: tf.train.linear_cosine_decay(0.1, s, 20),
}


@cases([(f"schedule_{n}", {}, f) for n, f in SCHEDULES.items()])
def schedules(tf, make):
    return [make(tf, tf.constant(step)) for step in (0, 3, 4, 15, 16, 40)]


@case()
def schedule_of_int64_steps(tf):
    return [
        tf.train.exponential_decay(0.1, tf.constant(5, tf.int64), 10, 0.5),
        tf.train.piecewise_constant(tf.constant(9, tf.int64), [3, 8], [1, 2, 3]),
    ]


@case(raises=("ValueError",))
def piecewise_of_wrong_lengths(tf):
    return tf.train.piecewise_constant(tf.constant(1), [3], [1.0])


@case(raises=("ValueError",))
def exponential_without_a_step(tf):
    return tf.train.exponential_decay(0.1, None, 10, 0.5)


@scenario(**TOL)
def schedule_drives_training(run, tf):
    step = tf.train.get_or_create_global_step()
    v = tf.Variable([1.0])
    rate = tf.train.exponential_decay(0.5, step, 1, 0.5)
    train = tf.train.GradientDescentOptimizer(rate).minimize(tf.reduce_sum(v), global_step=step)
    run.initialize()
    for _ in range(3):
        run.value(train)
        run([v, rate, step])
