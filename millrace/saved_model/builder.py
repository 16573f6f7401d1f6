"""`SavedModelBuilder`: writes graphs with their variables, signatures and files as one folder.

The folder is complete once ``saved_model.pb`` is in it: that comes last, at one stroke.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf import any_pb2, text_format

from millrace.core import dtypes
from millrace.core.config import AssetFileDef, MetaGraphDef, SaverDef, SignatureDef, TensorInfo
from millrace.graph.constant_value import constant_value
from millrace.graph.defaults import add_to_collection, get_collection
from millrace.graph.keys import GraphKeys
from millrace.graph.operation import Operation
from millrace.graph.tensor import Tensor
from millrace.platform import gfile, logging
from millrace.platform.atomic_file import write_atomically
from millrace.saved_model import constants, signature_constants, tag_constants
from millrace.saved_model.message import SavedModel, assets_path, variables_path
from millrace.saved_model.signatures import predict_signature_def
from millrace.training.checkpoint.saveable import all_saveable_objects
from millrace.training.checkpoint.saver import Saver

#: TensorFlow unpacks an asset only if this says that it is one of its own messages.
_ASSET_TYPE_URL = "type.googleapis.com/tensorflow.AssetFileDef"


class SavedModelBuilder:
    """Makes a SavedModel: `add_meta_graph_and_variables`, more `add_meta_graph`s, then `save`.

    Args:
      export_dir: The folder; it is made, and must be empty.

    Raises:
      AssertionError: It is not empty.
    """

    def __init__(self, export_dir: Any) -> None:
        self._export_dir = os.fsdecode(export_dir)
        if gfile.exists(self._export_dir):
            if gfile.listdir(self._export_dir):
                raise AssertionError(
                    f"Export directory {self._export_dir} already exists, and isn't empty. Please "
                    "choose a different export directory, or delete all the contents of the "
                    "specified directory."
                )
        else:
            gfile.makedirs(self._export_dir)
        self._saved_model = SavedModel(
            saved_model_schema_version=constants.SAVED_MODEL_SCHEMA_VERSION
        )
        self._has_saved_variables = False
        #: Sources of the assets by the names that they have in the model.
        self._assets: dict[str, str] = {}

    def add_meta_graph_and_variables(
        self,
        sess: Any,
        tags: Iterable[str],
        signature_def_map: Mapping[str, SignatureDef] | None = None,
        assets_collection: Iterable[Any] | None = None,
        legacy_init_op: Any = None,
        clear_devices: bool = False,
        main_op: Any = None,
        strip_default_attrs: bool = False,
        saver: Saver | None = None,
    ) -> None:
        """Adds the default graph, and saves its variables.

        Args:
          sess: The session that has the variables.
          tags: What the graph is for; see `tag_constants`.
          signature_def_map: Its signatures.
          assets_collection: Constants with the names of files that it needs; they are copied.
          legacy_init_op: The old name of `main_op`.
          clear_devices: Whether to leave devices out.
          main_op: An operation to run when it is loaded.
          strip_default_attrs: Whether to leave out attributes that have their defaults.
          saver: What saves the variables; one for all of them by default.

        Raises:
          AssertionError: Variables were saved before, or a signature lacks something.
        """
        if self._has_saved_variables:
            raise AssertionError(
                "Graph state including variables and assets has already been saved. Please invoke "
                "`add_meta_graph()` instead."
            )
        self._prepare(signature_def_map, assets_collection, _either(main_op, legacy_init_op))
        path = variables_path(self._export_dir)
        gfile.makedirs(os.path.dirname(path))
        saver = saver or _saver_for_everything()
        saver.save(sess, path, write_meta_graph=False, write_state=False)
        self._add(saver, tags, signature_def_map, clear_devices, strip_default_attrs)
        self._has_saved_variables = True

    def add_meta_graph(
        self,
        tags: Iterable[str],
        signature_def_map: Mapping[str, SignatureDef] | None = None,
        assets_collection: Iterable[Any] | None = None,
        legacy_init_op: Any = None,
        clear_devices: bool = False,
        main_op: Any = None,
        strip_default_attrs: bool = False,
        saver: Saver | None = None,
    ) -> None:
        """Adds the default graph, which uses variables that were saved with another one.

        See `add_meta_graph_and_variables`.

        Raises:
          AssertionError: No variables were saved yet, or a signature lacks something.
        """
        if not self._has_saved_variables:
            raise AssertionError(
                "Graph state including variables and assets has not been saved yet. Please invoke "
                "`add_meta_graph_and_variables()` first."
            )
        self._prepare(signature_def_map, assets_collection, _either(main_op, legacy_init_op))
        saver = saver or _saver_for_everything()
        self._add(saver, tags, signature_def_map, clear_devices, strip_default_attrs)

    def save(self, as_text: bool = False) -> bytes:
        """Writes the SavedModel message; the model is complete then.

        Args:
          as_text: Whether to write it as text.

        Returns:
          The name of the file.
        """
        gfile.makedirs(self._export_dir)
        if as_text:
            name = constants.SAVED_MODEL_FILENAME_PBTXT
            content = text_format.MessageToString(self._saved_model).encode()
        else:
            name = constants.SAVED_MODEL_FILENAME_PB
            content = self._saved_model.SerializeToString(deterministic=True)
        path = gfile.join(self._export_dir, name)
        write_atomically(path, content)
        logging.info("SavedModel written to: %s", path)
        return path.encode()

    def _prepare(
        self,
        signature_def_map: Mapping[str, SignatureDef] | None,
        assets: Iterable[Any] | None,
        main_op: Any,
    ) -> None:
        _check_signatures(signature_def_map or {})
        self._add_assets(assets)
        if main_op is None:
            return
        if not isinstance(main_op, Operation):
            raise TypeError(
                f"Expected {main_op} to be an Operation but got type {type(main_op)} instead."
            )
        for key in (constants.MAIN_OP_KEY, constants.LEGACY_INIT_OP_KEY):
            if get_collection(key):
                raise ValueError(
                    f"Graph already contains one or more main ops under the collection {key}."
                )
        add_to_collection(constants.MAIN_OP_KEY, main_op)

    def _add(
        self,
        saver: Saver,
        tags: Iterable[str],
        signature_def_map: Mapping[str, SignatureDef] | None,
        clear_devices: bool,
        strip_default_attrs: bool,
    ) -> None:
        graph: MetaGraphDef = saver.export_meta_graph(
            clear_devices=clear_devices, strip_default_attrs=strip_default_attrs
        )
        graph.meta_info_def.tags.extend(tags)
        for key, signature in (signature_def_map or {}).items():
            graph.signature_def[key].CopyFrom(signature)
        self._saved_model.meta_graphs.add().CopyFrom(graph)

    # -- Assets ------------------------------------------------------------------------------

    def _add_assets(self, tensors: Iterable[Any] | None) -> None:
        for tensor in tensors or ():
            source = _asset_path(tensor)
            name = self._asset_name(source)
            packed = any_pb2.Any(type_url=_ASSET_TYPE_URL)
            packed.value = AssetFileDef(
                filename=name, tensor_info=TensorInfo(name=tensor.name)
            ).SerializeToString()
            add_to_collection(constants.ASSETS_KEY, packed)
            target = gfile.join(assets_path(self._export_dir), name)
            if name not in self._assets and source != target:
                gfile.makedirs(assets_path(self._export_dir))
                gfile.copy(source, target, overwrite=True)
            self._assets[name] = source

    def _asset_name(self, source: str) -> str:
        """A name that no other file has in the model; files with the same content share one."""
        base = name = os.path.basename(source)
        count = 0
        while name in self._assets and not _same_content(source, self._assets[name]):
            count += 1
            name = f"{base}_{count}"
        return name


def _either(main_op: Any, legacy_init_op: Any) -> Any:
    return legacy_init_op if main_op is None else main_op


def _saver_for_everything() -> Saver:
    return Saver(all_saveable_objects(), sharded=True, write_version=SaverDef.V2, allow_empty=True)


def _same_content(first: str, second: str) -> bool:
    if first == second:
        return True
    with gfile.GFile(first, "rb") as a, gfile.GFile(second, "rb") as b:
        return bool(a.read() == b.read())


def _asset_path(tensor: Any) -> str:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"Asset path tensor {tensor} must be a Tensor.")
    if tensor.op.type != "Const":
        raise TypeError(
            f"Asset path tensor {tensor} must be of type constant. Has type {tensor.op.type} "
            "instead."
        )
    if tensor.dtype != dtypes.string:
        raise TypeError(
            f"Asset path tensor {tensor} must be of dtype string. Has type {tensor.dtype} instead."
        )
    value = constant_value(tensor)
    if value is None or value.size != 1:
        raise TypeError(f"Asset path tensor {tensor} must be a scalar.")
    path = value.item().decode()
    if not path:
        raise ValueError(f"Asset filepath tensor {tensor} is invalid.")
    return str(path)


def _check_signatures(signatures: Mapping[str, SignatureDef]) -> None:
    for signature in signatures.values():
        for infos in (signature.inputs, signature.outputs):
            for info in infos.values():
                _check_tensor_info(info)
    for key, what in (
        (constants.INIT_OP_SIGNATURE_KEY, "initialization"),
        (constants.TRAIN_OP_SIGNATURE_KEY, "the train op"),
    ):
        if key in signatures:
            raise KeyError(
                f'SignatureDef map key "{key}" is reserved for {what}. Please use a different key.'
            )


def _check_tensor_info(info: TensorInfo) -> None:
    if info.WhichOneof("encoding") is None:
        raise AssertionError(
            f"Invalid `tensor_info`: {info}. All TensorInfo protos used in the SignatureDefs must "
            "have one of the 'encoding' fields (e.g., name or coo_sparse) set."
        )
    if info.WhichOneof("encoding") != "composite_tensor" and not info.dtype:
        raise AssertionError(
            f"Invalid `tensor_info`: {info}. All TensorInfo protos used in the SignatureDefs must "
            "have the dtype field set."
        )


def simple_save(
    session: Any,
    export_dir: Any,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    legacy_init_op: Any = None,
) -> None:
    """Saves a model for serving: one graph, one signature that predicts.

    Args:
      session: The session that has the variables.
      export_dir: The folder; it is made, and must be empty.
      inputs: The tensors that are fed, by name.
      outputs: The tensors that are fetched, by name.
      legacy_init_op: An operation to run when it is loaded.
    """
    builder = SavedModelBuilder(export_dir)
    builder.add_meta_graph_and_variables(
        session,
        tags=[tag_constants.SERVING],
        signature_def_map={
            signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY: predict_signature_def(
                inputs, outputs
            )
        },
        assets_collection=get_collection(GraphKeys.ASSET_FILEPATHS),
        main_op=legacy_init_op,
        clear_devices=True,
    )
    builder.save()
