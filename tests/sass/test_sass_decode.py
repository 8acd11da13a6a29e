"""From text to instructions, and which registers they touch."""

from __future__ import annotations

import pytest
from sass_listings import assemble, forms

from tilepipe.evidence.sass.decode import Instruction, decode
from tilepipe.evidence.sass.registers import access_bytes, reads, store_data, writes


def one(text: str) -> Instruction:
    return assemble(text).instructions[0]


def registers(names: str) -> frozenset[str]:
    return frozenset(names.split())


def test_parts_of_an_instruction() -> None:
    function = assemble(
        ".L_x_0:",
        "@!P0 LDGSTS.E.BYPASS.128 [R3+0xc00], desc[UR8][R12.64], P1 | r1 b05 s4",
        "BRA.U !UP0, `(.L_x_0)",
    )
    copy, branch = function.instructions
    assert (copy.address, copy.opcode, copy.modifiers) == (0, "LDGSTS", ("E", "BYPASS", "128"))
    assert (copy.guard, copy.operands) == ("!P0", ("[R3+0xc00]", "desc[UR8][R12.64]", "P1"))
    assert (copy.control.stall, copy.control.read_barrier, copy.control.write_barrier) == (4, 1, None)
    assert [b for b in range(6) if copy.control.waits_for(b)] == [0, 5]
    assert not copy.control.waits_for(None)
    assert (branch.address, branch.targets, branch.guard) == (16, (0,), None)
    assert function.labels[".L_x_0"] == 0


def test_branch_tables_name_all_their_targets() -> None:
    function = assemble(
        'BRX R2 -0x100 (*"BRANCH_TARGETS .L_1,.L_2"*)', ".L_1:", "NOP", ".L_2:", "EXIT"
    )  # fmt: skip
    assert function.instructions[0].targets == (16, 32)


def test_never_running_padding_and_barriers() -> None:
    assert one("@!PT LDS RZ, [RZ]").never_runs
    assert not one("@!P0 LDS R4, [R3]").never_runs
    assert one("BAR.SYNC.DEFER_BLOCKING 0x0").is_barrier
    assert one("BAR.RED.POPC.DEFER_BLOCKING 0x0, P0").is_barrier
    assert not one("BAR.ARV 0x1, 0x40").is_barrier
    assert not one("DEPBAR.LE SB0, 0x1").is_barrier


def test_listings_hold_every_function_and_only_the_wanted_one() -> None:
    text = forms("sm_90")
    functions = decode(text)
    assert {"original", "ring2", "textbook", "unrolled"} <= set(functions)
    assert all(f.instructions for f in functions.values())
    for function in functions.values():
        addresses = [i.address for i in function.instructions]
        assert addresses == list(range(0, 16 * len(addresses), 16))
    only = decode(text, "ring2")
    assert list(only) == ["ring2"]
    assert [i.text for i in only["ring2"].instructions] == [i.text for i in functions["ring2"].instructions]
    assert decode(text, "absent") == {}


