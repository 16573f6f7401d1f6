"""Variables, ref and resource: creation, assignment, scopes, sharing, errors."""

import numpy as np
from parity_kit import scenario

FLAVOURS = {"ref": False, "resource": True}

for _flavour, _resource in FLAVOURS.items():

    @scenario(name=f"{_flavour}_initial_values_and_dtypes")
    def initial_values(run, tf, resource=_resource):
        made = [
            tf.Variable(3, use_resource=resource),
            tf.Variable([1.5, 2.0], use_resource=resource),
            tf.Variable([[True]], use_resource=resource),
            tf.Variable(["a", "b"], use_resource=resource),
            tf.Variable(tf.zeros([2, 3]), use_resource=resource),
            tf.Variable(lambda: tf.ones([2]), dtype=tf.float32, use_resource=resource),
            tf.Variable(2, dtype=tf.float64, use_resource=resource),
        ]
        run.note(
            [[v.dtype.base_dtype.name, v.get_shape().as_list(), v.name, v.op.name] for v in made]
        )
        run.initialize()
        run(made)

    @scenario(name=f"{_flavour}_assignments")
    def assignments(run, tf, resource=_resource):
        v = tf.Variable([1.0, 2.0, 3.0], use_resource=resource)
        run.initialize()
        run(tf.assign(v, [4.0, 5.0, 6.0]))
        run(tf.assign_add(v, [1.0, 1.0, 1.0]))
        run(tf.assign_sub(v, [0.5, 0.0, 0.5]))
        run(v.assign([7.0, 8.0, 9.0]))
        run(v.assign_add(v))
        run(v.assign_sub([1.0, 1.0, 1.0]))
        run(v)
        run([v + 1.0, v.value(), v.read_value(), tf.identity(v), v[1], v[1:]])

    @scenario(name=f"{_flavour}_assign_of_a_wrong_shape")
    def assign_wrong_shape(run, tf, resource=_resource):
        v = tf.Variable([1.0, 2.0], use_resource=resource)
        run.raises("ValueError", lambda: tf.assign(v, [1.0, 2.0, 3.0]))
        fed = tf.placeholder(tf.float32)
        update = tf.assign(v, fed)
        run.initialize()
        run(update, {fed: [3.0, 4.0]})
        run.fails("InvalidArgumentError", update, {fed: [1.0, 2.0, 3.0]})
        run(v)

    @scenario(name=f"{_flavour}_reading_before_initialization")
    def uninitialized(run, tf, resource=_resource):
        v = tf.Variable([1.0], name="weights", use_resource=resource)
        run.fails("FailedPreconditionError", v, words="weights")
        run.fails("FailedPreconditionError", v + 1.0, words="weights")
        if not resource:  # TensorFlow says NotFound of a resource that is only added to.
            run.fails("FailedPreconditionError", tf.assign_add(v, [1.0]), words="weights")
        run(tf.is_variable_initialized(v))
        run.initialize()
        run(tf.is_variable_initialized(v))
        run(v)

    @scenario(name=f"{_flavour}_load", replay="load is the client's")
    def load(run, tf, resource=_resource):
        v = tf.Variable([1.0, 2.0], use_resource=resource)
        run.initialize()
        v.load([5.0, 6.0], run.session)
        run(v)

    @scenario(name=f"{_flavour}_initial_value_and_initializer")
    def initial_value(run, tf, resource=_resource):
        v = tf.Variable([2.0], use_resource=resource)
        run(v.initial_value)
        run.value(v.initializer)
        run(v)

    @scenario(name=f"{_flavour}_report_uninitialized")
    def report(run, tf, resource=_resource):
        a = tf.Variable([2.0], name="a", use_resource=resource)
        tf.Variable([2.0], name="b", use_resource=resource)
        report = tf.report_uninitialized_variables()
        run(report)
        run.value(a.initializer)
        run(report)
        run.initialize()
        run(report)

    @scenario(name=f"{_flavour}_scatter_update_by_rows")
    def scatter_rows(run, tf, resource=_resource):
        for op in ("update", "add", "sub", "mul", "div", "min", "max"):
            v = tf.Variable(np.arange(1, 9, dtype=np.float32).reshape(4, 2), use_resource=resource)
            scatter = getattr(tf, f"scatter_{op}")(v, [2, 0], [[2.0, 3.0], [0.5, 4.0]])
            run.initialize()
            run(scatter)
            run(v)

    @scenario(name=f"{_flavour}_scatter_repeated_and_shaped_indices")
    def scatter_repeats(run, tf, resource=_resource):
        v = tf.Variable(np.zeros((4, 2), np.float32), use_resource=resource)
        run.initialize()
        run(tf.scatter_add(v, [1, 1, 3], [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]))
        run(tf.scatter_sub(v, [[1, 0], [1, 1]], np.ones((2, 2, 2), np.float32)))
        run(tf.scatter_update(v, 2, [9.0, 8.0]))
        run(tf.scatter_add(v, [0, 2], 5.0))

    @scenario(name=f"{_flavour}_scatter_ints")
    def scatter_ints(run, tf, resource=_resource):
        v = tf.Variable([1, 2, 3, 4], use_resource=resource)
        run.initialize()
        run(tf.scatter_add(v, [0, 3], [10, 20]))
        run(tf.scatter_update(v, tf.constant([1], tf.int64), [7]))

    @scenario(name=f"{_flavour}_scatter_nd")
    def scatter_nd(run, tf, resource=_resource):
        for op in ("update", "add", "sub"):
            v = tf.Variable(np.arange(8, dtype=np.float32).reshape(4, 2), use_resource=resource)
            function = getattr(tf, f"scatter_nd_{op}")
            elements = function(v, [[0, 1], [3, 0]], [10.0, 20.0])
            with tf.control_dependencies([elements]):
                rows = function(v, [[1], [2]], [[1.0, 2.0], [3.0, 4.0]])
            run.initialize()
            run.value(rows)
            run(v)

    @scenario(name=f"{_flavour}_gradients_flow_to_it")
    def gradients(run, tf, resource=_resource):
        v = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], use_resource=resource)
        dense = tf.gradients(tf.square(v), v)[0]
        sparse = tf.gradients(tf.square(tf.gather(v, [2, 0])), v)[0]
        run.note([isinstance(g, tf.IndexedSlices) for g in (dense, sparse)])
        run.initialize()
        run([dense, sparse])

    @scenario(name=f"{_flavour}_in_get_variable")
    def get_variable(run, tf, resource=_resource):
        with tf.variable_scope("s", use_resource=resource):
            a = tf.get_variable("a", [2], initializer=tf.constant_initializer(3.0))
        with tf.variable_scope("s", reuse=True):
            b = tf.get_variable("a", [2])
        run.note([a.name, b.name, a is b])
        run.initialize()
        run([a, b])

    @scenario(name=f"{_flavour}_strided_slice_assignment")
    def slice_assign(run, tf, resource=_resource):
        v = tf.Variable(np.arange(12, dtype=np.float32).reshape(3, 4), use_resource=resource)
        run.initialize()
        run.value(v[1:, ::2].assign([[-1.0, -2.0], [-3.0, -4.0]]))
        run(v)

    @scenario(name=f"{_flavour}_count_up_to")
    def count_up_to(run, tf, resource=_resource):
        v = tf.Variable(0, use_resource=resource)
        count = v.count_up_to(3)
        run.initialize()
        for _ in range(3):
            run(count)
        run.fails("OutOfRangeError", count, words="Reached limit of 3")
        run(v)


