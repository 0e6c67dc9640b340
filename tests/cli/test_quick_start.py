import subprocess
import sys
from textwrap import dedent


def _printed(program: str) -> str:
    program = f"from tracegrade.cli.quick_start import start_quickly\nstart_quickly()\n{dedent(program)}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_what_is_left_out_is_there_once_it_is_used() -> None:
    printed = _printed(
        """
        import asyncio
        from importlib import metadata
        async def answer():
            await asyncio.sleep(0)
            return metadata.version("click")
        print(asyncio.run(answer()))
        from asyncio import Queue
        import asyncio.queues, importlib.metadata, sys
        print(Queue is asyncio.queues.Queue is sys.modules["asyncio"].Queue)
        print(importlib.metadata.version("click"))
        """
    )
    version, same, again = printed.split()
    assert same == "True"
    assert version == again


def test_what_sqlalchemy_takes_from_asyncio_works_as_if_it_were_there() -> None:
    printed = _printed(
        """
        from sqlalchemy.util.concurrency import iscoroutine
        async def nothing():
            pass
        coroutine = nothing()
        print(iscoroutine(coroutine), iscoroutine(nothing))
        coroutine.close()
        """
    )
    assert printed == "True False\n"


def test_what_is_there_already_stays() -> None:
    printed = _printed(
        """
        import asyncio, sys
        asyncio.run
        loaded = sys.modules["asyncio"]
        start_quickly()
        print(sys.modules["asyncio"] is loaded, type(loaded) is type(sys))
        """
    )
    assert printed == "True True\n"
