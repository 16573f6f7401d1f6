"""What programs take from TensorFlow's python.tf2: whether this is TensorFlow 2. It is not."""


def enabled() -> bool:
    """Whether TensorFlow 2's behaviour is on."""
    return False