@scenario
def ref_initialized_value_depends_on_another(run, tf):
    a = tf.Variable([2.0])
    b = tf.Variable(a.initialized_value() * 3.0)
    c = tf.Variable(b.initialized_value() + a.initialized_value())
    run.initialize()
    run([a, b, c])


@scenario
def ref_scatter_out_of_range(run, tf):
    v = tf.Variable([1.0, 2.0])
    index = tf.placeholder(tf.int32, [1])
    run.initialize()
    run.fails("InvalidArgumentError", tf.scatter_add(v, index, [1.0]), {index: [5]})
    run(v)


@scenario
def ref_assign_without_shape_validation(run, tf):
    v = tf.Variable([1.0, 2.0], validate_shape=False)
    run.note(str(v.get_shape()))
    wide = tf.assign(v, [1.0, 2.0, 3.0], validate_shape=False)
    run.initialize()
    run(v)
    run(wide)
    run(v)


@scenario
def ref_values_read_earlier_do_not_change(run, tf):
    v = tf.Variable(np.zeros(4, np.float32))
    run.initialize()
    before = run.session.run(v)
    run(tf.assign_add(v, [1.0, 1.0, 1.0, 1.0]))
    run.note(before)


@scenario
def ref_swap(run, tf):
    a, b = tf.Variable([1.0]), tf.Variable([2.0])
    old_a, old_b = a + 0.0, b + 0.0
    with tf.control_dependencies([old_a, old_b]):
        swap = tf.group(tf.assign(a, old_b), tf.assign(b, old_a))
    run.initialize()
    run(swap)
    run([a, b])


