"""What programs take from TensorFlow's contrib.tensorboard.plugins.projector."""

from typing import Any

from google.protobuf import text_format
from tensorboard.plugins.projector.projector_config_pb2 import (
    EmbeddingInfo,
    ProjectorConfig,
    SpriteMetadata,
)

from millrace.platform import gfile

#: The file in a log directory that TensorBoard's projector reads.
PROJECTOR_FILENAME = "projector_config.pbtxt"


def visualize_embeddings(summary_writer: Any, config: Any) -> None:
    """Writes the configuration of TensorBoard's projector beside a writer's events.

    Args:
      summary_writer: The writer, or its log directory.
      config: A ProjectorConfig.

    Raises:
      ValueError: The writer has no log directory.
    """
    folder = summary_writer if isinstance(summary_writer, str) else summary_writer.get_logdir()
    if not folder:
        raise ValueError("Summary writer must have a logdir")
    with gfile.GFile(gfile.join(folder, PROJECTOR_FILENAME), "w") as file:
        file.write(text_format.MessageToString(config))
