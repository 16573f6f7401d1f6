"""The SavedModel message, and where its files are in the folder of a model."""

from __future__ import annotations

from typing import Any

from google.protobuf import message, text_format

from millrace.core.config import MetaGraphDef
from millrace.data.messages import declare
from millrace.platform import gfile
from millrace.saved_model import constants

_descriptor = MetaGraphDef.DESCRIPTOR
#: As TensorFlow's: a schema version, and MetaGraphDefs that have different tags.
SavedModel: Any = declare(
    "tensorflow/core/protobuf/saved_model.proto",
    _descriptor.file.package,
    {
        "SavedModel": f"""
            int64 saved_model_schema_version = 1
            repeated {_descriptor.full_name} meta_graphs = 2
        """
    },
    pool=_descriptor.file.pool,
)["SavedModel"]


def variables_path(export_dir: str) -> str:
    """The name of the checkpoint with a model's variables."""
    return gfile.join(export_dir, constants.VARIABLES_DIRECTORY, constants.VARIABLES_FILENAME)


def assets_path(export_dir: str) -> str:
    """The folder with the files that a model needs."""
    return gfile.join(export_dir, constants.ASSETS_DIRECTORY)


def parse_saved_model(export_dir: str) -> Any:
    """Reads the SavedModel in a folder.

    Raises:
      OSError: There is none, or it cannot be read.
    """
    binary = gfile.join(export_dir, constants.SAVED_MODEL_FILENAME_PB)
    text = gfile.join(export_dir, constants.SAVED_MODEL_FILENAME_PBTXT)
    name = binary if gfile.exists(binary) else text
    if not gfile.exists(name):
        raise OSError(
            f"SavedModel file does not exist at: {export_dir}/"
            f"{{{constants.SAVED_MODEL_FILENAME_PBTXT}|{constants.SAVED_MODEL_FILENAME_PB}}}"
        )
    with gfile.GFile(name, "rb") as file:
        content = file.read()
    model = SavedModel()
    try:
        if name == binary:
            model.ParseFromString(content)
        else:
            text_format.Parse(content.decode(), model)
    except (message.DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise OSError(f"Cannot parse file {name}: {error}.") from error
    return model


def maybe_saved_model_directory(export_dir: str) -> bool:
    """Whether a folder has a SavedModel in it."""
    return any(
        gfile.exists(gfile.join(export_dir, name))
        for name in (constants.SAVED_MODEL_FILENAME_PB, constants.SAVED_MODEL_FILENAME_PBTXT)
    )