@scenario
def ref_batch_scatter_update(run, tf):
    v = tf.Variable(np.zeros((2, 3), np.float32))
    run.initialize()
    run(tf.batch_scatter_update(v, [[0, 2], [1, 0]], [[1.0, 2.0], [3.0, 4.0]]))


@scenario
def ref_op_types(run, tf):
    v = tf.Variable([1.0], name="v")
    run.note(
        [v.op.type, v.initializer.type, v.value().op.type, v.dtype.name, v.dtype.base_dtype.name]
    )
    r = tf.Variable([1.0], name="r", use_resource=True)
    run.note([r.op.type, r.initializer.type, r.dtype.name, r.handle.dtype.name])


@scenario
def ref_temporary_variable(run, tf):
    temporary = tf.raw_ops.TemporaryVariable(shape=[2], dtype=tf.float32, var_name="t")
    filled = tf.raw_ops.Assign(ref=temporary, value=[1.0, 2.0])
    more = tf.raw_ops.AssignAdd(ref=filled, value=[10.0, 20.0])
    run(tf.raw_ops.DestroyTemporaryVariable(ref=more, var_name="t"))


@scenario
def raw_resource_variable(run, tf):
    handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[2], shared_name="h")
    initialized = tf.raw_ops.VarIsInitializedOp(resource=handle)
    write = tf.raw_ops.AssignVariableOp(resource=handle, value=[1.0, 2.0])
    read = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
    add = tf.raw_ops.AssignAddVariableOp(resource=handle, value=[0.5, 0.5])
    shape = tf.raw_ops.VariableShape(input=handle)
    gathered = tf.raw_ops.ResourceGather(resource=handle, indices=[1, 0, 1], dtype=tf.float32)
    scatter = tf.raw_ops.ResourceScatterAdd(resource=handle, indices=[1], updates=[5.0])
    destroy = tf.raw_ops.DestroyResourceOp(resource=handle)
    run(initialized)
    run.fails("FailedPreconditionError", read)
    run.value(write)
    run([initialized, read, shape, gathered])
    run.value(add)
    run.value(scatter)
    run(read)
    run.value(destroy)
    run(initialized)


# --- collections and scopes


@scenario
def collections_hold_variables(run, tf):
    tf.Variable(1, name="trained")
    tf.Variable(1, name="fixed", trainable=False)
    tf.Variable(1, name="local", collections=[tf.GraphKeys.LOCAL_VARIABLES])
    tf.get_local_variable("got", [1])
    tf.get_variable("mine", [1], collections=["special", tf.GraphKeys.GLOBAL_VARIABLES])
    for names in (
        tf.global_variables(),
        tf.trainable_variables(),
        tf.local_variables(),
        tf.get_collection("special"),
    ):
        run.note([v.op.name for v in names])
    run.note(
        [len(tf.all_variables()), len(tf.model_variables()), len(tf.moving_average_variables())]
    )


@scenario
def local_variables_have_their_own_initializer(run, tf):
    v = tf.Variable([3.0], collections=[tf.GraphKeys.LOCAL_VARIABLES], name="counted")
    init = tf.local_variables_initializer()
    run.value(tf.global_variables_initializer())
    run.fails("FailedPreconditionError", v, words="counted")
    run.value(init)
    run(v)


@scenario
def variables_initializer_of_some(run, tf):
    a, b = tf.Variable([1.0], name="a"), tf.Variable([2.0], name="b")
    run.value(tf.variables_initializer([a]))
    run(a)
    run.fails("FailedPreconditionError", b, words="b")
    run.value(tf.initialize_variables([b]))
    run(b)
    run.value(tf.initialize_all_variables())


