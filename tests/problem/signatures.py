"""Kernel signatures read off the zoo's sources by a regular expression: enough for these tests, no parser."""

from __future__ import annotations

import re

from tilepipe.problem import Parameter


def signature(source: str, kernel: str) -> list[Parameter]:
    source = re.sub(r"//[^\n]*", "", source)
    match = re.search(rf"__global__[^;{{]*?\b{kernel}\s*\(([^)]*)\)", source)
    assert match, kernel
    parameters = []
    for text in match[1].split(","):
        words = re.sub(r"__restrict__|\*", lambda m: " * " if m[0] == "*" else " ", text).split()
        name, kind = words[-1], " ".join(words[:-1])
        pointee = kind.replace("const", "").replace("*", "").strip() if "*" in kind else None
        parameters.append(Parameter(name, kind, pointee))
    return parameters
