import logging

from tracegrade.receive.log_limit import LINES, WITHIN_S, LogLimit


class Clock:
    s = 100.0

    def __call__(self) -> float:
        return self.s


def written(limit: LogLimit, logger: str, text: str, *values: object) -> str:
    record = logging.LogRecord(logger, logging.WARNING, "", 0, text, values, None)
    return record.getMessage() if limit.filter(record) else ""


def test_of_each_kind_of_mistake_a_few_lines_are_written_and_the_rest_counted() -> None:
    clock = Clock()
    limit = LogLimit(clock)
    lines = [written(limit, "uvicorn.error", "Invalid HTTP request received.") for _ in range(1000)]
    assert [line for line in lines if line] == ["Invalid HTTP request received."] * LINES
    assert written(limit, "asyncio", "of %s", "another kind") == "of another kind"
    clock.s += WITHIN_S
    assert written(limit, "tracegrade.journal", "a folder %s", "is gone") == (
        f"a folder is gone ({1000 - LINES} more lines of uvicorn.error "
        "like 'Invalid HTTP request received.' were left out)"
    )
    assert written(limit, "uvicorn.error", "Invalid HTTP request received.") == "Invalid HTTP request received."


def test_values_make_no_kind_of_their_own_and_our_own_states_are_always_written() -> None:
    limit = LogLimit(Clock())
    lines = [written(limit, "tracegrade.receive.ingest", "request %d", number) for number in range(20)]
    assert sum(map(bool, lines)) == LINES
    assert all(written(limit, "tracegrade.telemetry.conditions", "a state") for _ in range(50))