@scenario
def variable_scope_names(run, tf):
    names = []
    with tf.variable_scope("outer") as outer:
        names.append(tf.get_variable("v", [1]).name)
        names.append(tf.add(1, 2).name)
        with tf.variable_scope("inner"):
            names.append(tf.get_variable("v", [1]).name)
            names.append(tf.add(1, 2).name)
    with tf.variable_scope("outer", reuse=True):
        names.append(tf.get_variable("v", [1]).name)
        names.append(tf.add(1, 2).name)
    with tf.variable_scope(outer, reuse=True):
        names.append(tf.get_variable("inner/v", [1]).name)
        names.append(tf.add(1, 2).name)
    with tf.name_scope("ns"):
        names.append(tf.get_variable("plain", [1]).name)
        names.append(tf.Variable(1, name="counted").name)
        with tf.variable_scope("vs"):
            names.append(tf.get_variable("w", [1]).name)
            names.append(tf.add(1, 2).name)
    with tf.variable_scope(None, default_name="layer"):
        names.append(tf.get_variable("w", [1]).name)
    with tf.variable_scope(None, default_name="layer"):
        names.append(tf.get_variable("w", [1]).name)
    run.note(names)
    run.note([tf.get_variable_scope().name, outer.name, outer.original_name_scope])


@scenario
def get_variable_errors(run, tf):
    tf.get_variable("v", [2])
    run.raises("ValueError", lambda: tf.get_variable("v", [2]), words="already exists")
    with tf.variable_scope("", reuse=True):
        run.raises("ValueError", lambda: tf.get_variable("missing", [2]), words="does not exist")
        run.raises("ValueError", lambda: tf.get_variable("v", [3]), words="shape")
        run.raises("ValueError", lambda: tf.get_variable("v", [2], dtype=tf.int32), words="dtype")
    run.raises("ValueError", lambda: tf.get_variable("no_shape"))


@scenario
def auto_reuse(run, tf):
    def layer():
        with tf.variable_scope("layer", reuse=tf.AUTO_REUSE):
            return tf.get_variable("w", [1])

    first, second = layer(), layer()
    run.note([first.name, first is second, len(tf.global_variables())])


@scenario
def reuse_is_inherited(run, tf):
    with tf.variable_scope("a"):
        tf.get_variable("v", [1])
        with tf.variable_scope("b"):
            tf.get_variable("v", [1])
    with tf.variable_scope("a", reuse=True), tf.variable_scope("b"):
        run.note([tf.get_variable_scope().reuse, tf.get_variable("v", [1]).name])
    with tf.variable_scope("a") as scope:
        scope.reuse_variables()
        run.note(tf.get_variable("v", [1]).name)


@scenario
def scope_defaults(run, tf):
    def regularizer(w):
        return tf.reduce_sum(w) * 0.1

    with tf.variable_scope(
        "s", initializer=tf.constant_initializer(2.0), regularizer=regularizer, dtype=tf.float64
    ):
        a = tf.get_variable("a", [2])
        b = tf.get_variable(
            "b", [2], initializer=tf.zeros_initializer(), regularizer=tf.no_regularizer
        )
    losses = [tf.identity(x) for x in tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)]
    run.note([a.dtype.base_dtype.name, len(losses)])
    run.initialize()
    run([a, b, losses])


@scenario
def custom_getter_sees_every_variable(run, tf):
    seen = []

    def custom(getter, name, *args, **kwargs):
        seen.append(name)
        return getter(name, *args, **kwargs) * 2.0

    with tf.variable_scope("s", custom_getter=custom):
        doubled = tf.get_variable("w", initializer=tf.constant([1.5]))
    run.note(seen)
    run.initialize()
    run(doubled)


@scenario
def default_initializers(run, tf):
    floats = tf.get_variable("f", [30, 40])
    ints = tf.get_variable("i", [2], dtype=tf.int32)
    bools = tf.get_variable("b", [2], dtype=tf.bool)
    run.initialize()
    run([ints, bools])
    value = run.value(floats)
    limit = (6.0 / 70) ** 0.5
    assert abs(value).max() <= limit and abs(value).max() > 0.95 * limit
    run.note(value.dtype.name)


