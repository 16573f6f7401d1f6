"""What programs take from TensorFlow's python.tools.optimize_for_inference_lib."""

from typing import Any

from millrace.graph_util import extract_sub_graph, remove_training_nodes


def optimize_for_inference(
    input_graph_def: Any,
    input_node_names: Any,
    output_node_names: Any,
    placeholder_type_enum: Any = None,
    toco_compatible: bool = False,
) -> Any:
    """What the outputs need, without nodes for training; plans fold the rest."""
    needed = extract_sub_graph(input_graph_def, list(output_node_names))
    kept = [*input_node_names, *output_node_names]
    return remove_training_nodes(needed, protected_nodes=kept)
