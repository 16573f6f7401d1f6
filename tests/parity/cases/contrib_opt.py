"""`tf.contrib.opt`: where each optimizer leaves its variables, by TensorFlow 1.15's figures."""

from parity_kit import scenario

WHY = "TensorFlow 1.15's graph has its own forms of these updates"


def _trajectory(name, make, sparse=True):
    @scenario(name=name, replay=WHY)
    def trajectory(run, tf):
        w = tf.Variable([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.25]], name="w")
        b = tf.Variable([0.5, -0.5], name="b")
        step = tf.train.get_or_create_global_step()
        rows = tf.gather(w, [0, 2]) if sparse else w
        loss = tf.reduce_sum(tf.square(rows + b)) + tf.reduce_sum(tf.sin(w) * b)
        if sparse:
            loss = tf.reduce_sum(tf.square(rows - b))
        optimizer = make(tf.contrib.opt, tf, w)
        train = optimizer.apply_gradients(optimizer.compute_gradients(loss), global_step=step)
        run.value([tf.global_variables_initializer(), tf.local_variables_initializer()])
        run.note(sorted(v.name for v in tf.global_variables()))
        for _ in range(3):
            run.value(train)
        run([w, b])


for kind in (False, True):
    end = "_rows" if kind else ""
    _trajectory(f"adamax{end}", lambda o, tf, w: o.AdaMaxOptimizer(0.1), kind)
    _trajectory(f"nadam{end}", lambda o, tf, w: o.NadamOptimizer(0.1), kind)
    _trajectory(
        f"variable_clipping{end}",
        lambda o, tf, w: o.VariableClippingOptimizer(
            tf.train.GradientDescentOptimizer(0.1), {w: [1]}, 1.0
        ),
        kind,
    )
    _trajectory(f"reg_adagrad{end}", lambda o, tf, w: o.RegAdagradOptimizer(0.1), kind)
_trajectory("power_sign", lambda o, tf, w: o.PowerSignOptimizer(0.1), False)
_trajectory("add_sign", lambda o, tf, w: o.AddSignOptimizer(0.1), False)
_trajectory("lars", lambda o, tf, w: o.LARSOptimizer(0.5), False)
_trajectory("lars_nesterov", lambda o, tf, w: o.LARSOptimizer(0.5, use_nesterov=True), False)
_trajectory(
    "drop_stale",
    lambda o, tf, w: o.DropStaleGradientOptimizer(tf.train.GradientDescentOptimizer(0.1), 1),
    False,
)


@scenario(replay=WHY)
def scipy_finds_the_least(run, tf):
    x = tf.Variable([7.0, 7.0], name="x")
    loss = tf.reduce_sum(tf.square(x - [1.0, 2.0]))
    run.value(tf.global_variables_initializer())
    optimizer = tf.contrib.opt.ScipyOptimizerInterface(loss, options={"maxiter": 100})
    losses = []
    optimizer.minimize(run.session, fetches=[loss], loss_callback=lambda v: losses.append(v))
    run.note(len(losses) > 1)
    found = run.value(x)
    assert abs(found - [1.0, 2.0]).max() < 1e-3, found


@scenario(replay=WHY)
def scipy_keeps_constraints_and_bounds(run, tf):
    x = tf.Variable([7.0, 7.0], name="x")
    loss = tf.reduce_sum(tf.square(x))
    optimizer = tf.contrib.opt.ScipyOptimizerInterface(
        loss, equalities=[x[1] - 1.0], inequalities=[x[0] - 2.0], method="SLSQP"
    )
    bounded = tf.contrib.opt.ScipyOptimizerInterface(loss, var_to_bounds={x: ([1, 2], [9, 9])})
    run.value(tf.global_variables_initializer())
    optimizer.minimize(run.session)
    assert abs(run.value(x) - [2.0, 1.0]).max() < 1e-3
    bounded.minimize(run.session)
    assert abs(run.value(x) - [1.0, 2.0]).max() < 1e-3
    run.note("both")


def _meeting(name, make):
    @scenario(name=name, replay=WHY)
    def meeting(run, tf):
        step = tf.train.get_or_create_global_step()
        getter, wrap = make(tf.contrib.opt)
        with tf.variable_scope("", custom_getter=getter):
            w = tf.get_variable("w", initializer=[1.0, -2.0])
        loss = tf.reduce_sum(tf.square(w - [3.0, 1.0]))
        optimizer = wrap(tf.train.GradientDescentOptimizer(0.1))
        train = optimizer.minimize(loss, global_step=step)
        begin = optimizer.get_init_op(0)
        run.value([tf.global_variables_initializer(), tf.local_variables_initializer()])
        run.value(begin)
        run.note(sorted(v.name for v in tf.global_variables()))
        run.note(sorted(v.name for v in tf.local_variables()))
        centre = [v for v in tf.global_variables() if "center" in v.name]
        for _ in range(4):
            run.value(train)
            run([w, centre, step])


def _elastic(o):
    getter = o.ElasticAverageCustomGetter("/cpu:0")
    return getter, lambda opt: o.ElasticAverageOptimizer(opt, 1, getter, communication_period=2)


def _agn(o):
    getter = o.AGNCustomGetter("/cpu:0")
    return getter, lambda opt: o.AGNOptimizer(opt, 1, getter, communication_period=2)


_meeting("elastic_average", _elastic)
_meeting("agn", _agn)
