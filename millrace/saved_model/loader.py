"""Loads SavedModels into a session's graph: `load`, and `SavedModelLoader` for its steps."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from millrace.core.config import AssetFileDef, MetaGraphDef
from millrace.graph.collection_protos import prepend_name_scope
from millrace.graph.defaults import get_collection
from millrace.graph.graph import Graph
from millrace.platform import gfile, logging
from millrace.saved_model import constants
from millrace.saved_model.message import (
    assets_path,
    maybe_saved_model_directory,
    parse_saved_model,
    variables_path,
)
from millrace.saved_model.tensor_info import get_element_from_tensor_info
from millrace.training.checkpoint.meta_graph import import_meta_graph_with_return_elements
from millrace.training.checkpoint.saveable import all_saveable_objects
from millrace.training.checkpoint.saver import Saver

__all__ = ["SavedModelLoader", "load", "maybe_saved_model_directory"]


def load(
    sess: Any,
    tags: Iterable[str],
    export_dir: Any,
    import_scope: str | None = None,
    **saver_kwargs: Any,
) -> MetaGraphDef:
    """Loads the graph of a SavedModel that has these tags, with its variables.

    Args:
      sess: The session to load into.
      tags: The tags of the graph, all of them.
      export_dir: The folder.
      import_scope: A name scope to put the graph in.
      **saver_kwargs: Further arguments of `tf.train.import_meta_graph`.

    Returns:
      The MetaGraphDef, with the signatures.

    Raises:
      RuntimeError: No graph has these tags.
      OSError: There is no SavedModel.
    """
    return SavedModelLoader(export_dir).load(sess, tags, import_scope, **saver_kwargs)


class SavedModelLoader:
    """The steps of loading a SavedModel: graph, variables, initialisation.

    Args:
      export_dir: The folder.

    Raises:
      OSError: There is no SavedModel.
    """

    def __init__(self, export_dir: Any) -> None:
        self._export_dir = os.fsdecode(export_dir)
        self._saved_model = parse_saved_model(self._export_dir)

    @property
    def export_dir(self) -> str:
        """The folder."""
        return self._export_dir

    @property
    def variables_path(self) -> str:
        """The name of the checkpoint with the variables."""
        return variables_path(self._export_dir)

    @property
    def saved_model(self) -> Any:
        """The SavedModel message."""
        return self._saved_model

    def get_meta_graph_def_from_tags(self, tags: Iterable[str]) -> MetaGraphDef:
        """The graph that has exactly these tags.

        Raises:
          RuntimeError: None has.
        """
        wanted = [tags] if isinstance(tags, str) else list(tags)
        available = []
        for meta_graph in self._saved_model.meta_graphs:
            available.append(set(meta_graph.meta_info_def.tags))
            if available[-1] == set(wanted):
                return meta_graph
        raise RuntimeError(
            f"MetaGraphDef associated with tags {str(wanted).strip('[]')} could not be found in "
            f"SavedModel, with available tags '{available}'."
        )

    def load_graph(
        self,
        graph: Graph,
        tags: Iterable[str],
        import_scope: str | None = None,
        **saver_kwargs: Any,
    ) -> tuple[Saver | None, Any]:
        """Adds the graph to another; returns a Saver and what ``return_elements`` asks for."""
        meta_graph = self.get_meta_graph_def_from_tags(tags)
        with graph.as_default():
            return import_meta_graph_with_return_elements(
                meta_graph, import_scope=import_scope, **saver_kwargs
            )

    def restore_variables(
        self, sess: Any, saver: Saver | None, import_scope: str | None = None
    ) -> None:
        """Gives the variables their values.

        Raises:
          ValueError: There are variables but no Saver.
        """
        with sess.graph.as_default():
            if saver is not None:
                saver.restore(sess, self.variables_path)
            elif all_saveable_objects(scope=import_scope):
                raise ValueError(
                    "No tf.train.Saver object was passed to the function "
                    "`SavedModelLoader.restore_variables`. Since there are variables in the graph, "
                    "a saver is required."
                )
            else:
                logging.info(
                    "The specified SavedModel has no variables; no checkpoints were restored."
                )

    def run_init_ops(self, sess: Any, tags: Iterable[str], import_scope: str | None = None) -> None:
        """Runs what the model wants to be run, with the names that its files have here."""
        meta_graph = self.get_meta_graph_def_from_tags(tags)
        with sess.graph.as_default():
            init_op = _init_op(meta_graph, import_scope)
            if init_op is not None:
                sess.run([init_op], self._asset_feeds(meta_graph, import_scope))

    def load(
        self,
        sess: Any,
        tags: Iterable[str],
        import_scope: str | None = None,
        **saver_kwargs: Any,
    ) -> MetaGraphDef:
        """All steps; see `load`."""
        wanted = [tags] if isinstance(tags, str) else list(tags)
        saver, _ = self.load_graph(sess.graph, wanted, import_scope, **saver_kwargs)
        self.restore_variables(sess, saver, import_scope)
        self.run_init_ops(sess, wanted, import_scope)
        return self.get_meta_graph_def_from_tags(wanted)

    def _asset_feeds(self, meta_graph: MetaGraphDef, import_scope: str | None) -> dict[str, str]:
        assets = list(meta_graph.asset_file_def)
        if not assets and constants.ASSETS_KEY in meta_graph.collection_def:
            packed = meta_graph.collection_def[constants.ASSETS_KEY].any_list.value
            assets = [AssetFileDef.FromString(each.value) for each in packed]
        folder = assets_path(self._export_dir)
        return {
            prepend_name_scope(asset.tensor_info.name, import_scope): gfile.join(
                folder, asset.filename
            )
            for asset in assets
        }


def _init_op(meta_graph: MetaGraphDef, import_scope: str | None) -> Any:
    key = constants.INIT_OP_SIGNATURE_KEY
    if key in meta_graph.signature_def:
        info = meta_graph.signature_def[key].outputs[key]
        return get_element_from_tensor_info(info, import_scope=import_scope)
    for key in (constants.MAIN_OP_KEY, constants.LEGACY_INIT_OP_KEY):
        if key in meta_graph.collection_def:
            names = meta_graph.collection_def[key].node_list.value
            if len(names) != 1:
                raise RuntimeError(
                    f"Expected exactly one SavedModel init op. Found {len(names)}: {list(names)}."
                )
            return get_collection(key)[-1]
    return None
