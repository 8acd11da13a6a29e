"""Build hook: compiles the emulator's C runtime to LLVM IR text with zig's clang (a pip-installable compiler)."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class RuntimeHook(BuildHookInterface):
    """Placeholder of the emulator's runtime build; filled by the emulator room."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        del version, build_data
