"""`tf.train.Checkpoint`: saves objects by where they are in the program, not by variables' names.

The files are TensorFlow's. Nodes that save and restore are made when first needed, and kept while
the objects stay the same; a graph that is finalized must have saved or restored before.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from millrace.core import dtypes, errors
from millrace.core.config import TrackableObjectGraph
from millrace.graph.defaults import get_default_graph, get_default_session
from millrace.ops.array import constant
from millrace.ops.control_flow import control_flow
from millrace.ops.state.variable import Variable
from millrace.platform import gfile
from millrace.training.checkpoint.object_graph import Match, ObjectGraph, is_trackable, match
from millrace.training.checkpoint.reader import NewCheckpointReader
from millrace.training.checkpoint.saveable import SaveableObject, SaveSpec, saveable_objects_for_op
from millrace.training.checkpoint.saver import Saver
from millrace.training.checkpoint.state import update_checkpoint_state

_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"


class CheckpointOptions:
    """Accepted by `Checkpoint.save` and `write`; the I/O device is always the variable's task."""

    def __init__(self, experimental_io_device: str | None = None, **others: Any) -> None:
        """Keeps the options."""
        self.experimental_io_device = experimental_io_device
        self.others = others


class _SavedGraph(SaveableObject):
    """The object graph as one more tensor of a checkpoint; restoring it does nothing."""

    def __init__(self, content: bytes) -> None:
        tensor = constant.constant(content, dtype=dtypes.string)
        super().__init__(tensor, [SaveSpec(tensor, "", _GRAPH_KEY)], _GRAPH_KEY)

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
        return control_flow.no_op()


class Checkpoint:
    """A group of objects that are saved and restored together.

    Attributes are its parts: ``Checkpoint(model=v, optimizer=o)`` or ``checkpoint.model = v``. They
    may be variables, optimizers, lists and dicts of these, and other Checkpoints.
    """

    def __init__(self, **kwargs: Any) -> None:
        """Makes a group.

        Args:
          **kwargs: The parts.

        Raises:
          ValueError: Something cannot be part of a checkpoint.
        """
        self._parts: dict[str, Any] = {}
        self._save_counter: Variable | None = None
        self._count_up: Any = None
        self._savers: dict[Any, Saver] = {}
        for name in sorted(kwargs):
            if not is_trackable(kwargs[name]):
                raise ValueError(
                    "`Checkpoint` was expecting a trackable object (a variable, an optimizer, "
                    f"another Checkpoint, or a list or dict of these), got {name}={kwargs[name]!r}."
                )
            setattr(self, name, kwargs[name])

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if not name.startswith("_"):
            if is_trackable(value):
                self._parts[name] = value
            else:
                self._parts.pop(name, None)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self._parts.pop(name, None)

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        parts = dict(self._parts)
        if self._save_counter is not None:
            parts["save_counter"] = self._save_counter
        return parts

    @property
    def save_counter(self) -> Variable:
        """Counts calls of `save`; its value ends the names of checkpoints."""
        if self._save_counter is None:
            self._save_counter = Variable(
                0, name="save_counter", dtype=dtypes.int64, trainable=False, use_resource=True
            )
        return self._save_counter

    def _next_number(self, session: Any) -> int:
        """Counts up."""
        if self._save_counter is None:
            # Nobody else could have initialised it.
            session.run(self.save_counter.initializer)
        if self._count_up is None:
            self._count_up = self.save_counter.assign_add(1, read_value=True)
        return int(session.run(self._count_up))

    def save(self, file_prefix: Any, session: Any = None, options: Any = None) -> str:
        """Writes a checkpoint with the next number, and makes it the newest of its folder.

        Args:
          file_prefix: What its name begins with.
          session: The session; the default session when None.
          options: CheckpointOptions.

        Returns:
          What to hand to `restore`.
        """
        session = _session(session)
        path = f"{os.fspath(file_prefix)}-{self._next_number(session)}"
        path = self.write(path, session, options)
        update_checkpoint_state(os.path.dirname(path), path, [path], save_relative_paths=True)
        return path

    def write(self, file_prefix: Any, session: Any = None, options: Any = None) -> str:
        """Writes a checkpoint of this very name, and nothing else.

        Args:
          file_prefix: The name.
          session: The session; the default session when None.
          options: CheckpointOptions.

        Returns:
          What to hand to `restore`.
        """
        session = _session(session)
        prefix: str = os.fspath(file_prefix)
        if os.path.dirname(prefix):
            gfile.makedirs(os.path.dirname(prefix))
        self.as_saver(session.graph).save(
            session, prefix, write_meta_graph=False, write_state=False
        )
        return prefix

    def as_saver(self, graph: Any = None) -> Saver:
        """A Saver that saves and restores the objects of now, and writes their graph.

        Args:
          graph: The graph; the default graph when None.
        """
        graph = get_default_graph() if graph is None else graph
        with graph.as_default():
            objects = ObjectGraph(self)
        variables = objects.variables()
        content = objects.to_proto().SerializeToString(deterministic=True)
        key = ("save", graph, content, *map(id, variables.values()))
        if key not in self._savers:
            with graph.as_default():
                to_save = [_SavedGraph(content)]
                for name, variable in variables.items():
                    to_save.extend(saveable_objects_for_op(variable, name))
                self._savers[key] = Saver(to_save, sharded=True)
        return self._savers[key]

    def _restoring_saver(self, graph: Any, found: dict[str, Any]) -> Saver:
        key = ("restore", graph, *((name, id(variable)) for name, variable in found.items()))
        if key not in self._savers:
            with graph.as_default():
                self._savers[key] = Saver(dict(found), sharded=True, max_to_keep=None)
        return self._savers[key]

    def restore(self, save_path: Any) -> LoadStatus:
        """Prepares to restore a checkpoint; the status that it returns does it in a session.

        Objects may be added after this, until the status is used.

        Args:
          save_path: What `save` returned, or None for no checkpoint.

        Raises:
          NotFoundError: There is no such checkpoint.
        """
        _ = self.save_counter
        if save_path is None:
            return InitializationOnlyStatus(self)
        path = os.fspath(save_path)
        reader = NewCheckpointReader(path)
        if not reader.has_tensor(_GRAPH_KEY):
            return NameBasedSaverStatus(self, path, set(reader.get_variable_to_shape_map()))
        content = np.asarray(reader.get_tensor(_GRAPH_KEY)).item()
        message = TrackableObjectGraph.FromString(content)
        return CheckpointLoadStatus(self, path, message)

    read = restore


