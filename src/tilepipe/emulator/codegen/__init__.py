"""Parsed PTX to LLVM IR text."""
