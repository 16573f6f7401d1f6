"""`DataProvider`: tensors of one example, by item."""

from __future__ import annotations

from typing import Any


class DataProvider:
    """Gives tensors by the name of an item."""

    def __init__(
        self,
        items_to_tensors: dict[str, Any],
        num_samples: int,
        items_to_descriptions: dict[str, str] | None = None,
    ) -> None:
        self._items_to_tensors = items_to_tensors
        self._num_samples = num_samples
        self._items_to_descriptions = items_to_descriptions

    def get(self, items: Any) -> list[Any]:
        """The tensors of items.

        Raises:
          ValueError: An item is not there.
        """
        self._check(items)
        return [self._items_to_tensors[item] for item in items]

    def _check(self, items: Any) -> None:
        available = self.list_items()
        for item in items:
            if item not in available:
                raise ValueError(f"Item [{item}] is invalid. Valid entries include: {available}")

    def list_items(self) -> list[str]:
        """The items that it gives."""
        return list(self._items_to_tensors)

    def num_samples(self) -> int:
        """How many examples there are."""
        return self._num_samples
