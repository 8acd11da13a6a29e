"""Bytes of the types of the language and of CUDA."""

SIZES = {
    "char": 1, "signed char": 1, "unsigned char": 1, "int8_t": 1, "uint8_t": 1, "char4": 4, "uchar4": 4,
    "half": 2, "__half": 2, "__nv_bfloat16": 2, "short": 2, "half2": 4, "__half2": 4, "__nv_bfloat162": 4,
    "float": 4, "int": 4, "unsigned": 4, "unsigned int": 4, "float2": 8, "int2": 8, "uint2": 8, "double": 8,
    "float4": 16, "int4": 16, "uint4": 16, "double2": 16,
}  # fmt: skip
