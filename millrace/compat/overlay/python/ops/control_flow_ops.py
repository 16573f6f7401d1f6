"""What programs take from TensorFlow's python.ops.control_flow_ops that has no public name."""

from typing import Any

from millrace.compat import generated_ops
from millrace.graph.convert import convert_to_tensor
from millrace.ops.control_flow.control_flow import with_dependencies

_GENERATED = "python.ops.gen_control_flow_ops"


def switch(data: Any, pred: Any, dtype: Any = None, name: str | None = None) -> Any:
    """`data` on the second output if `pred` holds, else on the first; the other one is dead."""
    data = convert_to_tensor(data, dtype=dtype, name="data")
    is_reference = data.dtype._is_ref_dtype
    function = "ref_switch" if is_reference else "switch"
    return generated_ops.generated_function(_GENERATED, function)(data, pred, name=name)


def merge(inputs: Any, name: str | None = None) -> Any:
    """The one of `inputs` that is alive, and its index."""
    if any(each is None for each in inputs):
        raise ValueError(f"At least one of the merge inputs is None: {inputs}")
    tensors = [convert_to_tensor(each) for each in inputs]
    is_reference = all(each.dtype._is_ref_dtype for each in tensors)
    function = "ref_merge" if is_reference else "merge"
    return generated_ops.generated_function(_GENERATED, function)(tensors, name=name)
