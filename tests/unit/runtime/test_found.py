"""What a stage has found is kept until it may be another."""

from __future__ import annotations

from millrace.runtime.found import Found, in_lock_order
from millrace.runtime.resources import ResourceStore, VariableSlot


def test_something_is_looked_up_once_for_each_owner_and_again_when_containers_were_cleared():
    resources, found = ResourceStore(), Found()
    looked: list[str] = []

    def find(name: str) -> str:
        looked.append(name)
        return name

    one, other = object(), object()
    for _ in range(2):
        assert found.get(one, resources, lambda: find("one")) == "one"
    assert found.get(other, resources, lambda: find("other")) == "other"
    resources.clear()
    assert found.get(other, resources, lambda: find("again")) == "again"
    assert looked == ["one", "other", "again"]


def test_what_could_not_be_found_is_looked_for_again():
    resources, found = ResourceStore(), Found()

    def fail() -> str:
        raise KeyError("not there")

    for _ in range(2):
        try:
            found.get(resources, resources, fail)
        except KeyError:
            continue
        raise AssertionError("found what is not there")
    assert found.get(resources, resources, lambda: "there") == "there"


def test_locks_are_taken_in_one_order_and_each_once():
    first, second = VariableSlot("first"), VariableSlot("second")
    assert in_lock_order([second, first, second]) == [first, second]
