"""What runs side by side ends together, and says why."""

import asyncio

import pytest

from tracegrade.serve.background import run_until


async def _until(halt: asyncio.Event) -> None:
    await halt.wait()


async def _ends() -> None:
    """As one that finds nothing to do."""


async def _fails() -> None:
    raise OSError("the disk is gone")


def test_all_end_when_it_is_time() -> None:
    async def run() -> None:
        stopping, halt = asyncio.Event(), asyncio.Event()
        stopping.set()
        await run_until(stopping, halt, [_until(halt), _until(halt)], lambda: None)
        assert halt.is_set()

    asyncio.run(run())


def test_one_that_fails_ends_all_with_its_error() -> None:
    async def run() -> None:
        halt = asyncio.Event()
        await run_until(asyncio.Event(), halt, [_until(halt), _fails()], lambda: None)

    with pytest.raises(OSError, match="the disk is gone"):
        asyncio.run(run())


def test_one_that_ends_by_itself_does_not_end_the_others_unseen() -> None:
    async def run() -> None:
        halt = asyncio.Event()
        await run_until(asyncio.Event(), halt, [_until(halt), _ends()], lambda: None)

    with pytest.raises(RuntimeError, match=r"_ends.* ended without being told to"):
        asyncio.run(run())
