"""Number literals of PTX."""

from __future__ import annotations

import struct

from tilepipe.emulator.ptx.lexer import Token
from tilepipe.emulator.ptx.model import Imm, Unsupported
from tilepipe.emulator.types import ScalarType


def literal(token: Token) -> Imm:
    """The value of an integer literal, or the bits of a float literal; raises `Unsupported` otherwise."""
    text = token.text
    if token.kind == "float":
        if text[:2] in ("0f", "0F"):
            return Imm(int(text[2:], 16), 32)
        if text[:2] in ("0d", "0D"):
            return Imm(int(text[2:], 16), 64)
        return Imm(int(struct.unpack("<Q", struct.pack("<d", float(text)))[0]), 64)
    if token.kind != "int":
        raise Unsupported(f"{text!r} where a number is expected", token.line)
    text = text.rstrip("U")
    if text[:2] in ("0x", "0X", "0b", "0B"):
        return Imm(int(text, 0))
    return Imm(int(text, 8) if text.startswith("0") and text != "0" else int(text))


def pack_literal(token: Token, element: ScalarType, negative: bool) -> bytes:
    """An initialiser as little-endian bytes of the element type."""
    parsed = literal(token)
    value = parsed.value
    if parsed.float_bits and parsed.float_bits != element.bits:
        raise Unsupported("a float initialiser of another width", token.line)
    if negative:
        value = value ^ 1 << (parsed.float_bits - 1) if parsed.float_bits else -value
    return (value & ((1 << element.bits) - 1)).to_bytes(element.bytes, "little")
