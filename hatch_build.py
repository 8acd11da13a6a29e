"""Build hook: compiles the emulator's runtime to LLVM IR, which the wheel ships and git ignores."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class RuntimeHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs before a wheel or an editable install is assembled."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        script = Path(self.root) / "src" / "tilepipe" / "emulator" / "build_runtime.py"
        runpy.run_path(str(script))["build"]()
