"""Lint of pipelines that exist: mistakes in hand-written asynchronous copies and double buffers."""

from tilepipe.lint.engine import LintOptions, Report, fix, lint
from tilepipe.lint.finding import Finding, Fix

__all__ = ["Finding", "Fix", "LintOptions", "Report", "fix", "lint"]
