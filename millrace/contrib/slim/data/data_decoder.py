"""`DataDecoder`: what turns stored bytes into tensors."""

from __future__ import annotations

import abc
from typing import Any


class DataDecoder(abc.ABC):
    """Decodes the items that are asked for."""

    @abc.abstractmethod
    def decode(self, data: Any, items: Any) -> list[Any]:
        """The tensors of `items`, from one stored example."""

    @abc.abstractmethod
    def list_items(self) -> list[str]:
        """The items that it can decode."""
