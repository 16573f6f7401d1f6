"""`tf.keras.callbacks`: what `fit` tells while it trains."""

from __future__ import annotations

from typing import Any

import numpy as np

import millrace as tf
from millrace.keras.engine import state


class Callback:
    """Methods that `fit` calls; a subclass overrides some."""

    def __init__(self) -> None:
        self.model: Any = None
        self.params: dict[str, Any] = {}
        self.validation_data: Any = None

    def set_params(self, params: dict[str, Any]) -> None:
        """Epochs and the like."""
        self.params = params

    def set_model(self, model: Any) -> None:
        """The model that is trained."""
        self.model = model

    def on_train_begin(self, logs: Any = None) -> None:
        """Before the first epoch."""

    def on_train_end(self, logs: Any = None) -> None:
        """After the last epoch."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Before an epoch."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """After an epoch, with its losses and metrics."""

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Before a batch."""

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a batch, with its loss."""

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Before a batch; calls `on_batch_begin`."""
        self.on_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """After a batch; calls `on_batch_end`."""
        self.on_batch_end(batch, logs)


class CallbackList:
    """Tells several callbacks."""

    def __init__(self, callbacks: list[Any], model: Any, params: dict[str, Any]) -> None:
        self.callbacks = callbacks
        for callback in callbacks:
            callback.set_model(model)
            callback.set_params(params)

    def on_train_begin(self) -> None:
        """Tells all."""
        for callback in self.callbacks:
            callback.on_train_begin()

    def on_train_end(self) -> None:
        """Tells all."""
        for callback in self.callbacks:
            callback.on_train_end()

    def on_epoch_begin(self, epoch: int) -> None:
        """Tells all."""
        for callback in self.callbacks:
            callback.on_epoch_begin(epoch, {})

    def on_epoch_end(self, epoch: int, logs: dict[str, Any]) -> None:
        """Tells all."""
        for callback in self.callbacks:
            callback.on_epoch_end(epoch, logs)

    def on_batch_begin(self, batch: int, logs: dict[str, Any]) -> None:
        """Tells all."""
        for callback in self.callbacks:
            callback.on_train_batch_begin(batch, logs)

    def on_batch_end(self, batch: int, logs: dict[str, Any]) -> None:
        """Tells all."""
        for callback in self.callbacks:
            callback.on_train_batch_end(batch, logs)


class History(Callback):
    """Losses and metrics of each epoch."""

    def on_train_begin(self, logs: Any = None) -> None:
        """Begins empty."""
        self.epoch: list[int] = []
        self.history: dict[str, list[Any]] = {}

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Notes an epoch."""
        self.epoch.append(epoch)
        for key, value in (logs or {}).items():
            self.history.setdefault(key, []).append(value)


class ProgressLogger(Callback):
    """One line for each epoch."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Prints it."""
        values = " - ".join(f"{k}: {v:.4f}" for k, v in (logs or {}).items())
        print(f"Epoch {epoch + 1}/{self.params.get('epochs')} - {values}")


