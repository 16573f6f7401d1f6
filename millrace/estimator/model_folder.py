"""What is in the folder of a model: its checkpoints, and those that it may begin with."""

from __future__ import annotations

import os
from typing import Any

import millrace as tf
from millrace.saved_model.message import variables_path
from millrace.training.checkpoint.warm_start import WarmStartSettings


def check_trained(model_dir: Any) -> None:
    """Checks that there is a checkpoint.

    Raises:
      ValueError: There is none.
    """
    if not tf.train.latest_checkpoint(model_dir):
        raise ValueError(
            f"Could not find trained model in model_dir: {model_dir}. Train it first, or check the "
            "folder's name."
        )


def global_step_of(checkpoint_dir: Any) -> int:
    """The global step of the newest checkpoint in a folder; 0 if there is none."""
    newest = tf.train.latest_checkpoint(checkpoint_dir)
    if not newest:
        return 0
    try:
        return int(tf.train.load_checkpoint(newest).get_tensor(tf.GraphKeys.GLOBAL_STEP))
    except (tf.errors.OpError, KeyError):
        return 0  # one without a global step, or that is being replaced at this moment


def warm_start_settings(warm_start_from: Any) -> WarmStartSettings | None:
    """What the argument `warm_start_from` of an Estimator means.

    Raises:
      ValueError: It is no path, and no settings.
    """
    if warm_start_from is None or isinstance(warm_start_from, WarmStartSettings):
        return warm_start_from
    if not isinstance(warm_start_from, str | bytes):
        raise ValueError(
            "warm_start_from must be a string or a WarmStartSettings, instead got "
            f"{type(warm_start_from)}"
        )
    path = os.fsdecode(warm_start_from)
    in_saved_model = variables_path(path)
    if tf.gfile.Exists(f"{in_saved_model}.index"):
        tf.logging.info("Warm-starting from a SavedModel")
        return WarmStartSettings(in_saved_model)
    return WarmStartSettings(path)
