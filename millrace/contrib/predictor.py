"""`tf.contrib.predictor`: a model as a function from arrays to arrays."""

from __future__ import annotations

from typing import Any

import millrace as tf
from millrace.saved_model.loader import load

__all__ = ["from_contrib_estimator", "from_estimator", "from_saved_model"]


class Predictor:
    """A graph with a session: call it with arrays by name."""

    def __init__(
        self, graph: Any, session: Any, feeds: dict[str, Any], fetches: dict[str, Any]
    ) -> None:
        """Takes tensors to feed and to fetch, by name."""
        self._graph = graph
        self._session = session
        self._feed_tensors = feeds
        self._fetch_tensors = fetches

    @property
    def graph(self) -> Any:
        """The model's graph."""
        return self._graph

    @property
    def session(self) -> Any:
        """The session that holds its variables."""
        return self._session

    @property
    def feed_tensors(self) -> dict[str, Any]:
        """The inputs, by name."""
        return self._feed_tensors

    @property
    def fetch_tensors(self) -> dict[str, Any]:
        """The outputs, by name."""
        return self._fetch_tensors

    def __call__(self, input_dict: Any) -> Any:
        """The outputs for inputs by name.

        Raises:
          ValueError: There is no input of such a name.
        """
        unknown = sorted(set(input_dict) - set(self._feed_tensors))
        if unknown:
            raise ValueError(
                f"Got unexpected keys in input_dict: {unknown}, expected: "
                f"{sorted(self._feed_tensors)}"
            )
        feed = {self._feed_tensors[key]: value for key, value in input_dict.items()}
        return self._session.run(self._fetch_tensors, feed)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__} with feed tensors {self._feed_tensors} and fetch_tensors "
            f"{self._fetch_tensors}"
        )


def from_saved_model(
    export_dir: Any,
    signature_def_key: str | None = None,
    signature_def: Any = None,
    input_names: dict[str, str] | None = None,
    output_names: dict[str, str] | None = None,
    tags: str | None = None,
    graph: Any = None,
    config: Any = None,
) -> Predictor:
    """A predictor of a SavedModel.

    Args:
      export_dir: The folder.
      signature_def_key: Which signature to use; "serving_default" if None.
      signature_def: A signature to use instead.
      input_names: Names of tensors to feed, by name, instead of a signature.
      output_names: Names of tensors to fetch, by name, instead of a signature.
      tags: The tags of the graph, with commas between; "serve" if None.
      graph: Where to load it; a new graph if None.
      config: A ConfigProto.

    Raises:
      ValueError: Both a signature and names are given, or there is no such signature.
    """
    by_name = input_names is not None or output_names is not None
    if by_name and (signature_def_key is not None or signature_def is not None):
        raise ValueError("Choose a signature, or names of inputs and outputs, but not both.")
    if (input_names is None) != (output_names is None):
        raise ValueError("input_names and output_names must both be specified or both be None.")
    graph = graph if graph is not None else tf.Graph()
    with graph.as_default():
        session = tf.Session(config=config)
        meta_graph = load(session, (tags or "serve").split(","), export_dir)
    if input_names is None:
        if signature_def is None:
            key = signature_def_key or "serving_default"
            if key not in meta_graph.signature_def:
                raise ValueError(
                    f'Got signature_def_key "{key}". Available signatures are '
                    f"{sorted(meta_graph.signature_def)}."
                )
            signature_def = meta_graph.signature_def[key]
        input_names = {key: info.name for key, info in signature_def.inputs.items()}
        output_names = {key: info.name for key, info in signature_def.outputs.items()}
    assert output_names is not None
    feeds = {key: graph.get_tensor_by_name(name) for key, name in input_names.items()}
    fetches = {key: graph.get_tensor_by_name(name) for key, name in output_names.items()}
    return Predictor(graph, session, feeds, fetches)


def from_estimator(
    estimator: Any,
    serving_input_receiver_fn: Any,
    output_key: str | None = None,
    graph: Any = None,
    config: Any = None,
) -> Predictor:
    """A predictor of an Estimator's newest checkpoint.

    Args:
      estimator: A `tf.estimator.Estimator`.
      serving_input_receiver_fn: Makes the inputs.
      output_key: Which of `export_outputs` to fetch; the predictions if None.
      graph: Where to build it; a new graph if None.
      config: A ConfigProto.

    Raises:
      ValueError: There is no checkpoint.
    """
    checkpoint = estimator.latest_checkpoint()
    if checkpoint is None:
        raise ValueError(f"Couldn't find a trained model at {estimator.model_dir}")
    graph = graph if graph is not None else tf.Graph()
    with graph.as_default():
        tf.train.create_global_step(graph)
        receiver = serving_input_receiver_fn()
        spec = estimator.model_fn(
            features=receiver.features,
            labels=None,
            mode=tf.estimator.ModeKeys.PREDICT,
            config=estimator.config,
        )
        if output_key is None:
            fetches = spec.predictions
        else:
            fetches = spec.export_outputs[output_key].outputs
        if not isinstance(fetches, dict):
            fetches = {"output": fetches}
        session = tf.train.MonitoredSession(
            tf.train.ChiefSessionCreator(config=config, checkpoint_filename_with_path=checkpoint)
        )
    return Predictor(graph, session, dict(receiver.receiver_tensors), fetches)


def from_contrib_estimator(
    estimator: Any,
    prediction_input_fn: Any,
    input_alternative_key: str | None = None,
    output_alternative_key: str | None = None,
    graph: Any = None,
    config: Any = None,
) -> Predictor:
    """Says what to use: `tf.contrib.learn` has no Estimators of its own that export so."""
    raise TypeError(
        f"Expected estimator to be of type tf.contrib.learn.Estimator, but got {type(estimator)}. "
        "You likely want to call from_estimator."
    )
