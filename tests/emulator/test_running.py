"""Running grids: many blocks on several workers, interrupts, sharing between threads."""

from __future__ import annotations

import _thread
import threading
import time

import numpy as np
import pytest
from snippets import HEADER, program

from tilepipe.emulator import Buffer, Execution

SLOW = f"""{HEADER}
.visible .entry k(.param .u64 p)
{{
.reg .b64 %a, %b; .reg .b32 %n, %x; .reg .pred %p;
ld.param.u64 %a, [p];
mov.u32 %x, %ctaid.x; mul.wide.u32 %b, %x, 4; add.s64 %a, %a, %b;
mov.u32 %n, 0;
LOOP:
xor.b32 %x, %x, %n; add.u32 %n, %n, 1;
setp.lt.u32 %p, %n, 100000;
@%p bra LOOP;
st.global.u32 [%a], %x;
ret;
}}
"""


def test_interrupt_stops_a_long_run() -> None:
    loaded = program(SLOW)
    out = np.zeros(1_000_000, np.uint32)
    loaded.compile("checked")
    timer = threading.Timer(0.3, _thread.interrupt_main)
    start = time.perf_counter()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        loaded.run((1_000_000, 1, 1), (32, 1, 1), 0, [Buffer(out)])
    assert time.perf_counter() - start < 5


def test_one_program_serves_several_threads() -> None:
    loaded = program(SLOW)
    results: list[bytes] = []

    def work() -> None:
        out = np.zeros(20, np.uint32)
        done = loaded.run((20, 1, 1), (1, 1, 1), 0, [Buffer(out)])
        assert isinstance(done, Execution)
        assert done.blocks_run == 20
        results.append(out.tobytes())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 3
    assert len(set(results)) == 1


def test_inputs_are_copied_back_unchanged() -> None:
    """Arrays the kernel does not write keep their contents, whatever their alignment on the host."""
    room = np.zeros(4 * 33 + 1, np.uint8)
    view = room[1:].view(np.uint32)[:32]
    view[:] = np.arange(32)
    program(SLOW.replace("100000", "1")).run((1, 1, 1), (1, 1, 1), 0, [Buffer(view)])
    assert view.tolist() == list(range(32))


def test_endless_loop_ends_the_whole_run() -> None:
    loaded = program(SLOW.replace("setp.lt.u32 %p, %n, 100000;", "setp.ne.u32 %p, %n, %n; @!%p bra LOOP;"))
    out = np.zeros(5000, np.uint32)
    done = loaded.run((5000, 1, 1), (1, 1, 1), 0, [Buffer(out)], max_steps=3_000_000)
    assert isinstance(done, Execution)
    assert [f.kind for f in done.findings] == ["non-terminating"]
    assert done.blocks_run < 100
