"""`tf.train.Saver`: saves and restores variables, keeps the newest checkpoints, deletes the
others.

A save is complete when its index is in place; then the ``checkpoint`` file names it; then older
checkpoints are deleted. Killed or failing anywhere, what the ``checkpoint`` file names is
complete.
"""

from __future__ import annotations

import math
import numbers
import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from tensorboard.compat.proto import trackable_object_graph_pb2

from millrace.client.session import BaseSession
from millrace.core import errors
from millrace.core.config import MetaGraphDef, SaverDef
from millrace.data import tensor_bundle
from millrace.data.tensor_bundle import BundleReader
from millrace.graph import meta_graph
from millrace.graph.collection_protos import (
    prepend_name_scope,
    register_proto_function,
    strip_name_scope,
)
from millrace.graph.defaults import get_default_graph
from millrace.graph.keys import GraphKeys
from millrace.observe.events import EVENTS
from millrace.observe.observation import OBSERVED
from millrace.platform import gfile, logging
from millrace.platform.atomic_file import write_atomically
from millrace.training.checkpoint import restore_mismatch
from millrace.training.checkpoint import state as checkpoint_state
from millrace.training.checkpoint.delta_saves import DeltaSaves, base_of
from millrace.training.checkpoint.fence import CheckpointGuard
from millrace.training.checkpoint.pending_save import PendingSave
from millrace.training.checkpoint.saveable import all_saveable_objects, op_list_to_dict
from millrace.training.checkpoint.saver_builder import BaseSaverBuilder, BulkSaverBuilder
from millrace.training.global_step import global_step as read_global_step

#: The key under which checkpoints of tf.train.Checkpoint keep the names of their objects.
_OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"


