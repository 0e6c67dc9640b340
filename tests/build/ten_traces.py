"""A store with ten traces, a minute apart."""

import pytest
from sqlalchemy import Engine

from build.judged_traces import MINUTE_NS, START_NS, evaluation, judged
from tracegrade.store.write import StoreWriter


@pytest.fixture
def filled(engine: Engine) -> Engine:
    """Traces 0 to 9, a minute apart: odd ones fail, 4 is of another rule, agent and service, 8 cannot be judged."""
    records = []
    for number in range(10):
        outcome = "not_evaluable" if number == 8 else "fail" if number % 2 else "pass"
        if number == 4:
            item = evaluation(4, rule_id="refund-without-lookup", agent="billing", service="bank")
            records.append(judged(4, evaluations=[item], service="bank"))
        else:
            records.append(judged(number, outcome))
    StoreWriter(engine).write(records)
    return engine


def minute(number: int) -> int:
    return START_NS + number * MINUTE_NS
