"""`tf.contrib.learn`'s ready-made models: linear, deep, and both together.

Their variables have the names that they had there (``dnn/hiddenlayer_0/weights``,
``linear/age/weight``), so that a checkpoint of such a program continues.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import millrace as tf
from millrace.contrib.learn import heads
from millrace.contrib.learn.estimator import Estimator
from millrace.contrib.learn.heads import PredictionKey
from millrace.contrib.learn.model_fn import ModeKeys
from millrace.ops.state import variable_changes

_DNN_RATE = 0.05
_LINEAR_RATE = 0.2
#: A wide part beside a deep one learns more slowly, so that the deep one is heard.
_JOINT_LINEAR_RATE = 0.005


def _as_dict(features: Any) -> dict[Any, Any]:
    return dict(features) if isinstance(features, dict) else {"": features}


def _optimizer(given: Any, default: Callable[[], Any]) -> Any:
    if given is None:
        return default()
    if isinstance(given, str):
        return tf.contrib.layers.OPTIMIZER_CLS_NAMES[given](learning_rate=_DNN_RATE)
    return given() if callable(given) and not isinstance(given, tf.train.Optimizer) else given


def _dnn_logits(features: dict[Any, Any], mode: str, params: dict[str, Any], units: int) -> Any:
    columns = params["dnn_feature_columns"]
    activation = params.get("activation_fn") or tf.nn.relu
    with tf.variable_scope("dnn", values=list(features.values())):
        with tf.variable_scope("input_from_feature_columns") as scope:
            net = tf.contrib.layers.input_from_feature_columns(
                features, columns, weight_collections=["dnn"], scope=scope
            )
        for i, width in enumerate(params["hidden_units"]):
            with tf.variable_scope(f"hiddenlayer_{i}", values=[net]) as scope:
                net = tf.contrib.layers.fully_connected(
                    net, width, activation_fn=activation, variables_collections=["dnn"],
                    scope=scope,
                )  # fmt: skip
                if params.get("dropout") is not None and mode == ModeKeys.TRAIN:
                    net = tf.contrib.layers.dropout(net, keep_prob=1.0 - params["dropout"])
            tf.summary.scalar(f"{scope.name}/fraction_of_zero_values", tf.nn.zero_fraction(net))
            tf.summary.histogram(f"{scope.name}/activation", net)
        with tf.variable_scope("logits", values=[net]) as scope:
            return tf.contrib.layers.fully_connected(
                net, units, activation_fn=None, variables_collections=["dnn"], scope=scope
            )


def _linear_logits(features: dict[Any, Any], params: dict[str, Any], units: int) -> Any:
    columns = params["linear_feature_columns"]
    with tf.variable_scope("linear", values=list(features.values())) as scope:
        return tf.contrib.layers.weighted_sum_from_feature_columns(
            features, columns, units, weight_collections=["linear"], scope=scope
        )[0]


def _linear_rate(columns: Sequence[Any], most: float) -> float:
    return min(most, 1.0 / math.sqrt(len(columns)))


def _train_by(optimizer: Any, loss: Any, scope: str, clip: float | None, step: Any) -> Any:
    variables = tf.get_collection(scope)
    gradients = tf.gradients(loss, variables)
    if clip:
        gradients, _ = tf.clip_by_global_norm(gradients, clip)
    return optimizer.apply_gradients(zip(gradients, variables, strict=True), global_step=step)


def _model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
    """All models: those of one part have no columns for the other."""
    head = params["head"]
    features = _as_dict(features)
    wide: Sequence[Any] = params["linear_feature_columns"]
    deep: Sequence[Any] = params["dnn_feature_columns"]
    units = head.logits_dimension
    deep_logits = _dnn_logits(features, mode, params, units) if deep else None
    wide_logits = _linear_logits(features, params, units) if wide else None
    clip = params.get("gradient_clip_norm")

    def train(loss: Any) -> Any:
        step = tf.train.get_global_step()
        if not deep:
            optimizer = _optimizer(
                params.get("linear_optimizer"),
                lambda: tf.train.FtrlOptimizer(_linear_rate(wide, _LINEAR_RATE)),
            )
            return _train_by(optimizer, loss, "linear", clip, step)
        once = bool(wide) and params.get("fix_global_step_increment_bug", True)
        parts: list[tuple[str, str, Callable[[], Any]]] = [
            ("dnn", "dnn_optimizer", lambda: tf.train.AdagradOptimizer(_DNN_RATE))
        ]
        if wide:
            rate = _linear_rate(wide, _JOINT_LINEAR_RATE)
            parts.append(("linear", "linear_optimizer", lambda: tf.train.FtrlOptimizer(rate)))
        updates = [
            tf.contrib.layers.optimize_loss(
                loss, step, learning_rate=_DNN_RATE,
                optimizer=_optimizer(params.get(given), default), clip_gradients=clip,
                variables=tf.get_collection(scope) if wide else None, name=scope, summaries=[],
                increment_global_step=not once,
            )
            for scope, given, default in parts
        ]  # fmt: skip
        if not once:
            return tf.group(*updates)
        with tf.control_dependencies(updates):
            return variable_changes.assign_add(step, 1).op

    if deep_logits is not None and wide_logits is not None:
        logits = deep_logits + wide_logits
    else:
        logits = deep_logits if deep_logits is not None else wide_logits
    if wide and deep:
        return head.create_model_fn_ops(features, mode, labels, train, logits)
    # What the head makes is part of the only model.
    with tf.variable_scope("dnn" if deep else "linear"):
        return head.create_model_fn_ops(features, mode, labels, train, logits)


def _refuse(**given: Any) -> None:
    """What is not built must not be ignored without a word."""
    for name, value in given.items():
        if value:
            raise NotImplementedError(
                f"tf.contrib.learn's {name} is not built: leave it out. The weights would be "
                "other ones than TensorFlow's."
            )


class _Canned(Estimator):
    """A model with a head; what `predict` gives without being told is `_default`."""

    _default: str | None = None

    def __init__(
        self,
        head: heads.Head,
        model_dir: Any,
        config: Any,
        feature_engineering_fn: Any,
        **params: Any,
    ) -> None:
        if not params.get("linear_feature_columns") and not params.get("dnn_feature_columns"):
            raise ValueError(
                "Either linear_feature_columns or dnn_feature_columns must be defined."
            )
        for name in ("linear_feature_columns", "dnn_feature_columns"):
            params[name] = tuple(params.get(name) or ())
        super().__init__(
            _model_fn, model_dir, config, {"head": head, **params}, feature_engineering_fn
        )

    def predict(
        self,
        x: Any = None,
        input_fn: Callable[..., Any] | None = None,
        batch_size: int | None = None,
        outputs: Any = None,
        as_iterable: bool = True,
        iterate_batches: bool = False,
    ) -> Any:
        """Predicts; without `outputs`, classes or scores alone."""
        if outputs or self._default is None:
            return super().predict(x, input_fn, batch_size, outputs, as_iterable, iterate_batches)
        return self._one(self._default, x, input_fn, batch_size, as_iterable)

    def _one(self, key: str, x: Any, input_fn: Any, batch_size: Any, as_iterable: bool) -> Any:
        found = super().predict(x, input_fn, batch_size, [key], as_iterable)
        return (each[key] for each in found) if as_iterable else found[key]


class _Classifier(_Canned):
    _default = PredictionKey.CLASSES

    def predict_classes(
        self,
        x: Any = None,
        input_fn: Callable[..., Any] | None = None,
        batch_size: int | None = None,
        as_iterable: bool = True,
    ) -> Any:
        """The class of each example."""
        return self._one(PredictionKey.CLASSES, x, input_fn, batch_size, as_iterable)

    def predict_proba(
        self,
        x: Any = None,
        input_fn: Callable[..., Any] | None = None,
        batch_size: int | None = None,
        as_iterable: bool = True,
    ) -> Any:
        """The probabilities of each example's classes."""
        return self._one(PredictionKey.PROBABILITIES, x, input_fn, batch_size, as_iterable)


