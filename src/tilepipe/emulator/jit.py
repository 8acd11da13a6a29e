"""LLVM IR to machine code for the host. The runtime is compiled once per process, kernels one by one."""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from pathlib import Path
from typing import Any

import llvmlite.binding

from tilepipe.emulator import layout

_IR = Path(__file__).parent / "runtime" / "runtime.ll"
_lock = threading.Lock()
llvm: Any = llvmlite.binding  # has no types
_EXPORTED = re.compile(r"^define (?!internal).*@(tp_\w+)\(", re.M)


class Runtime:
    """The compiled runtime: `run` and `release` are its entry points."""

    def __init__(self) -> None:
        ir = _IR.read_text()
        self.engine = compile_module(ir, optimise=False)  # clang has done that
        sizes = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint32)(self.address("tp_sizeof"))
        for n, structure in enumerate(layout.STRUCTURES):
            assert sizes(n) == ctypes.sizeof(structure), structure.__name__
        for name in _EXPORTED.findall(ir):  # kernels call these by name
            llvm.add_symbol(name, self.address(name))
        run = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64)
        self.run = run(self.address("tp_run"))
        self.release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.address("tp_release"))

    def address(self, name: str) -> int:
        return int(self.engine.get_function_address(name))


@functools.cache
def _target() -> tuple[Any, str, str]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def is_built() -> bool:
    """Whether the package has its runtime: the build hook compiles it."""
    return _IR.exists()


def missing_features() -> str:
    """What the host processor lacks for exact and fast arithmetic, or "" if nothing."""
    features = llvm.get_host_cpu_features()
    if "x86_64" not in llvm.get_process_triple():
        return ""
    return ", ".join(name for name in ("fma", "f16c", "avx2") if not features.get(name, False))


def compile_module(ir: str, optimise: bool = True, brief: bool = False) -> Any:
    """Compiles IR text for the host; the execution engine owns the code. Thread-safe.

    LLVM's first level does for kernels: NVRTC has optimised the PTX, and the time to compile counts. `brief`: none at
    all, for code that runs for less time than it takes to optimise it.
    """
    with _lock:
        target, cpu, features = _target()
        level = 0 if brief else 1 if optimise else 2
        machine = target.create_target_machine(cpu=cpu, features=features, opt=level)
        module = llvm.parse_assembly(ir)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        module.verify()
        if optimise and not brief:
            options = llvm.create_pipeline_tuning_options(speed_level=1)
            builder = llvm.create_pass_builder(machine, options)
            builder.getModulePassManager().run(module, builder)
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        return engine


@functools.cache
def runtime() -> Runtime:
    """The runtime, compiled on first use."""
    return Runtime()