class Saver:
    """Adds nodes that save and restore variables to the graph, and runs them.

    Args:
      var_list: What to save: a list of variables and SaveableObjects, or a dict by the name that
        each has in checkpoints; everything in the graph that can be saved by default.
      reshape: Whether restored values take the shape of their variable.
      sharded: Whether each device saves its own variables, at the same time.
      max_to_keep: How many checkpoints to keep; None or 0 for all.
      keep_checkpoint_every_n_hours: How often one more is kept for good.
      name: The name scope of the nodes; ``save`` by default.
      restore_sequentially: Accepted: a device restores its variables with one op.
      saver_def: The nodes of an existing Saver, instead of new ones.
      builder: What builds the nodes; BulkSaverBuilder by default.
      defer_build: Whether the nodes are added by `build` only.
      allow_empty: Whether there may be nothing to save.
      write_version: The format of checkpoints; either is read.
      pad_step_number: Whether names have the step with eight digits.
      save_relative_paths: Whether the ``checkpoint`` file has relative paths, so that the folder
        can be moved.
      filename: The file's name when none is fed.
      keep_delta: Whether most checkpoints have only what changed since the newest full one: of
        tables the rows, of other variables everything. Not in TensorFlow, which cannot read them;
        ``millrace checkpoint compact`` makes full ones.

    Raises:
      TypeError: `var_list` has something that is no variable.
      ValueError: There is nothing to save, or a name is used twice.
    """

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        saver_def: SaverDef | None = None,
        builder: BaseSaverBuilder | None = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: int = SaverDef.V2,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: str | None = None,
        *,
        keep_delta: bool = False,
    ) -> None:
        if keep_delta and saver_def:
            raise ValueError("keep_delta=True needs variables to save, not a saver_def.")
        if defer_build and var_list:
            raise ValueError(
                "If `var_list` is provided then build cannot be deferred. Either set "
                "defer_build=False or var_list=None."
            )
        self.saver_def: Any = saver_def
        self._var_list = var_list
        self._reshape = reshape
        self._sharded = sharded
        self._max_to_keep = max_to_keep
        self._keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self._name = name
        self._restore_sequentially = restore_sequentially
        self._builder = builder
        self._allow_empty = allow_empty
        self._write_version = write_version
        self._pad_step_number = pad_step_number
        self._save_relative_paths = save_relative_paths
        self._filename = filename
        self._keep_delta = keep_delta
        self._deltas: DeltaSaves | None = None
        #: The full checkpoint that each checkpoint needs, or None; of those that were looked at.
        self._bases: dict[str, str | None] = {}
        self._is_built = False
        #: Whether there is nothing to save; known once it is built.
        self._is_empty: bool | None = None
        #: (name, time) of the checkpoints that are kept, oldest first.
        self._last_checkpoints: list[tuple[str, float]] = []
        #: Those that are too many, until they are deleted.
        self._checkpoints_to_be_deleted: list[tuple[str, float]] = []
        #: A checkpoint newer than this is kept for good when its turn to be deleted comes.
        self._next_checkpoint_time = math.inf
        self._object_restore_saver: Saver | None = None
        #: Held during a save: one of them is written at a time.
        self._saving = threading.RLock()
        #: Asked before and at each save, where several processes may believe they are chief.
        self.guard: CheckpointGuard | None = None
        #: Told of each checkpoint that the ``checkpoint`` file names.
        self.after_save: Callable[[str], None] | None = None
        if not defer_build:
            self.build()
        if self.saver_def:
            self._check_saver_def()
            self._write_version = self.saver_def.version

    # -- Building ----------------------------------------------------------------------------

    def build(self) -> None:
        """Adds the nodes; done by the constructor unless ``defer_build=True``."""
        if self._is_built:
            return
        self._is_built = True
        if not self.saver_def:
            if self._builder is None:
                self._builder = BulkSaverBuilder(self._write_version)
            if self._var_list is None:
                self._var_list = all_saveable_objects()
            if not self._var_list:
                if not self._allow_empty:
                    raise ValueError("No variables to save")
                self._is_empty = True
                return
            self._is_empty = False
            self.saver_def = self._builder.build(
                self._var_list,
                reshape=self._reshape,
                sharded=self._sharded,
                max_to_keep=self._max_to_keep,
                keep_checkpoint_every_n_hours=self._keep_checkpoint_every_n_hours,
                name=self._name,
                restore_sequentially=self._restore_sequentially,
                filename=self._filename,
            )
            if self._keep_delta:
                self._deltas = DeltaSaves(self._var_list, self.saver_def)
        elif self._name:
            for field in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
                name = getattr(self.saver_def, field)
                setattr(self.saver_def, field, prepend_name_scope(name, self._name))
        self._check_saver_def()
        self._next_checkpoint_time = (
            time.time() + self.saver_def.keep_checkpoint_every_n_hours * 3600
        )

    def _check_saver_def(self) -> None:
        if not isinstance(self.saver_def, SaverDef):
            raise ValueError(f"saver_def must be a saver_pb2.SaverDef: {self.saver_def}")
        for field in ("save_tensor_name", "restore_op_name"):
            if not getattr(self.saver_def, field):
                raise ValueError(f"saver_def must specify the {field}: {self.saver_def}")

    # -- Messages ----------------------------------------------------------------------------

    def as_saver_def(self) -> SaverDef:
        """The SaverDef: which nodes save and restore."""
        return self.saver_def

    def to_proto(self, export_scope: str | None = None) -> SaverDef | None:
        """The SaverDef without the scope in front of its names; None if it is not under it."""
        if export_scope is None:
            return self.saver_def
        fields = ("filename_tensor_name", "save_tensor_name", "restore_op_name")
        if not all(getattr(self.saver_def, field).startswith(export_scope) for field in fields):
            return None
        message = SaverDef()
        message.CopyFrom(self.saver_def)
        for field in fields:
            setattr(message, field, strip_name_scope(getattr(message, field), export_scope))
        return message

    @staticmethod
    def from_proto(saver_def: SaverDef, import_scope: str | None = None) -> Saver:
        """A Saver for nodes that are in the graph already."""
        message = SaverDef()
        message.CopyFrom(saver_def)
        return Saver(saver_def=message, name=import_scope)

    def export_meta_graph(
        self,
        filename: str | None = None,
        collection_list: Iterable[str] | None = None,
        as_text: bool = False,
        export_scope: str | None = None,
        clear_devices: bool = False,
        clear_extraneous_savers: bool = False,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> MetaGraphDef:
        """The default graph with this saver; see `tf.train.export_meta_graph`."""
        graph_def = get_default_graph().as_graph_def(add_shapes=True)
        if self._deltas is not None:
            graph_def = self._deltas.without_nodes(graph_def)
        message, _ = meta_graph.export_scoped_meta_graph(
            filename=filename,
            graph_def=graph_def,
            saver_def=self.saver_def,
            collection_list=collection_list,
            as_text=as_text,
            export_scope=export_scope,
            clear_devices=clear_devices,
            clear_extraneous_savers=clear_extraneous_savers,
            strip_default_attrs=strip_default_attrs,
        )
        return message

    # -- Which checkpoints are kept ----------------------------------------------------------

    @property
    def last_checkpoints(self) -> list[str]:
        """The checkpoints that are kept, oldest first."""
        return [name for name, _ in self._last_checkpoints]

    def set_last_checkpoints(self, last_checkpoints: list[str]) -> None:
        """States which checkpoints there are; none of them is kept for good."""
        assert isinstance(last_checkpoints, list)
        self._last_checkpoints = [(name, math.inf) for name in last_checkpoints]

    def set_last_checkpoints_with_time(
        self, last_checkpoints_with_time: list[tuple[str, float]]
    ) -> None:
        """States which checkpoints there are, and when they were saved."""
        assert isinstance(last_checkpoints_with_time, list)
        self._last_checkpoints = last_checkpoints_with_time

    def recover_last_checkpoints(self, checkpoint_paths: Iterable[str]) -> None:
        """States which checkpoints an earlier run left; those that are gone are passed over."""
        found: list[tuple[str, float]] = []
        for path in checkpoint_paths:
            try:
                times = checkpoint_state.get_checkpoint_mtimes([path])
            except errors.NotFoundError:
                continue
            found.extend((path, each) for each in times[:1])
        self.set_last_checkpoints_with_time(found)

    def _add_collection_def(
        self, meta_graph_def: Any, key: Any, export_scope: str | None = None
    ) -> None:
        """Adds a collection to a MetaGraphDef; TensorFlow's name for it."""
        meta_graph.add_collection_def(meta_graph_def, key, export_scope=export_scope)

    def _record_last_checkpoint(self, path: str) -> None:
        if not self.saver_def.max_to_keep:
            return
        self._last_checkpoints = [each for each in self._last_checkpoints if each[0] != path]
        self._last_checkpoints.append((path, time.time()))
        if len(self._last_checkpoints) > self.saver_def.max_to_keep:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """Marks checkpoints that are too many; a base stays as long as a delta of it is kept."""
        while True:
            needed = {self._base_of(path) for path in self.last_checkpoints}
            free = [each for each in self._last_checkpoints if each[0] not in needed]
            if len(free) <= self.saver_def.max_to_keep:
                return
            self._last_checkpoints.remove(free[0])
            self._checkpoints_to_be_deleted.append(free[0])

    def _base_of(self, path: str) -> str | None:
        if path not in self._bases:
            self._bases[path] = base_of(path)
        return self._bases[path]

    def _maybe_delete_old_checkpoints(self, meta_graph_suffix: str = "meta") -> None:
        while self._checkpoints_to_be_deleted:
            self._delete_or_preserve(*self._checkpoints_to_be_deleted.pop(0), meta_graph_suffix)

    def _delete_or_preserve(self, name: str, saved_at: float, meta_graph_suffix: str) -> None:
        self._bases.pop(name, None)
        if saved_at > self._next_checkpoint_time:
            self._next_checkpoint_time += self.saver_def.keep_checkpoint_every_n_hours * 3600
            return
        try:
            checkpoint_state.remove_checkpoint(name, self.saver_def.version, meta_graph_suffix)
        except Exception as error:
            # A checkpoint too many is no reason to end a training run.
            logging.warning("Ignoring: %s", error)

    # -- Saving ------------------------------------------------------------------------------

    def save(
        self,
        sess: Any,
        save_path: Any,
        global_step: Any = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str | None:
        """Saves the variables.

        Args:
          sess: The session that has them.
          save_path: What the names of the checkpoint's files begin with.
          global_step: A number to append: an int, a tensor or a tensor's name.
          latest_filename: Another name for the ``checkpoint`` file.
          meta_graph_suffix: How the name of the file with the graph ends.
          write_meta_graph: Whether to write that file.
          write_state: Whether to write the ``checkpoint`` file.
          strip_default_attrs: Whether the graph is written without attributes that have defaults.
          save_debug_info: Accepted; where operations were made is not written.

        Returns:
          What to hand to `restore`; None if there is nothing to save.

        Raises:
          TypeError: `sess` is no session.
          ValueError: The folder does not exist, or names collide.
          RuntimeError: The nodes were not built.
          OpError: TensorFlow's class for what the file system says; the checkpoints that there are
            and the ``checkpoint`` file stay as they are.
        """
        if not self._is_built:
            raise RuntimeError("`build()` should be called before save if defer_build==True")
        if self._write_version != SaverDef.V2:
            logging.warning(
                "TensorFlow's V1 checkpoint format has been deprecated. Consider switching to the "
                "more efficient V2 format: `tf.train.Saver(write_version=tf.train.SaverDef.V2)`"
            )
        latest_filename = latest_filename or "checkpoint"
        if os.path.split(latest_filename)[0]:
            raise ValueError("'latest_filename' must not contain path components")
        save_path = os.fsdecode(save_path)
        checkpoint_file = self._checkpoint_file(sess, save_path, global_step, latest_filename)
        if not isinstance(sess, BaseSession):
            raise TypeError(f"'sess' must be a Session; {sess}")
        with self._saving:
            return self._save_all(
                sess,
                save_path,
                checkpoint_file,
                latest_filename,
                meta_graph_suffix,
                write_meta_graph,
                write_state,
                strip_default_attrs,
                save_debug_info,
            )

    def save_async(self, sess: Any, save_path: Any, global_step: Any = None, **kw: Any) -> Any:
        """Saves the variables as they are now, while the session goes on.

        Not in TensorFlow.

        Args:
          sess: The session that has them.
          save_path: As for `save`.
          global_step: As for `save`.
          **kw: The other arguments of `save`.

        Returns:
          What tells whether the checkpoint is safe (`done`) and waits for it (`result`). An error
          is raised by `result`.
        """
        if global_step is not None and not isinstance(global_step, numbers.Integral):
            global_step = read_global_step(sess, global_step)
        if not isinstance(sess, BaseSession):
            raise TypeError(f"'sess' must be a Session; {sess}")
        return PendingSave(sess, lambda: self.save(sess, save_path, global_step, **kw)).begin()

    def _save_all(
        self,
        sess: Any,
        save_path: str,
        checkpoint_file: str,
        latest_filename: str,
        meta_graph_suffix: str,
        write_meta_graph: bool,
        write_state: bool,
        strip_default_attrs: bool,
        save_debug_info: bool,
    ) -> str | None:
        saved: str | None = None
        if not self._is_empty:
            saved = self._save(
                sess, save_path, checkpoint_file, latest_filename, meta_graph_suffix, write_state
            )
        if write_meta_graph:
            meta_name = checkpoint_state.meta_graph_filename(checkpoint_file, meta_graph_suffix)
            with sess.graph.as_default():
                self.export_meta_graph(
                    meta_name,
                    strip_default_attrs=strip_default_attrs,
                    save_debug_info=save_debug_info,
                )
        return saved

    def _checkpoint_file(
        self, sess: Any, save_path: str, global_step: Any, latest_filename: str
    ) -> str:
        if global_step is None:
            if os.path.basename(save_path) == latest_filename and not self._sharded:
                raise ValueError(
                    f"'latest_filename' collides with 'save_path': '{latest_filename}' and "
                    f"'{save_path}'"
                )
            return save_path
        if not isinstance(global_step, numbers.Integral):
            global_step = read_global_step(sess, global_step)
        step = int(global_step)
        return f"{save_path}-{step:08d}" if self._pad_step_number else f"{save_path}-{step}"

    def _save(
        self,
        sess: Any,
        save_path: str,
        checkpoint_file: str,
        latest_filename: str,
        meta_graph_suffix: str,
        write_state: bool,
    ) -> str:
        folder = os.path.dirname(save_path)
        write = write_atomically if self.guard is None else self.guard.enter(folder)
        try:
            start = time.perf_counter()
            saved = self._write(sess, checkpoint_file)
            seconds = time.perf_counter() - start
            OBSERVED.saves.note(seconds)
            EVENTS.note("saved", f"{saved} ({seconds:.1f} s)")
            if write_state:
                self._record_last_checkpoint(saved)
                checkpoint_state.update_checkpoint_state(
                    save_dir=folder,
                    model_checkpoint_path=saved,
                    all_model_checkpoint_paths=self.last_checkpoints,
                    latest_filename=latest_filename,
                    save_relative_paths=self._save_relative_paths,
                    write=write,
                )
                if self.after_save is not None:
                    self.after_save(saved)
                self._maybe_delete_old_checkpoints(meta_graph_suffix)
        except (errors.FailedPreconditionError, errors.NotFoundError) as error:
            if folder and not gfile.isdir(folder):
                raise ValueError(
                    f"Parent directory of {save_path} doesn't exist, can't save."
                ) from error
            raise
        return saved

    def _write(self, sess: Any, checkpoint_file: str) -> str:
        """Writes the files of a checkpoint, full or not; its name."""
        if self._deltas is not None:
            base = self._deltas.save(sess, checkpoint_file)
            if base is not None:
                self._bases[checkpoint_file] = base
                return checkpoint_file
        result = sess.run(
            self.saver_def.save_tensor_name,
            {self.saver_def.filename_tensor_name: checkpoint_file},
        )
        saved: str = result.decode() if isinstance(result, bytes) else str(result)
        self._bases[saved] = None
        if self._deltas is not None:
            self._deltas.note_full(saved)
        return saved

    # -- Restoring ---------------------------------------------------------------------------

    def restore(self, sess: Any, save_path: Any) -> None:
        """Gives the variables the values of a checkpoint; they need not be initialised.

        Args:
          sess: The session that has them.
          save_path: What `save` or `tf.train.latest_checkpoint` returned.

        Raises:
          ValueError: There is no such checkpoint.
          NotFoundError: It lacks a variable.
          InvalidArgumentError: A variable has another type or shape in it.
          DataLossError: It is damaged.
        """
        if self._is_empty:
            return
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        prefix = os.fsdecode(save_path)
        if not checkpoint_state.checkpoint_exists(prefix):
            raise ValueError(f"The passed save_path is not a valid checkpoint: {prefix}")
        logging.info("Restoring parameters from %s", prefix)
        EVENTS.note("restored", prefix)
        try:
            sess.run(self.saver_def.restore_op_name, {self.saver_def.filename_tensor_name: prefix})
        except errors.NotFoundError as error:
            keys = object_graph_key_mapping(prefix)
            if keys is None or self._var_list is None:
                raise restore_mismatch.explained(
                    error, "a Variable name or other graph key that is missing"
                ) from None
            self._restore_objects(sess, prefix, keys)
        except errors.InvalidArgumentError as error:
            found = restore_mismatch.find(sess.graph, self.saver_def, prefix)
            raise restore_mismatch.explained(
                error, "a mismatch between the current graph and the graph", found
            ) from None

    def _restore_objects(self, sess: Any, prefix: str, keys: dict[str, str]) -> None:
        """Restores from a checkpoint of tf.train.Checkpoint, by the names of its variables."""
        logging.warning(
            "Restoring an object-based checkpoint using a name-based saver: %s. The Saver is "
            "built again, for the names that it has there.",
            prefix,
        )
        if self._object_restore_saver is None:
            by_name = self._var_list
            if not isinstance(by_name, dict):
                by_name = op_list_to_dict(by_name)
            missing = sorted(name for name in by_name if name not in keys)
            if missing:
                raise errors.NotFoundError(
                    None,
                    None,
                    f"Existing variables not in the checkpoint: {', '.join(missing)}; variables "
                    f"names when this checkpoint was written: {', '.join(sorted(keys))}",
                )
            with sess.graph.as_default():
                self._object_restore_saver = Saver(
                    {keys[name]: variable for name, variable in by_name.items()},
                    builder=self._builder,
                )
        self._object_restore_saver.restore(sess, prefix)


def object_graph_key_mapping(checkpoint_path: str) -> dict[str, str] | None:
    """Names of variables to keys, for a checkpoint of tf.train.Checkpoint; None for others."""
    if not tensor_bundle.exists(checkpoint_path):
        return None
    with BundleReader(checkpoint_path) as reader:
        if _OBJECT_GRAPH_KEY not in reader:
            return None
        content = reader.read(_OBJECT_GRAPH_KEY).item()
    graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(content)
    return {
        attribute.full_name: attribute.checkpoint_key
        for node in graph.nodes
        for attribute in node.attributes
    }


register_proto_function(
    GraphKeys.SAVERS,
    proto_type=SaverDef,
    to_proto=lambda saver, export_scope=None: saver.to_proto(export_scope),
    from_proto=Saver.from_proto,
)
