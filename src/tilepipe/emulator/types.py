"""PTX scalar types."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ScalarType:
    """A PTX type: its name without the dot, its class and its width in bits.

    `kind` is "b" untyped bits, "u" unsigned, "s" signed, "f" float; predicates are one bit wide. The packed
    types (f16x2, bf16x2) are bits with a meaning that the instruction gives them.
    """

    name: str
    kind: str
    bits: int

    @property
    def bytes(self) -> int:
        return max(self.bits // 8, 1)

    @property
    def llvm_int(self) -> str:
        return f"i{self.bits}"

    @property
    def llvm(self) -> str:
        """The LLVM type that arithmetic uses; 16-bit floats travel as i16 and are widened to compute."""
        return {"f32": "float", "f64": "double"}.get(self.name, self.llvm_int)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_signed(self) -> bool:
        return self.kind == "s"


TYPES = {
    **{f"{k}{n}": ScalarType(f"{k}{n}", k, n) for k in "bus" for n in (8, 16, 32, 64)},
    **{f"f{n}": ScalarType(f"f{n}", "f", n) for n in (16, 32, 64)},
    "bf16": ScalarType("bf16", "f", 16),
    "tf32": ScalarType("tf32", "b", 32),
    "f16x2": ScalarType("f16x2", "b", 32),
    "bf16x2": ScalarType("bf16x2", "b", 32),
    "b128": ScalarType("b128", "b", 128),
    "pred": ScalarType("pred", "b", 1),
}
