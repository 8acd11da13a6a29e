"""Coded messages for users: what happened, where in their file, and what to do about it."""

from tilepipe.diagnostics.core import Diagnostic, Place, Refusal, Severity, error, refusal

__all__ = ["Diagnostic", "Place", "Refusal", "Severity", "error", "refusal"]