class _Regressor(_Canned):
    _default = PredictionKey.SCORES

    def predict_scores(
        self,
        x: Any = None,
        input_fn: Callable[..., Any] | None = None,
        batch_size: int | None = None,
        as_iterable: bool = True,
    ) -> Any:
        """The score of each example."""
        return self._one(PredictionKey.SCORES, x, input_fn, batch_size, as_iterable)


class DNNClassifier(_Classifier):
    """A deep network that classifies."""

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Sequence[Any],
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        activation_fn: Any = tf.nn.relu,
        dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        config: Any = None,
        feature_engineering_fn: Callable[..., Any] | None = None,
        embedding_lr_multipliers: Any = None,
        input_layer_min_slice_size: int | None = None,
        label_keys: Any = None,
    ) -> None:
        """Makes one; Adagrad with 0.05 unless another optimizer is given."""
        _refuse(embedding_lr_multipliers=embedding_lr_multipliers)
        head = heads.multi_class_head(
            n_classes, weight_column_name=weight_column_name,
            enable_centered_bias=enable_centered_bias, label_keys=label_keys,
        )  # fmt: skip
        super().__init__(
            head, model_dir, config, feature_engineering_fn, hidden_units=hidden_units,
            dnn_feature_columns=feature_columns, dnn_optimizer=optimizer,
            activation_fn=activation_fn, dropout=dropout, gradient_clip_norm=gradient_clip_norm,
        )  # fmt: skip


