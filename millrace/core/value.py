"""The values that travel between ops, stages and tasks."""

from __future__ import annotations

from typing import Any, TypeAlias

#: An array of NumPy or JAX, a TensorArray's contents, the identity of a variable (`VariableRef`),
#: what is written once its memory is known (`Written`), or DEAD. No common class describes them.
Value: TypeAlias = Any
#: The value of an attribute of a node: a number, text, a type, a shape, a tensor, a function, or a
#: list of them.
Attr: TypeAlias = Any
#: Bytes in memory that can be looked at without a copy: a memoryview, bytes, an array of bytes.
Buffer: TypeAlias = Any
#: The context of the step that runs a host kernel (`runtime.step.Step`), for layers below it.
Context: TypeAlias = Any
#: A jaxpr of JAX, or a part of one: its classes are private.
Jaxpr: TypeAlias = Any
#: The gradient of an op type: a function of the op and the gradients of its outputs, or None.
GradientRule: TypeAlias = Any
#: A value of JSON.
JsonValue: TypeAlias = Any
#: An object of JSON: what it has under which name, its documents say.
JsonObject: TypeAlias = dict[str, Any]