class LambdaCallback(Callback):
    """Functions as a callback."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        for name, function in kwargs.items():
            if function is not None:
                setattr(self, name, function)


class EarlyStopping(Callback):
    """Stops when a value no longer gets better."""

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0,
        patience: int = 0,
        verbose: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
    ) -> None:
        super().__init__()
        self.monitor, self.patience, self.verbose = monitor, patience, verbose
        self.rises = mode == "max" or (mode == "auto" and "acc" in monitor)
        self.min_delta = abs(min_delta)
        self.baseline, self.restore_best_weights = baseline, restore_best_weights
        self.stopped_epoch = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Begins again."""
        self.wait, self.best_weights = 0, None
        worst = -np.inf if self.rises else np.inf
        self.best = worst if self.baseline is None else self.baseline

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Stops after `patience` epochs without a better value."""
        value = (logs or {}).get(self.monitor)
        if value is None:
            tf.logging.warning(
                "Early stopping conditioned on metric `%s` which is not available. Available "
                "metrics are: %s", self.monitor, ",".join(logs or {}),
            )  # fmt: skip
            return
        better = (
            value - self.min_delta > self.best if self.rises else value + self.min_delta < self.best
        )
        if better:
            self.best, self.wait = value, 0
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            return
        self.wait += 1
        if self.wait >= self.patience:
            self.stopped_epoch = epoch
            self.model.stop_training = True
            if self.best_weights is not None:
                self.model.set_weights(self.best_weights)


class ModelCheckpoint(Callback):
    """Saves the weights after epochs."""

    def __init__(
        self,
        filepath: str,
        monitor: str = "val_loss",
        verbose: int = 0,
        save_best_only: bool = False,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: Any = "epoch",
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.filepath, self.monitor, self.save_best_only = filepath, monitor, save_best_only
        self.rises = mode == "max" or (mode == "auto" and "acc" in monitor)
        self.best = -np.inf if self.rises else np.inf

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Saves, if it is better."""
        logs = logs or {}
        if self.save_best_only:
            value = logs.get(self.monitor)
            if value is None or not (value > self.best if self.rises else value < self.best):
                return
            self.best = value
        self.model.save_weights(self.filepath.format(epoch=epoch + 1, **logs))


class TensorBoard(Callback):
    """Writes losses and metrics of epochs as summaries."""

    def __init__(self, log_dir: str = "logs", write_graph: bool = True, **kwargs: Any) -> None:
        super().__init__()
        self.log_dir = log_dir
        self.write_graph = write_graph

    def on_train_begin(self, logs: Any = None) -> None:
        """Opens the file."""
        graph = tf.get_default_graph() if self.write_graph else None
        self.writer = tf.summary.FileWriter(self.log_dir, graph)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Writes an epoch."""
        for key, value in (logs or {}).items():
            summary = tf.Summary(value=[tf.Summary.Value(tag=f"epoch_{key}", simple_value=value)])
            self.writer.add_summary(summary, epoch)
        self.writer.flush()

    def on_train_end(self, logs: Any = None) -> None:
        """Closes the file."""
        self.writer.close()


class LearningRateScheduler(Callback):
    """Sets the learning rate before each epoch."""

    def __init__(self, schedule: Any, verbose: int = 0) -> None:
        super().__init__()
        self.schedule = schedule

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Sets it."""
        try:
            rate = self.schedule(
                epoch, float(state.get_session().run(self.model.optimizer.learning_rate))
            )
        except TypeError:
            rate = self.schedule(epoch)
        self.model.optimizer.learning_rate = float(rate)


class TerminateOnNaN(Callback):
    """Stops when the loss is no number."""

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Looks at the loss."""
        loss = (logs or {}).get("loss")
        if loss is not None and not np.isfinite(loss):
            print(f"Batch {batch}: Invalid loss, terminating training")
            self.model.stop_training = True


class ReduceLROnPlateau(Callback):
    """Lowers the learning rate when a value no longer gets better."""

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 0,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.monitor, self.factor, self.patience = monitor, factor, patience
        self.rises = mode == "max" or (mode == "auto" and "acc" in monitor)
        self.min_delta, self.min_lr = min_delta, min_lr
        self.best, self.wait = (-np.inf if self.rises else np.inf), 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Lowers it after `patience` epochs without a better value."""
        value = (logs or {}).get(self.monitor)
        if value is None:
            return
        better = (
            value > self.best + self.min_delta if self.rises else value < self.best - self.min_delta
        )
        if better:
            self.best, self.wait = value, 0
            return
        self.wait += 1
        if self.wait >= self.patience:
            optimizer = self.model.optimizer
            old = float(state.get_session().run(optimizer.learning_rate))
            optimizer.learning_rate = max(old * self.factor, self.min_lr)
            self.wait = 0