class DNNRegressor(_Regressor):
    """A deep network that predicts a number."""

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Sequence[Any],
        model_dir: Any = None,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        activation_fn: Any = tf.nn.relu,
        dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        config: Any = None,
        feature_engineering_fn: Callable[..., Any] | None = None,
        label_dimension: int = 1,
        embedding_lr_multipliers: Any = None,
        input_layer_min_slice_size: int | None = None,
    ) -> None:
        """Makes one; arguments as in `DNNClassifier`."""
        _refuse(embedding_lr_multipliers=embedding_lr_multipliers)
        head = heads.regression_head(
            weight_column_name=weight_column_name, label_dimension=label_dimension,
            enable_centered_bias=enable_centered_bias,
        )  # fmt: skip
        super().__init__(
            head, model_dir, config, feature_engineering_fn, hidden_units=hidden_units,
            dnn_feature_columns=feature_columns, dnn_optimizer=optimizer,
            activation_fn=activation_fn, dropout=dropout, gradient_clip_norm=gradient_clip_norm,
        )  # fmt: skip


class DNNEstimator(_Canned):
    """A deep network with any head."""

    def __init__(
        self,
        head: Any,
        hidden_units: Sequence[int],
        feature_columns: Sequence[Any],
        model_dir: Any = None,
        optimizer: Any = None,
        activation_fn: Any = tf.nn.relu,
        dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        config: Any = None,
        feature_engineering_fn: Callable[..., Any] | None = None,
        embedding_lr_multipliers: Any = None,
        input_layer_min_slice_size: int | None = None,
    ) -> None:
        """Makes one; arguments as in `DNNClassifier`."""
        _refuse(embedding_lr_multipliers=embedding_lr_multipliers)
        super().__init__(
            head, model_dir, config, feature_engineering_fn, hidden_units=hidden_units,
            dnn_feature_columns=feature_columns, dnn_optimizer=optimizer,
            activation_fn=activation_fn, dropout=dropout, gradient_clip_norm=gradient_clip_norm,
        )  # fmt: skip


