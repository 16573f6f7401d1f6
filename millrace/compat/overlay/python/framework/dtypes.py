"""What programs take from TensorFlow's python.framework.dtypes that has no public name."""

from millrace.core.dtypes import (
    bfloat16_ref,
    bool_ref,
    complex64_ref,
    complex128_ref,
    double_ref,
    float16_ref,
    float32_ref,
    float64_ref,
    half_ref,
    int8_ref,
    int16_ref,
    int32_ref,
    int64_ref,
    resource_ref,
    string_ref,
    uint8_ref,
    uint16_ref,
    uint32_ref,
    uint64_ref,
    variant_ref,
)
