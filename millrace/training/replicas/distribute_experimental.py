"""`tf.distribute.experimental`. Re-exports only."""

from millrace.training.replicas.strategy import MirroredStrategy as CentralStorageStrategy
from millrace.training.replicas.strategy import ParameterServerStrategy

__all__ = ["CentralStorageStrategy", "ParameterServerStrategy"]