class LinearClassifier(_Classifier):
    """A linear model that classifies."""

    def __init__(
        self,
        feature_columns: Sequence[Any],
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        _joint_weight: bool = False,
        config: Any = None,
        feature_engineering_fn: Callable[..., Any] | None = None,
        label_keys: Any = None,
    ) -> None:
        """Makes one; FTRL unless another optimizer is given."""
        _refuse(_joint_weight=_joint_weight)
        head = heads.multi_class_head(
            n_classes, weight_column_name=weight_column_name,
            enable_centered_bias=enable_centered_bias, label_keys=label_keys,
        )  # fmt: skip
        super().__init__(
            head, model_dir, config, feature_engineering_fn,
            linear_feature_columns=feature_columns, linear_optimizer=optimizer,
            gradient_clip_norm=gradient_clip_norm,
        )  # fmt: skip


class LinearRegressor(_Regressor):
    """A linear model that predicts a number."""

    def __init__(
        self,
        feature_columns: Sequence[Any],
        model_dir: Any = None,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        label_dimension: int = 1,
        _joint_weights: bool = False,
        config: Any = None,
        feature_engineering_fn: Callable[..., Any] | None = None,
    ) -> None:
        """Makes one; arguments as in `LinearClassifier`."""
        _refuse(_joint_weights=_joint_weights)
        head = heads.regression_head(
            weight_column_name=weight_column_name, label_dimension=label_dimension,
            enable_centered_bias=enable_centered_bias,
        )  # fmt: skip
        super().__init__(
            head, model_dir, config, feature_engineering_fn,
            linear_feature_columns=feature_columns, linear_optimizer=optimizer,
            gradient_clip_norm=gradient_clip_norm,
        )  # fmt: skip


class LinearEstimator(_Canned):
    """A linear model with any head."""

    def __init__(
        self,
        feature_columns: Sequence[Any],
        head: Any,
        model_dir: Any = None,
        weight_column_name: str | None = None,
        optimizer: Any = None,
        gradient_clip_norm: float | None = None,
        _joint_weights: bool = False,
        config: Any = None,
        feature_engineering_fn: Callable[..., Any] | None = None,
    ) -> None:
        """Makes one; arguments as in `LinearClassifier`."""
        _refuse(_joint_weights=_joint_weights)
        super().__init__(
            head, model_dir, config, feature_engineering_fn,
            linear_feature_columns=feature_columns, linear_optimizer=optimizer,
            gradient_clip_norm=gradient_clip_norm,
        )  # fmt: skip


class DNNLinearCombinedEstimator(_Canned):
    """A linear and a deep model whose logits are added, with any head."""

    def __init__(
        self,
        head: Any,
        model_dir: Any = None,
        linear_feature_columns: Sequence[Any] | None = None,
        linear_optimizer: Any = None,
        _joint_linear_weights: bool = False,
        dnn_feature_columns: Sequence[Any] | None = None,
        dnn_optimizer: Any = None,
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Any = None,
        dnn_dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        config: Any = None,
        feature_engineering_fn: Callable[..., Any] | None = None,
        embedding_lr_multipliers: Any = None,
        fix_global_step_increment_bug: bool = False,
        input_layer_min_slice_size: int | None = None,
    ) -> None:
        """Makes one; see `DNNLinearCombinedClassifier`."""
        _refuse(
            embedding_lr_multipliers=embedding_lr_multipliers,
            _joint_linear_weights=_joint_linear_weights,
        )
        _check_deep(dnn_feature_columns, dnn_hidden_units)
        super().__init__(
            head, model_dir, config, feature_engineering_fn, hidden_units=dnn_hidden_units or (),
            linear_feature_columns=linear_feature_columns, linear_optimizer=linear_optimizer,
            dnn_feature_columns=dnn_feature_columns, dnn_optimizer=dnn_optimizer,
            activation_fn=dnn_activation_fn, dropout=dnn_dropout,
            gradient_clip_norm=gradient_clip_norm,
            fix_global_step_increment_bug=fix_global_step_increment_bug,
        )  # fmt: skip


