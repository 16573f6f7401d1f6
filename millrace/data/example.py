"""Example and SequenceExample: the messages that TFRecord files of training data hold.

Wire-compatible with TensorFlow's (tensorflow/core/example/*.proto).
"""

from typing import Any

from millrace.data.messages import declare

__all__ = [
    "BytesList",
    "Example",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FloatList",
    "Int64List",
    "SequenceExample",
]

_features = declare(
    "tensorflow/core/example/feature.proto",
    "tensorflow",
    {
        "BytesList": "repeated bytes value = 1",
        "FloatList": "repeated float value = 1",
        "Int64List": "repeated int64 value = 1",
        "Feature": """
            BytesList bytes_list = 1 oneof kind
            FloatList float_list = 2 oneof kind
            Int64List int64_list = 3 oneof kind
        """,
        "Features": "map<string, Feature> feature = 1",
        "FeatureList": "repeated Feature feature = 1",
        "FeatureLists": "map<string, FeatureList> feature_list = 1",
    },
)
_examples = declare(
    "tensorflow/core/example/example.proto",
    "tensorflow",
    {
        "Example": "Features features = 1",
        "SequenceExample": """
            Features context = 1
            FeatureLists feature_lists = 2
        """,
    },
)

BytesList: Any = _features["BytesList"]
FloatList: Any = _features["FloatList"]
Int64List: Any = _features["Int64List"]
Feature: Any = _features["Feature"]
Features: Any = _features["Features"]
FeatureList: Any = _features["FeatureList"]
FeatureLists: Any = _features["FeatureLists"]
Example: Any = _examples["Example"]
SequenceExample: Any = _examples["SequenceExample"]
