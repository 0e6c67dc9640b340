import platform
import subprocess
import sys
from textwrap import dedent

import pytest

_PAGES_OF_ONE = 8 * 1024 * 1024 // 4096


def _faults(first: str) -> int:
    """Page faults of making five buffers of 8 MiB when five such were there and freed before."""
    program = f"""
        import resource
        {first}
        for _ in range(4):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            buffers = [b"x" * (8 << 20) for _ in range(5)]
            del buffers
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    """
    done = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc: others keep what is freed their own way")
def test_buffers_are_made_of_memory_that_was_freed() -> None:
    assert _faults("pass") > _PAGES_OF_ONE
    assert _faults("from tracegrade.pipeline.allocator import keep_freed_memory as keep; keep()") < _PAGES_OF_ONE // 8