def _check_deep(columns: Any, units: Any) -> None:
    if columns and not units:
        raise ValueError("dnn_hidden_units must be defined when dnn_feature_columns is specified.")


class DNNLinearCombinedClassifier(_Classifier):
    """Wide and deep: a linear and a deep model whose logits are added."""

    def __init__(
        self,
        model_dir: Any = None,
        n_classes: int = 2,
        weight_column_name: str | None = None,
        linear_feature_columns: Sequence[Any] | None = None,
        linear_optimizer: Any = None,
        _joint_linear_weights: bool = False,
        dnn_feature_columns: Sequence[Any] | None = None,
        dnn_optimizer: Any = None,
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Any = tf.nn.relu,
        dnn_dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        config: Any = None,
        feature_engineering_fn: Callable[..., Any] | None = None,
        embedding_lr_multipliers: Any = None,
        input_layer_min_slice_size: int | None = None,
        label_keys: Any = None,
        fix_global_step_increment_bug: bool = False,
    ) -> None:
        """Makes one.

        Without `fix_global_step_increment_bug` each part counts a step, so that a step counts as
        two: TensorFlow's default.
        """
        _refuse(
            embedding_lr_multipliers=embedding_lr_multipliers,
            _joint_linear_weights=_joint_linear_weights,
        )
        _check_deep(dnn_feature_columns, dnn_hidden_units)
        head = heads.multi_class_head(
            n_classes, weight_column_name=weight_column_name,
            enable_centered_bias=enable_centered_bias, label_keys=label_keys,
        )  # fmt: skip
        super().__init__(
            head, model_dir, config, feature_engineering_fn, hidden_units=dnn_hidden_units or (),
            linear_feature_columns=linear_feature_columns, linear_optimizer=linear_optimizer,
            dnn_feature_columns=dnn_feature_columns, dnn_optimizer=dnn_optimizer,
            activation_fn=dnn_activation_fn, dropout=dnn_dropout,
            gradient_clip_norm=gradient_clip_norm,
            fix_global_step_increment_bug=fix_global_step_increment_bug,
        )  # fmt: skip


class DNNLinearCombinedRegressor(_Regressor):
    """Wide and deep, for a number."""

    def __init__(
        self,
        model_dir: Any = None,
        weight_column_name: str | None = None,
        linear_feature_columns: Sequence[Any] | None = None,
        linear_optimizer: Any = None,
        _joint_linear_weights: bool = False,
        dnn_feature_columns: Sequence[Any] | None = None,
        dnn_optimizer: Any = None,
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Any = tf.nn.relu,
        dnn_dropout: float | None = None,
        gradient_clip_norm: float | None = None,
        enable_centered_bias: bool = False,
        label_dimension: int = 1,
        config: Any = None,
        feature_engineering_fn: Callable[..., Any] | None = None,
        embedding_lr_multipliers: Any = None,
        input_layer_min_slice_size: int | None = None,
        fix_global_step_increment_bug: bool = False,
    ) -> None:
        """Makes one; see `DNNLinearCombinedClassifier`."""
        _refuse(
            embedding_lr_multipliers=embedding_lr_multipliers,
            _joint_linear_weights=_joint_linear_weights,
        )
        _check_deep(dnn_feature_columns, dnn_hidden_units)
        head = heads.regression_head(
            weight_column_name=weight_column_name, label_dimension=label_dimension,
            enable_centered_bias=enable_centered_bias,
        )  # fmt: skip
        super().__init__(
            head, model_dir, config, feature_engineering_fn, hidden_units=dnn_hidden_units or (),
            linear_feature_columns=linear_feature_columns, linear_optimizer=linear_optimizer,
            dnn_feature_columns=dnn_feature_columns, dnn_optimizer=dnn_optimizer,
            activation_fn=dnn_activation_fn, dropout=dnn_dropout,
            gradient_clip_norm=gradient_clip_norm,
            fix_global_step_increment_bug=fix_global_step_increment_bug,
        )  # fmt: skip
