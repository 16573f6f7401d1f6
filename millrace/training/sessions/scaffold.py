"""Scaffold: the operations that a training session needs besides the model.

What is not given is looked for in the graph's collections, and made when it is not there. Nothing
is made before `finalize`, so that hooks may still add to the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from millrace.graph.defaults import add_to_collection, get_collection, get_default_graph, name_scope
from millrace.graph.keys import GraphKeys
from millrace.ops.array import constant
from millrace.ops.array import join as array_join
from millrace.ops.array import select as array_select
from millrace.ops.control_flow import control_flow
from millrace.ops.lookup import tables as lookup
from millrace.ops.math import comparison
from millrace.ops.state import variables
from millrace.platform import logging
from millrace.summary import builders
from millrace.training.checkpoint.checkpoint import Checkpoint
from millrace.training.checkpoint.saver import Saver


class Scaffold:
    """Gathers init, ready and summary operations and the Saver of a graph."""

    def __init__(
        self,
        init_op: Any = None,
        init_feed_dict: Any = None,
        init_fn: Callable[[Scaffold, Any], Any] | None = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        local_init_op: Any = None,
        summary_op: Any = None,
        saver: Any = None,
        copy_from_scaffold: Scaffold | None = None,
        local_init_feed_dict: Any = None,
    ) -> None:
        """Makes a scaffold; everything has a default.

        Args:
          init_op: Initialises the model.
          init_feed_dict: Feeds for `init_op`.
          init_fn: Called with the scaffold and the session after `init_op`.
          ready_op: Gives the names of variables without a value.
          ready_for_local_init_op: Gives the names of global variables without a value.
          local_init_op: Initialises local variables and tables.
          summary_op: Gives all summaries as one.
          saver: The Saver, or a Checkpoint that is to be saved by it.
          copy_from_scaffold: Has what is not given here.
          local_init_feed_dict: Feeds for `local_init_op`.

        Raises:
          TypeError: `copy_from_scaffold` is no Scaffold.
        """
        given = {
            "init_op": init_op,
            "init_feed_dict": init_feed_dict,
            "user_init_fn": init_fn,
            "ready_op": ready_op,
            "ready_for_local_init_op": ready_for_local_init_op,
            "local_init_op": local_init_op,
            "local_init_feed_dict": local_init_feed_dict,
            "summary_op": summary_op,
            "saver": saver,
        }
        if copy_from_scaffold is not None:
            if not isinstance(copy_from_scaffold, Scaffold):
                raise TypeError("copy_from_scaffold is not a Scaffold instance.")
            for name, value in given.items():
                if value is None:
                    given[name] = getattr(copy_from_scaffold, f"_{name}")
        self._init_op = given["init_op"]
        self._init_feed_dict = given["init_feed_dict"]
        self._user_init_fn: Any = given["user_init_fn"]
        self._ready_op = given["ready_op"]
        self._ready_for_local_init_op = given["ready_for_local_init_op"]
        self._local_init_op = given["local_init_op"]
        self._local_init_feed_dict = given["local_init_feed_dict"]
        self._summary_op = given["summary_op"]
        self._saver = given["saver"]

    def finalize(self) -> Scaffold:
        """Makes what is missing, and finalizes the default graph."""
        parts = (
            ("init_op", GraphKeys.INIT_OP, _default_init_op),
            ("ready_op", GraphKeys.READY_OP, _default_ready_op),
            (
                "ready_for_local_init_op",
                GraphKeys.READY_FOR_LOCAL_INIT_OP,
                _default_ready_for_local_init_op,
            ),
            ("local_init_op", GraphKeys.LOCAL_INIT_OP, Scaffold.default_local_init_op),
            ("summary_op", GraphKeys.SUMMARY_OP, builders.merge_all),
        )
        for name, collection, make in parts:
            if getattr(self, f"_{name}") is None:
                setattr(self, f"_{name}", Scaffold.get_or_default(name, collection, make))
        if self._saver is None:
            self._saver = Scaffold.get_or_default("saver", GraphKeys.SAVERS, _default_saver)
        if isinstance(self._saver, Checkpoint):
            self._saver = self._saver.as_saver()
        self._saver.build()
        get_default_graph().finalize()
        logging.info("Graph was finalized.")
        return self

    @property
    def init_op(self) -> Any:
        """Initialises the model."""
        return self._init_op

    @property
    def init_feed_dict(self) -> Any:
        """Feeds for `init_op`."""
        return self._init_feed_dict

    @property
    def init_fn(self) -> Callable[[Any], Any] | None:
        """Takes the session after `init_op`; None if none was given."""
        function = self._user_init_fn
        if not function:
            return None
        return lambda sess: function(self, sess)

    @property
    def ready_op(self) -> Any:
        """Gives the names of variables without a value."""
        return self._ready_op

    @property
    def ready_for_local_init_op(self) -> Any:
        """Gives the names of global variables without a value."""
        return self._ready_for_local_init_op

    @property
    def local_init_op(self) -> Any:
        """Initialises local variables and tables."""
        return self._local_init_op

    @property
    def local_init_feed_dict(self) -> Any:
        """Feeds for `local_init_op`."""
        return self._local_init_feed_dict

    @property
    def summary_op(self) -> Any:
        """Gives all summaries as one; None if there are none."""
        return self._summary_op

    @property
    def saver(self) -> Any:
        """The Saver."""
        return self._saver

    @staticmethod
    def get_or_default(
        arg_name: str, collection_key: str, default_constructor: Callable[[], Any]
    ) -> Any:
        """The one element of a collection, made and added when there is none.

        Raises:
          RuntimeError: There are several.
        """
        found = get_collection(collection_key)
        if len(found) > 1:
            raise RuntimeError(
                f'More than one item in the collection "{collection_key}" ({len(found)}). Please '
                "indicate which one to use by passing it to the tf.train.Scaffold constructor as: "
                f"tf.train.Scaffold({arg_name}=item to use)"
            )
        if found:
            return found[0]
        made = default_constructor()
        if made is not None:
            add_to_collection(collection_key, made)
        return made

    @staticmethod
    def default_local_init_op() -> Any:
        """Initialises local variables, tables, and resources of one process."""
        return control_flow.group(
            variables.local_variables_initializer(),
            lookup.tables_initializer(),
            _resources_initializer(get_collection(GraphKeys.LOCAL_RESOURCES)),
        )


def _default_init_op() -> Any:
    return control_flow.group(
        variables.global_variables_initializer(),
        _resources_initializer(get_collection(GraphKeys.RESOURCES)),
        get_collection("saved_model_initializers"),
    )


def _default_ready_op() -> Any:
    resources = [
        *get_collection(GraphKeys.RESOURCES),
        *get_collection(GraphKeys.LOCAL_RESOURCES),
    ]
    return array_join.concat(
        [variables.report_uninitialized_variables(), _report_uninitialized_resources(resources)], 0
    )


def _default_ready_for_local_init_op() -> Any:
    return array_join.concat(
        [
            variables.report_uninitialized_variables(variables.global_variables()),
            _report_uninitialized_resources(get_collection(GraphKeys.RESOURCES)),
        ],
        0,
    )


def _default_saver() -> Any:
    return Saver(sharded=True, allow_empty=True)


# Resources that are neither variables nor tables register themselves in collections, as tuples
# (handle, operation that creates it, tensor that says whether it is initialised).


def _resources_initializer(resources: list[Any]) -> Any:
    if not resources:
        return control_flow.no_op(name="init")
    return control_flow.group(*[resource.create for resource in resources], name="init")


def _report_uninitialized_resources(resources: list[Any]) -> Any:
    with name_scope("report_uninitialized_resources"):
        if not resources:
            return constant.constant([], dtype="string")
        known = array_join.stack([resource.is_initialized for resource in resources])
        names = constant.constant([resource.handle.name for resource in resources])
        return array_select.boolean_mask(names, comparison.logical_not(known))
