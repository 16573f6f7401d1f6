"""State by container, kind and name."""

from __future__ import annotations

import pytest

from millrace.core import errors
from millrace.core.resource_handle import DEFAULT_CONTAINER, ResourceHandle, handle_array
from millrace.runtime.resources import ResourceStore, VariableSlot


class Thing:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class OtherThing(Thing):
    pass


def test_a_resource_is_made_once_for_its_kind_container_and_name() -> None:
    store = ResourceStore()
    first = store.get_or_create(Thing, "", "a", Thing)
    assert store.get_or_create(Thing, "", "a", Thing) is first
    assert store.get_or_create(Thing, DEFAULT_CONTAINER, "a", Thing) is first
    assert store.get_or_create(Thing, "box", "a", Thing) is not first
    assert store.get_or_create(OtherThing, "", "a", OtherThing) is not first
    assert store.get(Thing, ResourceHandle("", "a")) is first


def test_a_resource_that_is_not_there_is_named() -> None:
    with pytest.raises(errors.NotFoundError, match="Resource box/a/Thing does not exist."):
        ResourceStore().get(Thing, ResourceHandle("box", "a"))


def test_clearing_drops_the_named_containers_and_closes_what_is_in_them() -> None:
    store = ResourceStore()
    kept = store.get_or_create(Thing, "box", "a", Thing)
    dropped = store.get_or_create(Thing, "", "a", Thing)
    slot = store.variable("", "v")
    slot.value = 3
    generation = store.generation
    store.clear()
    assert (kept.closed, dropped.closed) == (0, 1)
    assert slot.value is None, "a plan that holds the slot must not see the old value"
    assert store.variable("", "v") is not slot
    assert store.generation > generation
    store.clear(["box", "no such container"])
    assert kept.closed == 1


def test_clear_all_drops_every_container() -> None:
    store = ResourceStore()
    things = [store.get_or_create(Thing, c, "a", Thing) for c in ("", "x", "y")]
    store.clear_all()
    assert [thing.closed for thing in things] == [1, 1, 1]
    store.clear_all()


def test_one_resource_can_be_removed() -> None:
    store = ResourceStore()
    thing = store.get_or_create(Thing, "", "a", Thing)
    handle = ResourceHandle("", "a")
    assert store.remove(OtherThing, handle) is None
    assert store.remove(Thing, handle) is thing
    assert store.remove(Thing, handle) is None


def test_all_resources_of_a_kind_can_be_listed() -> None:
    store = ResourceStore()
    store.variable("", "v")
    store.variable("box", "w")
    store.get_or_create(Thing, "", "a", Thing)
    found = {(container, name) for container, name, _ in store.all_of(VariableSlot)}
    assert found == {(DEFAULT_CONTAINER, "v"), ("box", "w")}


def test_locks_have_an_order_of_their_own() -> None:
    store = ResourceStore()
    serials = [store.variable("", name).serial for name in "abc"]
    assert serials == sorted(set(serials))


def test_handles_are_equal_when_they_name_the_same() -> None:
    assert ResourceHandle("", "a") == ResourceHandle(DEFAULT_CONTAINER, "a")
    assert ResourceHandle("", "a") != ResourceHandle("box", "a")
    assert len({ResourceHandle("", "a"), ResourceHandle("", "a")}) == 1
    array = handle_array(ResourceHandle("", "a"))
    assert array.shape == () and array.item() == ResourceHandle("", "a")