@scenario
def initializer_by_tensor_or_array(run, tf):
    a = tf.get_variable("a", initializer=tf.constant([1, 2]))
    b = tf.get_variable("b", initializer=np.array([[1.0]]))
    c = tf.get_variable("c", initializer=3.5)
    run.note([v.dtype.base_dtype.name for v in (a, b, c)])
    run.initialize()
    run([a, b, c])


PARTITIONERS = {
    "fixed": lambda tf: tf.fixed_size_partitioner(3),
    "fixed_axis": lambda tf: tf.fixed_size_partitioner(2, axis=1),
    "axis_size": lambda tf: tf.variable_axis_size_partitioner(max_shard_bytes=40),
    "min_max": lambda tf: tf.min_max_variable_partitioner(max_partitions=4, min_slice_size=32),
}

for _name, _partitioner in PARTITIONERS.items():

    @scenario(name=f"partitioner_{_name}")
    def partitioner(run, tf, make=_partitioner):
        with tf.variable_scope("s", partitioner=make(tf)):
            v = tf.get_variable("v", [7, 4], initializer=tf.constant_initializer(1.0))
        run.note([type(v).__name__, [[p.name, p.get_shape().as_list()] for p in v]])
        run.note([v.name, v.get_shape().as_list()])
        run.initialize()
        run([v.as_tensor(), tf.reduce_sum(v)])


@scenario
def partitioned_variable_is_reused_and_assigned(run, tf):
    part = tf.fixed_size_partitioner(2)
    with tf.variable_scope("s", partitioner=part):
        a = tf.get_variable("v", [4], initializer=tf.ones_initializer())
    with tf.variable_scope("s", partitioner=part, reuse=True):
        b = tf.get_variable("v", [4])
    run.note([a is b, len(tf.global_variables())])
    pieces = list(a)
    run.initialize()
    run.value([tf.assign(pieces[0], [5.0, 6.0])])
    run(b.as_tensor())
    gradient = tf.gradients(tf.square(a.as_tensor()), pieces)
    run(gradient)


@scenario
def create_partitioned_variables(run, tf):
    parts = tf.create_partitioned_variables([4, 2], [2, 1], tf.constant_initializer(3.0), name="p")
    run.note([[p.name, p.get_shape().as_list()] for p in parts])
    run.initialize()
    run(list(parts))


@scenario
def variable_creator_scope(run, tf):
    made = []

    def creator(following, **kwargs):
        made.append(kwargs["name"])
        kwargs["trainable"] = False
        return following(**kwargs)

    with tf.variable_creator_scope(creator):
        tf.Variable(1.0, name="a")
        tf.get_variable("b", [1])
    run.note([made, len(tf.trainable_variables())])


@scenario
def make_template_shares(run, tf):
    def layer(x):
        return x * tf.get_variable("w", initializer=tf.constant(3.0))

    template = tf.make_template("t", layer)
    first, second = template(tf.constant(1.0)), template(tf.constant(2.0))
    run.note([v.name for v in tf.global_variables()])
    run.initialize()
    run([first, second])


@scenario
def variable_from_a_proto_and_global_step(run, tf):
    step = tf.train.get_or_create_global_step()
    run.note([step.name, step.dtype.base_dtype.name, tf.train.get_global_step() is step])
    run.raises("ValueError", tf.train.create_global_step)
    run.initialize()
    run(tf.assign_add(step, 5))
    run.note(tf.train.global_step(run.session, step))


@scenario
def assert_variables_initialized(run, tf):
    v = tf.Variable(1.0, name="v")
    check = tf.assert_variables_initialized()
    run.fails("FailedPreconditionError", check, words="v")
    run.value(v.initializer)
    run.value(check)
    run.note("passed")


@scenario
def operators_on_variables(run, tf):
    v = tf.Variable([1.0, -2.0])
    results = [
        v + 1.0,
        1.0 - v,
        v * v,
        v / 2.0,
        -v,
        abs(v),
        v > 0.0,
        v[0],
        v**2.0,
        v // 1.0,
        3.0 * v,
    ]
    run.initialize()
    run(results)
