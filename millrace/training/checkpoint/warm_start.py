"""`tf.train.warm_start`: a model that begins with the variables of another one's checkpoint.

A variable whose rows or columns stand for words gets those of the same words, wherever they are in
either vocabulary; see `VocabInfo`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from millrace.graph.convert import convert_to_tensor
from millrace.graph.defaults import get_default_graph
from millrace.graph.keys import GraphKeys
from millrace.ops.lookup import vocabulary_remapping
from millrace.ops.state.partitioned_variable import PartitionedVariable
from millrace.ops.state.variable import Variable
from millrace.ops.state.variable_store import PartitionInfo
from millrace.platform import logging
from millrace.training.checkpoint.init import init_from_checkpoint
from millrace.training.checkpoint.reader import checkpoint_filename
from millrace.training.checkpoint.saveable import op_list_to_dict
from millrace.training.checkpoint.saver import object_graph_key_mapping


class _VocabInfo(NamedTuple):
    new_vocab: str
    new_vocab_size: int
    num_oov_buckets: int
    old_vocab: str
    old_vocab_size: int
    backup_initializer: Any
    axis: int


class VocabInfo(_VocabInfo):
    """How the words that a variable stands for have changed.

    Args:
      new_vocab: File with the words of the model, a line each.
      new_vocab_size: How many of them it uses.
      num_oov_buckets: How many rows it has for words that are not among them.
      old_vocab: File with the words of the checkpoint.
      old_vocab_size: How many of them it used; -1 for all.
      backup_initializer: Initialiser for words that are new; zeros by default.
      axis: 0 if rows stand for words, 1 if columns do.

    Raises:
      ValueError: Another axis.
    """

    __slots__ = ()

    def __new__(
        cls,
        new_vocab: str,
        new_vocab_size: int,
        num_oov_buckets: int,
        old_vocab: str,
        old_vocab_size: int = -1,
        backup_initializer: Any = None,
        axis: int = 0,
    ) -> VocabInfo:
        if axis not in (0, 1):
            raise ValueError(
                "The only supported values for the axis argument are 0 and 1.  Provided axis: "
                f"{axis}"
            )
        return super().__new__(
            cls,
            new_vocab,
            new_vocab_size,
            num_oov_buckets,
            old_vocab,
            old_vocab_size,
            backup_initializer,
            axis,
        )


class _WarmStartSettings(NamedTuple):
    ckpt_to_initialize_from: str
    vars_to_warm_start: Any
    var_name_to_vocab_info: Mapping[str, VocabInfo]
    var_name_to_prev_var_name: Mapping[str, str]


class WarmStartSettings(_WarmStartSettings):
    """The arguments of `warm_start`, for an Estimator.

    Raises:
      ValueError: There is no checkpoint.
    """

    __slots__ = ()

    def __new__(
        cls,
        ckpt_to_initialize_from: str,
        vars_to_warm_start: Any = ".*",
        var_name_to_vocab_info: Mapping[str, VocabInfo] | None = None,
        var_name_to_prev_var_name: Mapping[str, str] | None = None,
    ) -> WarmStartSettings:
        if not ckpt_to_initialize_from:
            raise ValueError("`ckpt_to_initialize_from` MUST be set in WarmStartSettings")
        return super().__new__(
            cls,
            ckpt_to_initialize_from,
            vars_to_warm_start,
            var_name_to_vocab_info or {},
            var_name_to_prev_var_name or {},
        )


def warm_start(
    ckpt_to_initialize_from: str,
    vars_to_warm_start: Any = ".*",
    var_name_to_vocab_info: Mapping[str, VocabInfo] | None = None,
    var_name_to_prev_var_name: Mapping[str, str] | None = None,
) -> None:
    """Makes variables begin with values of a checkpoint; their initialisers load them.

    Args:
      ckpt_to_initialize_from: A checkpoint, or a folder whose newest one is meant.
      vars_to_warm_start: Which: a regular expression for names of trainable variables, a list of
        such for all global variables, a list of variables; None for those that
        `var_name_to_vocab_info` names.
      var_name_to_vocab_info: How vocabularies have changed, by names of variables.
      var_name_to_prev_var_name: Names in the checkpoint, by names of variables.

    Raises:
      ValueError: A name is none of a variable that is warm-started, or `vars_to_warm_start` is
        none of these.
    """
    logging.info("Warm-starting from: %s", ckpt_to_initialize_from)
    grouped = _grouped_variables(vars_to_warm_start)
    vocab_infos = var_name_to_vocab_info or {}
    previous = var_name_to_prev_var_name or _renames(ckpt_to_initialize_from, list(grouped))
    started = 0
    without_vocab: list[tuple[str, Any]] = []
    for name, parts in grouped.items():
        previous_name = previous.get(name) or name
        info = vocab_infos.get(name)
        if info is not None:
            _start_with_vocab(parts, info, ckpt_to_initialize_from, previous_name)
        elif vars_to_warm_start:
            whole = parts[0] if len(parts) == 1 and parts[0]._save_slice_info is None else parts
            without_vocab.append((previous_name, whole))
        else:
            continue
        started += 1
    if without_vocab:
        init_from_checkpoint(ckpt_to_initialize_from, without_vocab)
    logging.info("Warm-started %d variables.", started)
    for given, argument in (
        (previous, "var_name_to_prev_var_name"),
        (vocab_infos, "var_name_to_vocab_info"),
    ):
        unused = set(given) - set(grouped)
        if unused:
            raise ValueError(
                f"You provided the following variables in {argument} that were not used: "
                f"{sorted(unused)}.  Perhaps you misspelled them?  Here is the list of viable "
                f"variable names: {list(grouped)}"
            )


def _grouped_variables(wanted: Any) -> dict[str, list[Any]]:
    """The variables to start, by name; the parts of one together."""
    graph = get_default_graph()
    if wanted is None or isinstance(wanted, str):
        logging.info("Warm-starting variables only in TRAINABLE_VARIABLES.")
        found = graph.get_collection(GraphKeys.TRAINABLE_VARIABLES, scope=wanted)
    elif not isinstance(wanted, list):
        raise ValueError(
            f"`vars_to_warm_start must be a `list` or `str`.  Given type is {type(wanted)}"
        )
    elif all(isinstance(each, str) for each in wanted):
        found = [
            variable
            for each in wanted
            for variable in graph.get_collection(GraphKeys.GLOBAL_VARIABLES, scope=each)
        ]
    elif all(isinstance(each, Variable | PartitionedVariable) for each in wanted):
        found = wanted
    else:
        raise ValueError(
            "If `vars_to_warm_start` is a list, it must be all `Variable` or all `str`.  Given "
            f"types are {[type(each) for each in wanted]}"
        )
    grouped: dict[str, list[Any]] = {}
    for variable in found:
        (name,) = op_list_to_dict([variable])
        parts = list(variable) if isinstance(variable, PartitionedVariable) else [variable]
        grouped.setdefault(name, []).extend(parts)
    return grouped


def _renames(checkpoint: str, names: list[str]) -> dict[str, str]:
    """Keys by names, for a checkpoint of tf.train.Checkpoint."""
    filename = checkpoint_filename(checkpoint)
    keys = None if filename is None else object_graph_key_mapping(filename)
    if keys is None:
        return {}
    missing = sorted(set(names) - set(keys))
    if missing:
        raise ValueError(
            "Attempting to warm-start from an object-based checkpoint, but found that the "
            "checkpoint did not contain values for all variables. The following variables were "
            f"missing: {missing}"
        )
    return {name: keys[name] for name in names}


def _start_with_vocab(
    parts: list[Any], info: VocabInfo, checkpoint: str, previous_name: str
) -> None:
    if not (info.new_vocab and info.new_vocab_size and info.old_vocab):
        raise ValueError(
            "Invalid args: Must provide all of [new_vocab, new_vocab_size, old_vocab] of the "
            f"VocabInfo for {previous_name}."
        )
    rows = sum(part.shape.as_list()[0] for part in parts)
    for part in parts:
        shape = part.shape.as_list()
        if info.axis == 0:
            arguments: dict[str, Any] = {
                "new_row_vocab_size": info.new_vocab_size,
                "new_col_vocab_size": shape[1],
                "old_row_vocab_size": info.old_vocab_size,
                "old_row_vocab_file": info.old_vocab,
                "new_row_vocab_file": info.new_vocab,
                "num_row_oov_buckets": info.num_oov_buckets,
            }
        else:
            arguments = {
                "new_row_vocab_size": rows,
                "new_col_vocab_size": info.new_vocab_size,
                "old_col_vocab_file": info.old_vocab,
                "new_col_vocab_file": info.new_vocab,
                "num_col_oov_buckets": info.num_oov_buckets,
            }
        initialize = vocabulary_remapping.load_and_remap_matrix_initializer(
            ckpt_path=checkpoint_filename(checkpoint),
            old_tensor_name=previous_name,
            initializer=info.backup_initializer,
            **arguments,
        )
        cut = part._save_slice_info
        value = convert_to_tensor(
            initialize(
                shape,
                partition_info=None
                if cut is None
                else PartitionInfo(cut.full_shape, cut.var_offset),
            )
        )
        part._initializer_op = part.assign(value, read_value=False)
