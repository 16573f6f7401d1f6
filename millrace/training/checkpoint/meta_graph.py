"""`tf.train.export_meta_graph` and `tf.train.import_meta_graph`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from millrace.core.config import GraphDef, MetaGraphDef, SaverDef
from millrace.graph import meta_graph
from millrace.graph.graph import Graph
from millrace.platform import logging
from millrace.training.checkpoint.saveable import all_saveable_objects
from millrace.training.checkpoint.saver import Saver


def export_meta_graph(
    filename: str | None = None,
    meta_info_def: Any = None,
    graph_def: GraphDef | None = None,
    saver_def: SaverDef | None = None,
    collection_list: Iterable[str] | None = None,
    as_text: bool = False,
    graph: Graph | None = None,
    export_scope: str | None = None,
    clear_devices: bool = False,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    save_debug_info: bool = False,
    **kwargs: Any,
) -> MetaGraphDef:
    """A graph and its collections as a MetaGraphDef, and into a file when one is named.

    Args:
      filename: Where to write it as well.
      meta_info_def: Tags and the like to put into it.
      graph_def: The nodes; those of `graph` by default.
      saver_def: How to save and restore the variables.
      collection_list: Names of the collections to export; all by default.
      as_text: Whether the file is text.
      graph: The graph; the default graph by default.
      export_scope: Only what is under this name scope; the scope is taken off the names.
      clear_devices: Whether to leave devices out.
      clear_extraneous_savers: Whether to leave out the nodes of all savers but this one.
      strip_default_attrs: Whether to leave out attributes that have their defaults.
      save_debug_info: Accepted; where operations were made is not written.
      **kwargs: ``unbound_inputs_col_name``.
    """
    message, _ = meta_graph.export_scoped_meta_graph(
        filename=filename,
        meta_info_def=meta_info_def,
        graph_def=graph_def,
        saver_def=saver_def,
        collection_list=collection_list,
        as_text=as_text,
        graph=graph,
        export_scope=export_scope,
        clear_devices=clear_devices,
        clear_extraneous_savers=clear_extraneous_savers,
        strip_default_attrs=strip_default_attrs,
        **kwargs,
    )
    return message


def import_meta_graph(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    import_scope: str | None = None,
    **kwargs: Any,
) -> Any:
    """Adds a MetaGraphDef to the default graph.

    Args:
      meta_graph_or_file: The message, or the name of a file that holds one.
      clear_devices: Whether to forget the nodes' devices.
      import_scope: The name scope to put everything in.
      **kwargs: ``input_map``, ``graph`` and others of `import_scoped_meta_graph`.

    Returns:
      The Saver that the message tells of, or one for all variables of the graph; None if there
      are none.
    """
    saver, _ = import_meta_graph_with_return_elements(
        meta_graph_or_file, clear_devices, import_scope, **kwargs
    )
    return saver


def import_meta_graph_with_return_elements(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    import_scope: str | None = None,
    return_elements: Any = None,
    **kwargs: Any,
) -> tuple[Any, list[Any] | None]:
    """As `import_meta_graph`; also returns the operations and tensors asked for."""
    message = (
        meta_graph_or_file
        if isinstance(meta_graph_or_file, MetaGraphDef)
        else meta_graph.read_meta_graph_file(meta_graph_or_file)
    )
    variables, returned = meta_graph.import_scoped_meta_graph_with_return_elements(
        message,
        clear_devices=clear_devices,
        import_scope=import_scope,
        return_elements=return_elements,
        **kwargs,
    )
    return _saver(message, variables, import_scope), returned


def _saver(
    message: MetaGraphDef, variables: dict[str, Any], import_scope: str | None
) -> Saver | None:
    scope = import_scope
    for name, variable in variables.items():
        # The scope that was really given: the one asked for may have been taken.
        scope = variable.name[: -len(name)].removesuffix("/")
        break
    if message.HasField("saver_def"):
        return Saver.from_proto(message.saver_def, import_scope=scope)
    if all_saveable_objects(scope=scope):
        return Saver()
    logging.info("Saver not created because there are no variables in the graph to restore")
    return None
