"""The common parts of processes."""

import signal
from collections.abc import Iterator
from threading import Event, Lock

import pytest

from tracegrade.serve.process import stop_on_signals

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture
def _signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_signals_as_before")
def test_a_signal_stops_also_while_the_main_thread_holds_what_stopping_needs() -> None:
    held, stopped = Lock(), Event()

    def stop() -> None:
        if held.acquire():  # as an event does when it is set, and the main thread when it waits for one
            stopped.set()

    stop_on_signals(stop, ends_with_stdin=False)
    with held:
        signal.raise_signal(signal.SIGTERM)
    assert stopped.wait()
