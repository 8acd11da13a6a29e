"""The SASS audit: pure functions over the text of `nvdisasm -c -hex`."""

from tilepipe.evidence.sass.alone import audit_alone
from tilepipe.evidence.sass.audit import audit, diagnostics
from tilepipe.evidence.sass.decode import Control, Function, Instruction, decode
from tilepipe.evidence.sass.judge import Expectation

__all__ = [
    "Control",
    "Expectation",
    "Function",
    "Instruction",
    "audit",
    "audit_alone",
    "decode",
    "diagnostics",
]
