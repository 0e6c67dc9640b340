"""Backtests and full comparisons are made in a process of their own: one at a time, ended when it takes too long."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from build.shop import GOOD, HOUR, SECOND, WRONG_QUANTITY, fill, order
from build.shop_runs import store_run
from build.site import Site
from tracegrade.access.caller import KNOWN
from tracegrade.compare.sides import CompareError
from tracegrade.compare.web.backtesting import Backtesting
from tracegrade.compare.web.comparing import Asked, Comparing
from tracegrade.config import Config
from tracegrade.model.errors import NotPossible
from tracegrade.queries.parameters import JudgedTracesQuery
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.result_filter import ResultFilter
from tracegrade.web.own_process import Busy
from tracegrade.web.sources import Sources

FULL = Asked("prompts/1", "prompts/2", ResultFilter(), full=True)
RULE = "id: few\nevaluate: [{evaluator: budget, max_calls: 3}]\n"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """Two runs over the same 30 orders, of which the second went wrong in ten; and five orders judged live."""
    folder: Path = tmp_path_factory.mktemp("own-process")
    config = Config(data_dir=str(folder))
    now_ns = time.time_ns() - HOUR
    rules: RuleSet = fill(folder, ((order(n, now_ns + n * SECOND, "1.4.2", WRONG_QUANTITY), None) for n in range(1, 6)))
    store_run(folder, rules, "prompts/1", [GOOD] * 30, now_ns, first=101)
    store_run(folder, rules, "prompts/2", [WRONG_QUANTITY] * 10 + [GOOD] * 20, now_ns, first=101)
    return Site(config.store_url, rules, config).sources


def test_one_full_comparison_at_a_time(sources: Sources) -> None:
    comparing = Comparing()
    found: list[Any] = []
    first = threading.Thread(target=lambda: found.append(comparing.compare(sources, FULL, KNOWN)))
    first.start()
    while first.is_alive() and not comparing.is_busy:
        first.join(0.001)
    with pytest.raises(Busy):
        comparing.compare(sources, FULL, KNOWN)
    quick = Asked("prompts/1", "prompts/2", ResultFilter())
    assert comparing.compare(sources, quick, KNOWN).rules
    first.join()
    assert found[0].exit_code == 1
    assert not comparing.is_busy


def test_what_cannot_be_compared_is_said_by_that_process(sources: Sources) -> None:
    with pytest.raises(CompareError, match=r"no result of release '9.9' in the store"):
        Comparing().compare(sources, Asked("live", "release:9.9", ResultFilter(), full=True), KNOWN)


def test_a_backtest_is_answered_by_that_process(sources: Sources) -> None:
    found = Backtesting().backtest(sources, RULE, JudgedTracesQuery(since=0), KNOWN)
    assert "5 stored traces" in found.judged


def test_a_comparison_that_takes_too_long_ends(sources: Sources) -> None:
    comparing = Comparing(longest_s=0.0)
    for _ in range(2):  # and the next one is not kept waiting
        with pytest.raises(CompareError, match="not done within 0 s"):
            comparing.compare(sources, FULL, KNOWN)


def test_a_backtest_that_takes_too_long_ends_and_leaves_nothing(
    sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    backtesting = Backtesting(longest_s=0.0)
    for _ in range(2):
        with pytest.raises(NotPossible, match="not done within 0 s: choose a shorter time"):
            backtesting.backtest(sources, RULE, JudgedTracesQuery(since=0), KNOWN)
    assert list(tmp_path.iterdir()) == []
