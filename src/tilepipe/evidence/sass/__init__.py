"""The SASS audit: pure functions over the text of `nvdisasm -c -hex`."""

from tilepipe.evidence.sass.audit import Expectation, audit, diagnostics
from tilepipe.evidence.sass.decode import Control, Function, Instruction, decode

__all__ = ["Control", "Expectation", "Function", "Instruction", "audit", "decode", "diagnostics"]
