"""`Dataset`: where a data set is, how to read it, and how many examples it has."""

from __future__ import annotations

from typing import Any


class Dataset:
    """A description that data providers read from.

    Attributes:
      data_sources: Files, or patterns of them.
      reader: The class of the reader.
      decoder: A `DataDecoder`.
      num_samples: How many examples there are.
      items_to_descriptions: A text for each item.
    """

    def __init__(
        self,
        data_sources: Any,
        reader: Any,
        decoder: Any,
        num_samples: int,
        items_to_descriptions: dict[str, str],
        **kwargs: Any,
    ) -> None:
        self.data_sources = data_sources
        self.reader = reader
        self.decoder = decoder
        self.num_samples = num_samples
        self.items_to_descriptions = items_to_descriptions
        self.__dict__.update(kwargs)
