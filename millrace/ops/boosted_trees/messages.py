"""The messages in which an ensemble of trees is saved, as TensorFlow's checkpoints hold them."""

from millrace.data.messages import declare

_classes = declare(
    "tensorflow/core/kernels/boosted_trees/boosted_trees.proto",
    "tensorflow.boosted_trees",
    {
        "Leaf": "float scalar = 3",
        "BucketizedSplit": """
            int32 feature_id = 1
            int32 threshold = 2
            int32 left_id = 3
            int32 right_id = 4
            """,
        "NodeMetadata": """
            float gain = 1
            Leaf original_leaf = 2
            """,
        "Node": """
            Leaf leaf = 1 oneof node
            BucketizedSplit bucketized_split = 2 oneof node
            NodeMetadata metadata = 777
            """,
        "Tree": "repeated Node nodes = 1",
        "TreeMetadata": """
            int32 num_layers_grown = 2
            bool is_finalized = 3
            """,
        "GrowingMetadata": """
            int64 num_trees_attempted = 1
            int64 num_layers_attempted = 2
            int32 last_layer_node_start = 3
            int32 last_layer_node_end = 4
            """,
        "TreeEnsemble": """
            repeated Tree trees = 1
            repeated float tree_weights = 2
            repeated TreeMetadata tree_metadata = 3
            GrowingMetadata growing_metadata = 4
            """,
    },
)
TreeEnsemble = _classes["TreeEnsemble"]