@pytest.mark.parametrize(
    ("text", "written", "read"),
    [
        ("FFMA R4, R8.reuse, -R9, R4", "R4", "R8 R9 R4"),
        ("LDG.E.128.CONSTANT R8, desc[UR6][R24.64]", "R8 R9 R10 R11", "UR6 R24 R25"),
        ("LDG.E.64 R24, [R20.64+0x80]", "R24 R25", "R20 R21"),
        ("LDG.E.U8.CONSTANT R9, desc[UR10][R8.64]", "R9", "UR10 R8 R9"),
        ("LDG.E.ENL2.256 R8, R16, desc[UR4][R2.64]", "R8 R9 R10 R11 R16 R17 R18 R19", "UR4 R2 R3"),
        ("LDS.U8 R38, [R27+UR9+-0x40]", "R38", "R27 UR9"),
        ("LDSM.16.M88.4 R40, [R3]", "R40 R41 R42 R43", "R3"),
        ("LDC.64 R14, c[0x0][0x218]", "R14 R15", ""),
        ("ULDC.64 UR10, c[0x0][0x208]", "UR10 UR11", ""),
        ("STS.128 [R18+UR6+0x240], R12", "", "R18 UR6 R12 R13 R14 R15"),
        ("STS [R18], R12", "", "R18 R12"),
        ("@!P2 STG.E.64 desc[UR4][R2.64], R6", "", "P2 UR4 R2 R3 R6 R7"),
        ("LDGSTS.E.BYPASS.128 [R41], desc[UR14][R38.64], P3", "", "R41 UR14 R38 R39 P3"),
        ("HMMA.16816.F32 R28, R40, R48.reuse, R28", "R28 R29 R30 R31", "R40 R48 R28"),
        ("HMMA.16816.F16 R28, R40, R48, R28", "R28 R29", "R40 R48 R28"),
        ("IMMA.8816.S8.S8 R4, R8.ROW, R9.COL, R4", "R4 R5", "R8 R9 R4"),
        ("DMMA.884 R8, R2, R4, R8", "R8 R9 R10 R11", "R2 R4 R8"),
        ("DFMA R8, R2, R4, R8", "R8 R9", "R2 R3 R4 R5 R8 R9"),
        ("FFMA2 R8, R2.F32x2.HI_LO, R4.F32x2.HI_LO, R8.F32x2.HI_LO", "R8 R9", "R2 R3 R4 R5 R8 R9"),
        ("IMAD.WIDE R2, R15, UR4, R2", "R2 R3", "R15 UR4 R2"),
        ("IADD3 R5, P3, R49, UR11, RZ", "R5 P3", "R49 UR11"),
        ("IADD3.X R10, R2, UR7, RZ, P3, !PT", "R10", "R2 UR7 P3"),
        ("IADD.64 R8, R8, UR8", "R8 R9", "R8 UR8"),
        ("ISETP.GE.AND P0, PT, R2, 0x1, P1", "P0", "R2 P1"),
        ("UISETP.NE.AND UP0, UPT, UR5, 0x3, UPT", "UP0", "UR5"),
        ("LOP3.LUT P0, R4, R5, 0xff, RZ, 0xc0, !PT", "P0 R4", "R5"),
        ("SHFL.BFLY PT, R3, R2, 0x1, 0x1f", "R3", "R2"),
        ("SEL R4, R2, R3, P0", "R4", "R2 R3 P0"),
        ("CS2R R34, SRZ", "R34 R35", ""),
        ("CS2R.32 R34, SR_CLOCKLO", "R34", ""),
        ("R2UR UR4, R2", "UR4", "R2"),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "", ""),
        ("@P1 BRA `(.L_x_3)", "", "P1"),
        ("BRA.U !UP0, `(.L_x_3)", "", "UP0"),
    ],
)
def test_registers_written_and_read(text: str, written: str, read: str) -> None:
    assert writes(one(text)) == registers(written)
    assert reads(one(text)) == registers(read)


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("LDGSTS.E.BYPASS.128 [R3], [R4.64]", 16),
        ("LDGSTS.E.64 [R3], [R4.64]", 8),
        ("LDGSTS.E [R3], [R4.64]", 4),
        ("LDG.E.S8 R2, [R4.64]", 1),
        ("LDG.E.U16 R2, [R4.64]", 2),
    ],
)
def test_bytes_of_an_access(text: str, width: int) -> None:
    assert access_bytes(one(text)) == width


def test_the_data_of_a_store_are_not_its_address() -> None:
    assert store_data(one("STS.64 [R4+UR5], R6")) == registers("R6 R7")
    assert store_data(one("STS.U8 [R4], R6")) == registers("R6")
    assert store_data(one("LDS R6, [R4]")) == frozenset()


LINES = """
	.section	.text.k,"ax",@progbits
.text.k:
	//## File "/a/k.cu", line 18
        /*0000*/                   NOP ;   /* 0x0000000000007918 */
                                           /* 0x000fc00000000000 */
	//## File "/a/mma.hpp", line 91 inlined at "/a/k.cu", line 59
	//## File "/a/k.cu", line 59 inlined at "/a/k.cu", line 72
	//## File "/a/k.cu", line 72
        /*0010*/                   NOP ;   /* 0x0000000000007918 */
                                           /* 0x000fc00000000000 */
        /*0020*/                   EXIT ;  /* 0x000000000000794d */
                                           /* 0x000fea0003800000 */
"""


def test_source_lines_are_those_of_the_kernels_own_file() -> None:
    """Of a chain of inlined calls, the innermost place that is not in a header."""
    assert [i.line for i in decode(LINES)["k"].instructions] == [18, 59, 59]
    assert one("NOP").line is None
