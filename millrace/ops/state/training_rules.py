"""The update rules of optimizers as pure functions.

A rule takes a variable's value, its gradient, its slots and the hyperparameters, and gives
the new value and the new slots: ``(var, grad, *slots, **hyper) -> (var, *slots)``. It works
element by element, so that it serves whole variables and rows of them alike. Parameters are
named as the inputs of TensorFlow's op types; the formulas are those of its CPU kernels. (The
rules give the new value rather than a difference, because proximal ones replace it.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from millrace.compiler.either import either
from millrace.compiler.xla import jax


def gradient_descent(var: Any, grad: Any, *, alpha: Any) -> tuple[Any, ...]:
    """Gradient descent.

    ``var ← var - alpha·grad``
    """
    return (var - alpha * grad,)


def momentum(
    var: Any, grad: Any, accum: Any, *, lr: Any, momentum: Any, use_nesterov: bool
) -> tuple[Any, ...]:
    """Momentum.

    ``accum ← momentum·accum + grad``, ``var ← var - lr·accum``;
    Nesterov's: ``var ← var - lr·(grad + momentum·accum)``
    """
    accum = accum * momentum + grad
    if use_nesterov:
        return var - (grad * lr + accum * momentum * lr), accum
    return var - accum * lr, accum


def keras_momentum(
    var: Any, grad: Any, accum: Any, *, lr: Any, momentum: Any, use_nesterov: bool
) -> tuple[Any, ...]:
    """Momentum of a velocity that includes the learning rate.

    ``accum ← momentum·accum - lr·grad``, ``var ← var + accum``;
    Nesterov's: ``var ← var + momentum·accum - lr·grad``
    """
    accum = accum * momentum - grad * lr
    if use_nesterov:
        return var + (accum * momentum - grad * lr), accum
    return var + accum, accum


def adagrad(var: Any, grad: Any, accum: Any, *, lr: Any, update_slots: bool) -> tuple[Any, ...]:
    """Adagrad.

    ``accum ← accum + grad²``, ``var ← var - lr·grad/√accum``
    """
    if update_slots:
        accum = accum + grad * grad
    return var - grad * lr * either.rsqrt(accum), accum


def adagrad_v2(
    var: Any, grad: Any, accum: Any, *, lr: Any, epsilon: Any, update_slots: bool
) -> tuple[Any, ...]:
    """Adagrad with an epsilon.

    ``accum ← accum + grad²``, ``var ← var - lr·grad/(√accum + epsilon)``
    """
    if update_slots:
        accum = accum + grad * grad
    return var - grad * lr / (either.sqrt(accum) + epsilon), accum


def adagrad_da(
    var: Any,
    grad: Any,
    gradient_accumulator: Any,
    gradient_squared_accumulator: Any,
    *,
    lr: Any,
    l1: Any,
    l2: Any,
    global_step: Any,
) -> tuple[Any, ...]:
    """Adagrad by dual averaging.

    ``g ← g + grad``, ``s ← s + grad²``,
    ``var ← -lr·sign(g)·max(|g| - l1·step, 0)/(l2·step·lr + √s)``
    """
    step = either.asarray(global_step).astype(var.dtype)
    total = gradient_accumulator + grad
    squared = gradient_squared_accumulator + grad * grad
    shrunk = either.sign(total) * either.maximum(either.abs(total) - l1 * step, 0)
    return -lr * shrunk / (l2 * (step * lr) + either.sqrt(squared)), total, squared


def adadelta(
    var: Any, grad: Any, accum: Any, accum_update: Any, *, lr: Any, rho: Any, epsilon: Any
) -> tuple[Any, ...]:
    """Adadelta.

    ``accum ← rho·accum + (1-rho)·grad²``,
    ``update = √(accum_update + epsilon)/√(accum + epsilon)·grad``,
    ``var ← var - lr·update``, ``accum_update ← rho·accum_update + (1-rho)·update²``
    """
    accum = accum * rho + grad * grad * (1 - rho)
    update = either.sqrt(accum_update + epsilon) * either.rsqrt(accum + epsilon) * grad
    return var - update * lr, accum, accum_update * rho + update * update * (1 - rho)


def adam(
    var: Any,
    grad: Any,
    m: Any,
    v: Any,
    *,
    beta1_power: Any,
    beta2_power: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
    use_nesterov: bool,
) -> tuple[Any, ...]:
    """Adam.

    ``rate = lr·√(1-beta2_power)/(1-beta1_power)``,
    ``m ← m + (1-beta1)·(grad - m)``, ``v ← v + (1-beta2)·(grad² - v)``,
    ``var ← var - rate·m/(√v + epsilon)``;
    Nesterov's: ``var ← var - rate·(beta1·m + (1-beta1)·grad)/(√v + epsilon)``
    """
    rate = lr * either.sqrt(1 - beta2_power) / (1 - beta1_power)
    m = m + (grad - m) * (1 - beta1)
    v = v + (grad * grad - v) * (1 - beta2)
    direction = m * beta1 + grad * (1 - beta1) if use_nesterov else m
    return var - direction * rate / (either.sqrt(v) + epsilon), m, v


def amsgrad(
    var: Any,
    grad: Any,
    m: Any,
    v: Any,
    vhat: Any,
    *,
    beta1_power: Any,
    beta2_power: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
) -> tuple[Any, ...]:
    """Adam that divides by the greatest second moment so far.

    As `adam`, with ``vhat ← max(vhat, v)``, ``var ← var - rate·m/(√vhat + epsilon)``
    """
    rate = lr * either.sqrt(1 - beta2_power) / (1 - beta1_power)
    m = m + (grad - m) * (1 - beta1)
    v = v + (grad * grad - v) * (1 - beta2)
    vhat = either.maximum(vhat, v)
    return var - m * rate / (either.sqrt(vhat) + epsilon), m, v, vhat


def adamax(
    var: Any,
    grad: Any,
    m: Any,
    v: Any,
    *,
    beta1_power: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    epsilon: Any,
) -> tuple[Any, ...]:
    """AdaMax.

    ``m ← m + (1-beta1)·(grad - m)``, ``v ← max(beta2·v, |grad|)``,
    ``var ← var - lr/(1-beta1_power)·m/(v + epsilon)``
    """
    m = m + (grad - m) * (1 - beta1)
    v = either.maximum(beta2 * v, either.abs(grad))
    return var - lr / (1 - beta1_power) * (m / (v + epsilon)), m, v


def rmsprop(
    var: Any, grad: Any, ms: Any, mom: Any, *, lr: Any, rho: Any, momentum: Any, epsilon: Any
) -> tuple[Any, ...]:
    """RMSProp.

    ``ms ← ms + (1-rho)·(grad² - ms)``, ``mom ← momentum·mom + lr·grad/√(ms + epsilon)``,
    ``var ← var - mom``
    """
    ms = ms + (grad * grad - ms) * (1 - rho)
    mom = mom * momentum + grad * lr / either.sqrt(epsilon + ms)
    return var - mom, ms, mom


def centered_rmsprop(
    var: Any,
    grad: Any,
    mg: Any,
    ms: Any,
    mom: Any,
    *,
    lr: Any,
    rho: Any,
    momentum: Any,
    epsilon: Any,
) -> tuple[Any, ...]:
    """RMSProp with the variance instead of the second moment.

    ``ms ← ms + (1-rho)·(grad² - ms)``, ``mg ← mg + (1-rho)·(grad - mg)``,
    ``mom ← momentum·mom + lr·grad/√(ms - mg² + epsilon)``, ``var ← var - mom``
    """
    ms = ms + (grad * grad - ms) * (1 - rho)
    mg = mg + (grad - mg) * (1 - rho)
    mom = mom * momentum + grad * lr / either.sqrt(ms - mg * mg + epsilon)
    return var - mom, mg, ms, mom


def ftrl(
    var: Any,
    grad: Any,
    accum: Any,
    linear: Any,
    *,
    lr: Any,
    l1: Any,
    l2: Any,
    lr_power: Any,
    multiply_linear_by_lr: bool,
    l2_shrinkage: Any = 0.0,
) -> tuple[Any, ...]:
    """Follow the regularised leader, proximally.

    ``s = accum + grad²``, ``σ = (s^-lr_power - accum^-lr_power)/lr``,
    ``linear ← linear + grad + 2·l2_shrinkage·var - σ·var``,
    ``var ← (l1·sign(linear) - linear)/(s^-lr_power/lr + 2·l2)`` if ``|linear| > l1`` else 0,
    ``accum ← s``

    With `multiply_linear_by_lr` the slot `linear` holds the above times `lr`.
    """
    accumulated = accum + grad * grad
    new_power = _negative_power(accumulated, lr_power)
    old_power = _negative_power(accum, lr_power)
    shrunk = grad + 2 * l2_shrinkage * var
    if multiply_linear_by_lr:
        linear = linear + (shrunk * lr - (new_power - old_power) * var)
        threshold, quadratic = l1 * lr, new_power + 2 * l2 * lr
    else:
        linear = linear + (shrunk - (new_power - old_power) / lr * var)
        threshold, quadratic = l1, new_power / lr + 2 * l2
    solved = (threshold * either.sign(linear) - linear) / quadratic
    return either.where(either.abs(linear) > threshold, solved, 0), accumulated, linear


def _negative_power(x: Any, power: Any) -> Any:
    """``x^-power``; by a square root for the usual power of -0.5."""
    if not isinstance(power, jax.Array):
        return either.sqrt(x) if np.all(power == -0.5) else x ** (-power)
    return either.where(power == -0.5, either.sqrt(x), x ** (-power))


def proximal_gradient_descent(
    var: Any, grad: Any, *, alpha: Any, l1: Any, l2: Any
) -> tuple[Any, ...]:
    """Gradient descent with a proximal step for l1 and l2.

    ``p = var - alpha·grad``, ``var ← sign(p)·max(|p| - alpha·l1, 0)/(1 + l2·alpha)``
    """
    return (_proximal_step(var - alpha * grad, alpha, l1, l2),)


def proximal_adagrad(
    var: Any, grad: Any, accum: Any, *, lr: Any, l1: Any, l2: Any
) -> tuple[Any, ...]:
    """Adagrad with a proximal step for l1 and l2.

    ``accum ← accum + grad²``, ``rate = lr/√accum``, ``p = var - rate·grad``,
    ``var ← sign(p)·max(|p| - rate·l1, 0)/(1 + l2·rate)``
    """
    accum = accum + grad * grad
    rate = lr * either.rsqrt(accum)
    return _proximal_step(var - grad * rate, rate, l1, l2), accum


def _proximal_step(point: Any, rate: Any, l1: Any, l2: Any) -> Any:
    shrunk = either.sign(point) * either.maximum(either.abs(point) - rate * l1, 0)
    return shrunk / (1 + l2 * rate)


def add_sign(
    var: Any, grad: Any, m: Any, *, lr: Any, alpha: Any, sign_decay: Any, beta: Any
) -> tuple[Any, ...]:
    """AddSign.

    ``m ← beta·m + (1-beta)·grad``,
    ``var ← var - lr·(alpha + sign_decay·sign(grad)·sign(m))·grad``
    """
    m = m * beta + grad * (1 - beta)
    agreement = either.sign(grad) * either.sign(m)
    return var - lr * (alpha + sign_decay * agreement) * grad, m


def power_sign(
    var: Any, grad: Any, m: Any, *, lr: Any, logbase: Any, sign_decay: Any, beta: Any
) -> tuple[Any, ...]:
    """PowerSign.

    ``m ← beta·m + (1-beta)·grad``,
    ``var ← var - lr·exp(logbase·sign_decay·sign(grad)·sign(m))·grad``
    """
    m = m * beta + grad * (1 - beta)
    agreement = either.sign(grad) * either.sign(m)
    return var - lr * either.exp(logbase * sign_decay * agreement) * grad, m
