"""What programs take from TensorFlow's contrib.tpu.python.tpu.tpu_function: there is one shard."""


class TpuContext:
    """How a step is split over TPU cores: it is not."""

    number_of_shards: int | None = None


_context = TpuContext()


def get_tpu_context() -> TpuContext:
    """The context."""
    return _context