class LoadStatus:
    """What `Checkpoint.restore` returns: asserts what matches, and restores in a session."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        """For the objects of a Checkpoint."""
        self._checkpoint = checkpoint

    def assert_consumed(self) -> LoadStatus:
        """Asserts that all objects are in the checkpoint, and all of the checkpoint is used."""
        raise NotImplementedError

    def assert_existing_objects_matched(self) -> LoadStatus:
        """Asserts that all objects are in the checkpoint."""
        raise NotImplementedError

    def assert_nontrivial_match(self) -> LoadStatus:
        """Asserts that something besides the root is in the checkpoint."""
        raise NotImplementedError

    def expect_partial(self) -> LoadStatus:
        """Accepted: what does not match is never warned about."""
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Restores what matches."""
        raise NotImplementedError

    def initialize_or_restore(self, session: Any = None) -> None:
        """Restores what matches, and initialises the other variables."""
        raise NotImplementedError


class CheckpointLoadStatus(LoadStatus):
    """The status for a checkpoint that a Checkpoint wrote."""

    def __init__(self, checkpoint: Checkpoint, path: str, message: Any) -> None:
        """For a file and the object graph in it."""
        super().__init__(checkpoint)
        self._path = path
        self._message = message

    def _match(self) -> Match:
        return match(self._message, self._checkpoint)

    def assert_existing_objects_matched(self) -> CheckpointLoadStatus:
        """Asserts that all variables are in the checkpoint."""
        missing = self._match().missing
        if missing:
            raise AssertionError(
                f"Found {len(missing)} Python objects that were not bound to checkpointed values, "
                "likely due to changes in the Python program. Showing "
                f"{min(10, len(missing))} of {len(missing)} unmatched objects: {missing[:10]}"
            )
        return self

    def assert_consumed(self) -> CheckpointLoadStatus:
        """Asserts that all variables are in the checkpoint, and all of the checkpoint is used."""
        self.assert_existing_objects_matched()
        unused = self._match().unused
        if unused:
            raise AssertionError(
                f"Unresolved object in checkpoint {self._path}: {', '.join(unused[:10])}"
                + (f" and {len(unused) - 10} more" if len(unused) > 10 else "")
            )
        return self

    def assert_nontrivial_match(self) -> CheckpointLoadStatus:
        """Asserts that something besides the root is in the checkpoint."""
        if not self._match().objects:
            raise AssertionError(
                f"Nothing except the root object matched a checkpointed value of {self._path}."
            )
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Restores what matches."""
        session = _session(session)
        with session.graph.as_default():
            matched = self._match()
        self._restore(session, matched)

    def initialize_or_restore(self, session: Any = None) -> None:
        """Restores what matches, and initialises the other variables."""
        session = _session(session)
        with session.graph.as_default():
            matched = self._match()
        self._restore(session, matched)
        if matched.missing:
            session.run([variable.initializer for variable in matched.missing])

    def _restore(self, session: Any, matched: Match) -> None:
        if matched.found:
            saver = self._checkpoint._restoring_saver(session.graph, matched.found)
            saver.restore(session, self._path)


class InitializationOnlyStatus(LoadStatus):
    """The status for no checkpoint."""

    def _nothing(self) -> AssertionError:
        return AssertionError(
            "No checkpoint specified (save_path=None); nothing is being restored."
        )

    def assert_consumed(self) -> InitializationOnlyStatus:
        """Fails."""
        raise self._nothing()

    def assert_existing_objects_matched(self) -> InitializationOnlyStatus:
        """Fails."""
        raise self._nothing()

    def assert_nontrivial_match(self) -> InitializationOnlyStatus:
        """Fails."""
        raise self._nothing()

    def run_restore_ops(self, session: Any = None) -> None:
        """Fails."""
        raise AssertionError(
            "No checkpoint specified, so no restore ops are available (save_path=None to "
            "Saver.restore)."
        )

    def initialize_or_restore(self, session: Any = None) -> None:
        """Initialises all variables."""
        variables = ObjectGraph(self._checkpoint).variables().values()
        _session(session).run([variable.initializer for variable in variables])


class NameBasedSaverStatus(LoadStatus):
    """The status for a checkpoint that a Saver wrote: variables are found by their names."""

    def __init__(self, checkpoint: Checkpoint, path: str, names: set[str]) -> None:
        """For a file and the names in it."""
        super().__init__(checkpoint)
        self._path = path
        self._names = names

    def _by_name(self) -> dict[str, Any]:
        found = ObjectGraph(self._checkpoint).variables().values()
        counter = self._checkpoint._save_counter
        return {v.op.name: v for v in found if v is not counter}

    def assert_existing_objects_matched(self) -> NameBasedSaverStatus:
        """Asserts that the checkpoint has a value for each variable's name."""
        missing = sorted(set(self._by_name()) - self._names)
        if missing:
            raise AssertionError(f"Object not restored: {', '.join(missing)}")
        return self

    def assert_consumed(self) -> NameBasedSaverStatus:
        """Asserts that the names in the checkpoint are those of the variables."""
        self.assert_existing_objects_matched()
        unused = sorted(self._names - set(self._by_name()))
        if unused:
            raise AssertionError(f"Unresolved name in checkpoint: {', '.join(unused)}")
        return self

    def assert_nontrivial_match(self) -> NameBasedSaverStatus:
        """Asserts that the checkpoint has a value for some variable's name."""
        if not self._names & set(self._by_name()):
            raise AssertionError(f"No name of a variable is in the checkpoint {self._path}.")
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Restores all variables by name.

        Raises:
          NotFoundError: The checkpoint lacks one.
        """
        session = _session(session)
        by_name = self._by_name()
        missing = sorted(set(by_name) - self._names)
        if missing:
            raise errors.NotFoundError(
                None,
                None,
                f"Restoring from checkpoint failed. {self._path}, which a Saver wrote, has no "
                f"{', '.join(missing)}",
            )
        self._checkpoint._restoring_saver(session.graph, by_name).restore(session, self._path)

    def initialize_or_restore(self, session: Any = None) -> None:
        """Restores all variables by name, and restarts the counter."""
        session = _session(session)
        self.run_restore_ops(session)
        session.run(self._checkpoint.save_counter.initializer)


def _session(session: Any) -> Any:
    session = get_default_session() if session is None else session
    if session is None:
        raise ValueError(
            "A Checkpoint needs a session: pass session=..., or use it inside `with "
            "session.as_default():`."
        )
    return session
