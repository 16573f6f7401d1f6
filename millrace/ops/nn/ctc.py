"""Connectionist temporal classification: loss and decoders over unaligned label sequences.

Label sequences have their own lengths, so these are host ops, on NumPy arrays of the whole
batch at once (as TensorFlow's are C++ on the CPU). The last class is the blank. Probabilities
are logarithms throughout. The loss op computes the gradient along with the loss.

Graves et al., 2006: "Connectionist Temporal Classification".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from millrace.core.tensor_shape import TensorShape
from millrace.graph.convert import convert_to_tensor
from millrace.graph.define import op
from millrace.graph.operation import Operation
from millrace.graph.registry import NO_GRADIENT
from millrace.graph.shape_inference import ShapeContext
from millrace.graph.slices import SparseTensor
from millrace.graph.tensor import Tensor
from millrace.ops.array import identity as array_identity
from millrace.ops.array import layout as array_layout
from millrace.ops.array import shape as array_shape
from millrace.ops.array.rules import require_rank

__all__ = [
    "ctc_beam_search_decoder",
    "ctc_beam_search_decoder_v2",
    "ctc_greedy_decoder",
    "ctc_loss",
]

_LOSS_FLAGS = (
    "preprocess_collapse_repeated: bool = false; ctc_merge_repeated: bool = true; "
    "ignore_longer_outputs_than_inputs: bool = false"
)


def _log_softmax(x: Any) -> Any:
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def _check_lengths(inputs: Any, lengths: Any) -> None:
    if inputs.ndim != 3:
        raise ValueError("inputs is not a 3-Tensor")
    time, batch, _ = inputs.shape
    if lengths.ndim != 1:
        raise ValueError("sequence_length is not a vector")
    if len(lengths) != batch:
        raise ValueError(
            f"len(sequence_length) != batch_size.  len(sequence_length):  {len(lengths)} "
            f"batch_size: {batch}"
        )
    too_long = np.flatnonzero(lengths > time)
    if len(too_long):
        raise ValueError(f"sequence_length({too_long[0]}) <= {time}")


# -- Loss ----------------------------------------------------------------------------------


def _labels(
    indices: Any, values: Any, lengths: Any, classes: int, collapse: bool
) -> list[list[int]]:
    """The label sequences of the batch; what follows a label that is no class is left out."""
    batch = len(lengths)
    rows: list[list[int]] = [[] for _ in range(batch)]
    if indices.size:
        if indices[:, 0].min() < 0 or indices[:, 0].max() >= batch:
            raise ValueError(f"labels_indices has a row that is not in [0, {batch})")
        if np.any(np.diff(indices[:, 0]) < 0):
            raise ValueError("labels SparseTensor is not sorted by batch")
    for (row, _), value in zip(indices.tolist(), values.tolist(), strict=True):
        rows[row].append(value)
    result = []
    for b, row in enumerate(rows):
        if not row:
            raise ValueError(f"Labels length is zero in batch {b}")
        kept: list[int] = []
        ended = False
        for i, value in enumerate(row):
            if collapse and i and value == row[i - 1]:
                continue
            if not 0 <= value < classes - 1:
                ended = True
            elif ended:
                raise ValueError(
                    "Saw a non-null label (index >= num_classes - 1) following a null label, "
                    f"batch: {b} num_classes: {classes} labels: {','.join(map(str, row))}"
                )
            else:
                kept.append(value)
        result.append(kept)
    return result


class _Paths:
    """The label sequences with blanks around every label, and the steps between them."""

    def __init__(self, labels: list[list[int]], blank: int, merge_repeated: bool) -> None:
        batch, width = len(labels), 2 * max(map(len, labels), default=0) + 1
        #: [batch, place]: the class at each place.
        self.classes = np.full((batch, width), blank)
        for b, row in enumerate(labels):
            self.classes[b, 1 : 2 * len(row) : 2] = row
        self.lengths = np.array([2 * len(row) + 1 for row in labels])
        self.exists = np.arange(width) < self.lengths[:, None]
        is_blank = self.classes == blank
        #: Whether a path may stay at a place; and whether it may come from two places before.
        self.stays = is_blank | merge_repeated
        before = np.full_like(self.classes, -1)
        before[:, 2:] = self.classes[:, :-2]
        repeats = (self.classes == before) & merge_repeated
        self.skips = ~is_blank & ~repeats & (np.arange(width) > 1)

    def advanced(self, alpha: Any) -> Any:
        """The probability to reach each place one step later, before the class is seen."""
        stay = np.where(self.stays, alpha, -np.inf)
        step = np.full_like(alpha, -np.inf)
        step[:, 1:] = alpha[:, :-1]
        skip = np.full_like(alpha, -np.inf)
        skip[:, 2:] = alpha[:, :-2]
        reached = np.logaddexp(np.logaddexp(stay, step), np.where(self.skips, skip, -np.inf))
        return np.where(self.exists, reached, -np.inf)

    def preceding(self, after: Any) -> Any:
        """The inverse: from the probabilities of what follows each place one step later."""
        stay = np.where(self.stays, after, -np.inf)
        step = np.full_like(after, -np.inf)
        step[:, :-1] = after[:, 1:]
        allowed = np.where(self.skips, after, -np.inf)
        skip = np.full_like(after, -np.inf)
        skip[:, :-2] = allowed[:, 2:]
        return np.where(self.exists, np.logaddexp(np.logaddexp(stay, step), skip), -np.inf)


def _loss_and_gradient(
    inputs: Any, labels: list[list[int]], lengths: Any, merge_repeated: bool
) -> tuple[Any, Any]:
    """Minus the log probability of the labels, and its gradient by the logits.

    Sequences of length 0 have the loss 0.
    """
    time, batch, classes = inputs.shape
    logits = _log_softmax(inputs.astype(np.float64))
    paths = _Paths(labels, classes - 1, merge_repeated)
    # [time, batch, place]: the log probability of the class at each place.
    emitted = np.take_along_axis(
        logits, np.broadcast_to(paths.classes, (time, *paths.classes.shape)), 2
    )
    rows = np.arange(batch)
    alphas = np.full(emitted.shape, -np.inf)
    start = np.full(paths.classes.shape, -np.inf)
    start[:, :2] = 0.0
    for t in range(time):
        reached = start if t == 0 else paths.advanced(alphas[t - 1])
        alphas[t] = np.where(paths.exists, reached, -np.inf) + emitted[t]
    last = np.maximum(lengths - 1, 0)
    ends = alphas[last, rows]
    total = ends[rows, paths.lengths - 1]
    short = paths.lengths > 1
    total = np.where(
        short, np.logaddexp(total, ends[rows, np.maximum(paths.lengths - 2, 0)]), total
    )
    # What follows each place, backwards from the last two places of each sequence.
    final = np.full(paths.classes.shape, -np.inf)
    final[rows, paths.lengths - 1] = 0.0
    final[rows[short], paths.lengths[short] - 2] = 0.0
    following = final
    gradient = np.zeros(inputs.shape)
    for t in range(time - 1, -1, -1):
        if t < time - 1:
            carried = paths.preceding(following + emitted[t + 1])
            following = np.where((t == last)[:, None], final, carried)
        with np.errstate(invalid="ignore"):
            shares = np.exp(alphas[t] + following - total[:, None])
        shares = np.where(np.isfinite(total)[:, None], shares, 0.0)
        expected = np.zeros((batch, classes))
        np.add.at(expected, (rows[:, None], paths.classes), shares)
        gradient[t] = np.where((t < lengths)[:, None], np.exp(logits[t]) - expected, 0.0)
    return np.where(lengths > 0, -total, 0.0), gradient


def _loss_shapes(c: ShapeContext) -> list[TensorShape]:
    inputs, lengths = c.shape("inputs"), c.shape("sequence_length")
    require_rank(inputs, 3)
    require_rank(c.shape("labels_indices"), 2)
    require_rank(c.shape("labels_values"), 1)
    require_rank(lengths, 1)
    inputs, lengths = inputs.with_rank(3), lengths.with_rank(1)
    batch = inputs[1].merge_with(lengths[0])
    return [TensorShape([batch]), TensorShape([inputs[0], batch, inputs[2]])]


def _loss(
    inputs: Any, labels_indices: Any, labels_values: Any, sequence_length: Any, attrs: Any
) -> Any:
    _check_lengths(inputs, sequence_length)
    if not inputs.shape[0]:
        raise ValueError("Max time or first dimension of input cannot be 0.")
    if len(labels_indices) != len(labels_values):
        raise ValueError(
            f"labels_indices and labels_values must contain the same number of rows, but saw "
            f"shapes: {list(labels_indices.shape)} vs. {list(labels_values.shape)}"
        )
    rows = _labels(
        labels_indices,
        labels_values,
        sequence_length,
        inputs.shape[2],
        attrs["preprocess_collapse_repeated"],
    )
    lengths = np.maximum(sequence_length.astype(np.int64), 0)
    for b, row in enumerate(rows):
        if lengths[b] < len(row):
            if not attrs["ignore_longer_outputs_than_inputs"]:
                raise ValueError(
                    f"Not enough time for target transition sequence (required: {len(row)}, "
                    f"available: {lengths[b]}){b}You can turn this error into a warning by using "
                    "the flag ignore_longer_outputs_than_inputs"
                )
            lengths[b], rows[b] = 0, []
    with np.errstate(divide="ignore"):
        return _loss_and_gradient(inputs, rows, lengths, attrs["ctc_merge_repeated"])


@op(
    "CTCLoss(inputs: T, labels_indices: int64, labels_values: int32, sequence_length: int32) -> "
    f"(loss: T, gradient: T) where {_LOSS_FLAGS}; T: {{float32, float64}} = float32",
    shape=_loss_shapes,
    host=True,
)
def CTCLoss(
    inputs: Any, labels_indices: Any, labels_values: Any, sequence_length: Any, *, node: Any
) -> Any:
    """Minus the log probability of label sequences, and its gradient."""
    return _loss(inputs, labels_indices, labels_values, sequence_length, node.attrs)


@op(
    "CTCLossV2(inputs: float32, labels_indices: int64, labels_values: int32, "
    f"sequence_length: int32) -> (loss: float32, gradient: float32) where {_LOSS_FLAGS}",
    shape=_loss_shapes,
    host=True,
)
def CTCLossV2(
    inputs: Any, labels_indices: Any, labels_values: Any, sequence_length: Any, *, node: Any
) -> Any:
    """As CTCLoss, with the first class as the blank."""
    turned = np.concatenate([inputs[..., 1:], inputs[..., :1]], axis=-1)
    loss, gradient = _loss(turned, labels_indices, labels_values - 1, sequence_length, node.attrs)
    return loss, np.concatenate([gradient[..., -1:], gradient[..., :-1]], axis=-1)


def _loss_gradient(op: Operation, grad: Tensor, _: Any) -> Any:
    # The op's second output is the gradient of each loss.
    known: Any = array_identity.prevent_gradient(
        op.outputs[1],
        message="Currently there is no way to take the second derivative of ctc_loss due to the "
        "fused implementation's interaction with tf.gradients()",
    )
    weights: Any = array_shape.expand_dims(array_shape.expand_dims(grad, 0), -1)
    return [weights * known, None, None, None]


CTCLoss.gradient(_loss_gradient)
CTCLossV2.gradient(_loss_gradient)


def ctc_loss(
    labels: SparseTensor,
    inputs: Any = None,
    sequence_length: Any = None,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
    logits: Any = None,
) -> Tensor:
    """Minus the log probability of label sequences, given class scores at each time.

    Args:
      labels: An int32 SparseTensor; ``(b, t)`` holds label t of sequence b.
      inputs: Scores before the softmax, [time, batch, classes]; the last class is the blank.
      sequence_length: How many times each sequence has, int32 [batch].
      preprocess_collapse_repeated: Whether labels that repeat are made one beforehand.
      ctc_merge_repeated: Whether a class that repeats over time is one label.
      ignore_longer_outputs_than_inputs: Whether sequences shorter than their labels have the
        loss 0, instead of failing.
      time_major: False if `inputs` are [batch, time, classes].
      logits: The newer name of `inputs`.

    Returns:
      The losses, [batch].
    """
    if not isinstance(labels, SparseTensor):
        raise TypeError("Expected labels (first argument) to be a SparseTensor")
    scores = convert_to_tensor(logits if inputs is None else inputs, name="inputs")
    if not time_major:
        scores = array_layout.transpose(scores, [1, 0, 2])
    loss, _ = CTCLoss(
        scores,
        labels.indices,
        labels.values,
        sequence_length,
        preprocess_collapse_repeated=preprocess_collapse_repeated,
        ctc_merge_repeated=ctc_merge_repeated,
        ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs,
    )
    result: Tensor = loss
    return result


# -- Decoding ------------------------------------------------------------------------------


def _sparse(rows: list[list[int]]) -> tuple[Any, Any, Any]:
    """Sequences as indices, values and shape."""
    indices = [(b, i) for b, row in enumerate(rows) for i in range(len(row))]
    values = [value for row in rows for value in row]
    shape = [len(rows), max(map(len, rows), default=0)]
    return (
        np.array(indices, np.int64).reshape(-1, 2),
        np.array(values, np.int64),
        np.array(shape, np.int64),
    )


def _greedy_shapes(c: ShapeContext) -> list[TensorShape]:
    require_rank(c.shape(0), 3)
    require_rank(c.shape(1), 1)
    batch = c.shape(0).with_rank(3)[1].merge_with(c.shape(1).with_rank(1)[0])
    return [
        TensorShape([None, 2]),
        TensorShape([None]),
        TensorShape([2]),
        TensorShape([batch, 1]),
    ]


@op(
    "CTCGreedyDecoder(inputs: T, sequence_length: int32) -> (decoded_indices: int64, "
    "decoded_values: int64, decoded_shape: int64, log_probability: T) where "
    "merge_repeated: bool = false; blank_index: int = -1; T: {float32, float64} = float32",
    shape=_greedy_shapes,
    gradient=NO_GRADIENT,
    host=True,
)
def CTCGreedyDecoder(
    inputs: Any, sequence_length: Any, *, merge_repeated: bool, blank_index: int
) -> Any:
    """The best class at each time, without blanks."""
    _check_lengths(inputs, sequence_length)
    time, batch, classes = inputs.shape
    blank = blank_index + classes if blank_index < 0 else blank_index
    if not 0 <= blank < classes:
        raise ValueError(f"blank_index expected to be in [0, {classes}), got {blank_index}")
    best = inputs.argmax(axis=-1)
    inside = np.arange(time)[:, None] < sequence_length
    scores = -np.where(inside, inputs.max(axis=-1), 0).sum(axis=0)
    rows = []
    for b in range(batch):
        path = best[: max(0, int(sequence_length[b])), b]
        keep = path != blank
        if merge_repeated and len(path):
            keep[1:] &= path[1:] != path[:-1]
        rows.append(path[keep].tolist())
    return (*_sparse(rows), scores[:, None])


class _Beam(NamedTuple):
    """The log probability of a prefix whose last time was a blank, and of one where not."""

    blank: float
    label: float

    @property
    def total(self) -> float:
        """The log probability of the prefix."""
        return float(np.logaddexp(self.blank, self.label))


def _search(scores: Any, width: int) -> list[tuple[tuple[int, ...], float]]:
    """The best prefixes of one sequence and their log probabilities, best first.

    As TensorFlow's search, a prefix that falls out of the beam is not found again by way of one
    that is not in the beam itself.
    """
    blank = scores.shape[1] - 1
    beams: dict[tuple[int, ...], _Beam] = {(): _Beam(0.0, -np.inf)}
    for row in scores.tolist():
        candidates: dict[tuple[int, ...], _Beam] = {}
        for prefix, beam in beams.items():
            label = -np.inf
            if prefix:
                label = beam.label + row[prefix[-1]]
                parent = beams.get(prefix[:-1])
                if parent is not None:
                    repeats = len(prefix) > 1 and prefix[-2] == prefix[-1]
                    came = parent.blank if repeats else parent.total
                    label = float(np.logaddexp(label, came + row[prefix[-1]]))
            candidates[prefix] = _Beam(beam.total + row[blank], label)
        for prefix, beam in beams.items():
            for value in range(blank):
                longer = (*prefix, value)
                if longer in beams:
                    continue
                came = beam.blank if prefix and prefix[-1] == value else beam.total
                candidates[longer] = _Beam(-np.inf, came + row[value])
        kept = sorted(candidates.items(), key=lambda item: -item[1].total)[:width]
        beams = dict(kept)
    return [(prefix, beam.total) for prefix, beam in beams.items()]


def _beam_shapes(c: ShapeContext) -> list[TensorShape]:
    require_rank(c.shape(0), 3)
    require_rank(c.shape(1), 1)
    count = c.attr("top_paths")
    batch = c.shape(0).with_rank(3)[1].merge_with(c.shape(1).with_rank(1)[0])
    return [
        *[TensorShape([None, 2])] * count,
        *[TensorShape([None])] * count,
        *[TensorShape([2])] * count,
        TensorShape([batch, count]),
    ]


@op(
    "CTCBeamSearchDecoder(inputs: T, sequence_length: int32) -> "
    "(decoded_indices: top_paths*int64, decoded_values: top_paths*int64, "
    "decoded_shape: top_paths*int64, log_probability: T) where beam_width: int >= 1; "
    "top_paths: int >= 1; merge_repeated: bool = true; T: {float32, float64} = float32",
    shape=_beam_shapes,
    gradient=NO_GRADIENT,
    host=True,
)
def CTCBeamSearchDecoder(
    inputs: Any, sequence_length: Any, *, beam_width: int, top_paths: int, merge_repeated: bool
) -> Any:
    """The most probable label sequences."""
    _check_lengths(inputs, sequence_length)
    if top_paths > beam_width:
        raise ValueError(f"Requested more paths ({top_paths}) than the beam width ({beam_width})")
    scores = _log_softmax(inputs.astype(np.float64))
    paths: list[list[list[int]]] = [[] for _ in range(top_paths)]
    totals = np.zeros((inputs.shape[1], top_paths))
    for b in range(inputs.shape[1]):
        found = _search(scores[: max(0, int(sequence_length[b])), b], beam_width)
        if len(found) < top_paths:
            raise ValueError("Less leaves in the beam search than requested.")
        for i, (prefix, total) in enumerate(found[:top_paths]):
            row = list(prefix)
            if merge_repeated:
                row = [v for j, v in enumerate(row) if not j or v != row[j - 1]]
            paths[i].append(row)
            totals[b, i] = total
    parts = [_sparse(rows) for rows in paths]
    return (*([part[k] for part in parts] for k in range(3)), totals)


def ctc_greedy_decoder(
    inputs: Any, sequence_length: Any, merge_repeated: bool = True, blank_index: int | None = None
) -> tuple[list[SparseTensor], Tensor]:
    """The sequence of the best classes, without blanks.

    Args:
      inputs: Scores, [time, batch, classes].
      sequence_length: How many times each sequence has, int32 [batch].
      merge_repeated: Whether a class that repeats over time is one label.
      blank_index: The blank; the last class when None.

    Returns:
      A list with one SparseTensor of labels, and minus the sum of the best scores, [batch, 1].
    """
    blank = -1 if blank_index is None else blank_index
    indices, values, shape, scores = CTCGreedyDecoder(
        inputs, sequence_length, merge_repeated=merge_repeated, blank_index=blank
    )
    return [SparseTensor(indices, values, shape)], scores


def ctc_beam_search_decoder(
    inputs: Any,
    sequence_length: Any,
    beam_width: int = 100,
    top_paths: int = 1,
    merge_repeated: bool = True,
) -> tuple[list[SparseTensor], Tensor]:
    """The most probable label sequences, by a search that keeps the best prefixes.

    Args:
      inputs: Scores before the softmax, [time, batch, classes]; the last class is the blank.
      sequence_length: How many times each sequence has, int32 [batch].
      beam_width: How many prefixes are kept.
      top_paths: How many sequences are returned.
      merge_repeated: Whether labels that repeat in the result are made one (which also merges
        those that had a blank between them).

    Returns:
      `top_paths` SparseTensors of labels, and their log probabilities, [batch, top_paths].
    """
    indices, values, shapes, scores = CTCBeamSearchDecoder(
        inputs,
        sequence_length,
        beam_width=beam_width,
        top_paths=top_paths,
        merge_repeated=merge_repeated,
    )
    found = [SparseTensor(*parts) for parts in zip(indices, values, shapes, strict=True)]
    return found, scores


def ctc_beam_search_decoder_v2(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[SparseTensor], Tensor]:
    """`ctc_beam_search_decoder` that leaves repeated labels as they are."""
    return ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, False)
