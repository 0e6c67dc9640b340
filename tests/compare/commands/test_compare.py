import gc
import json
from pathlib import Path
from typing import Any

import pytest

from build import each, store_with
from build.commands import run
from build.judged_traces import AGENT_SPAN, START_NS, evaluation, judged, tool_call, trace_id
from build.releases import traces
from build.stored_runs import begin
from tracegrade.model.trace_result import RunSummary, TraceResult
from tracegrade.rule.load import DEFAULT_RULES, ready_made_hash
from tracegrade.store.delete import delete_older
from tracegrade.store.open import open_store


def compared(data_dir: Path, *arguments: str, exit_code: int) -> dict[str, Any]:
    result = run(data_dir, "compare", *arguments, "--format", "json")
    assert result.exit_code == exit_code, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    assert found["exit_code"] == exit_code
    return found


def begin_run(data_dir: Path, name: str, **changes: Any) -> None:
    engine = open_store(store_with(data_dir))
    begin(engine, name, **changes)
    engine.dispose()


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Read alone."""
    folder = tmp_path_factory.mktemp("releases")
    store_with(folder, *traces("1.0", "p" * 190 + "f" * 10, first=1), *traces("2.0", "p" * 160 + "f" * 40, first=1000))
    return folder


def test_a_release_that_is_worse_ends_with_1(data_dir: Path) -> None:
    (rule,) = compared(data_dir, "release:1.0", "release:2.0", exit_code=1)["rules"]
    assert (rule["rule_id"], rule["verdict"]) == ("checkout-order", "worse")
    assert (rule["a"]["pass_rate"], rule["b"]["pass_rate"]) == (0.95, 0.8)
    assert rule["difference"] == pytest.approx(-0.15)
    assert rule["low"] < rule["difference"] < rule["high"] < 0
    assert rule["p"] == rule["adjusted_p"] < 0.001
    assert rule["evaluations"] == {}  # it has one alone


def test_ready_made_rules_do_not_weaken_ones_own(tmp_path: Path) -> None:
    """One's own rule fell; five ready-made ones never fail; then three copies of them that judge otherwise."""
    ready_made = sorted(DEFAULT_RULES)[:5]
    for first, release, outcomes in ((1, "1.0", "p" * 109), (5000, "2.0", "p" * 102 + "f" * 7)):
        store_with(tmp_path, *traces(release, outcomes, first=first))
        for number, rule_id in enumerate(ready_made, 1):
            rule = {"rule_id": rule_id, "rule_hash": ready_made_hash(rule_id)}
            store_with(tmp_path, *traces(release, "p" * 20, first=first + 200 * number, **rule))
    sides = ("release:1.0", "release:2.0")
    rules = {rule["rule_id"]: rule for rule in compared(tmp_path, *sides, exit_code=1)["rules"]}
    own = rules.pop("checkout-order")
    assert (own["verdict"], own["family"], own["rules_in_family"]) == ("worse", "own", 1)
    assert own["p"] == own["adjusted_p"] < 0.02
    assert {(rule["family"], rule["rules_in_family"]) for rule in rules.values()} == {("ready-made", 5)}
    for first, release in ((20_000, "1.0"), (30_000, "2.0")):
        for number, rule_id in enumerate(sorted(DEFAULT_RULES)[5:]):
            copy = {"rule_id": rule_id, "rule_hash": "a copy"}
            store_with(tmp_path, *traces(release, "p" * 20, first=first + 200 * number, **copy))
    rules = {rule["rule_id"]: rule for rule in compared(tmp_path, *sides, exit_code=3)["rules"]}
    own = rules["checkout-order"]
    assert (own["verdict"], own["verdict_alone"], own["rules_in_family"]) == ("cannot_tell", "worse", 4)
    assert own["adjusted_p"] == pytest.approx(4 * own["p"])
    assert (own["results_needed_for"], own["results_needed"]) == ("worse", pytest.approx(1.4, abs=0.1))
    shown = run(tmp_path, "compare", *sides).stdout
    assert "? cannot tell; alone worse" in shown
    assert "checkout-order: would be worse alone (p 0.01" in shown
    assert "times as many results would tell in four of five comparisons that B is worse, if the difference" in shown


def test_the_other_way_round_it_is_better(data_dir: Path) -> None:
    (rule,) = compared(data_dir, "release:2.0", "release:1.0", exit_code=0)["rules"]
    assert rule["verdict"] == "better"
    assert run(data_dir, "compare", "release:2.0", "release:1.0").stdout.endswith("Better: 1 rule.\n")


def test_the_table_says_what_the_json_says(data_dir: Path) -> None:
    result = run(data_dir, "compare", "release:1.0", "release:2.0")
    assert result.exit_code == 1
    assert "checkout-order  own     95.00%  80.00%  -15.00" in result.stdout
    assert "✗ worse" in result.stdout
    assert result.stdout.endswith("Worse: 1 rule worse.\n")


def test_few_results_tell_nothing(tmp_path: Path) -> None:
    store_with(tmp_path, *traces("1.0", "ppp", first=1), *traces("2.0", "ppf", first=10))
    (rule,) = compared(tmp_path, "release:1.0", "release:2.0", exit_code=3)["rules"]
    assert rule["verdict"] == "cannot_tell"


def test_a_wide_margin_and_the_option_for_it(tmp_path: Path) -> None:
    store_with(
        tmp_path, *traces("1.0", "p" * 190 + "f" * 10, first=1), *traces("2.0", "p" * 160 + "f" * 40, first=1000)
    )
    wide = ["release:1.0", "release:2.0", "--margin", "0.3"]
    assert compared(tmp_path, *wide, exit_code=1)["rules"][0]["verdict"] == "worse_within_margin"
    assert compared(tmp_path, *wide, "--allow-within-margin", exit_code=0)["allow_within_margin"]


def test_a_rule_that_changed_is_named_and_left_out(tmp_path: Path) -> None:
    store_with(
        tmp_path,
        *traces("1.0", "pppp", first=1, rule_hash="old"),
        *traces("2.0", "pppp", first=10, rule_hash="new"),
        *traces("2.0", "pppp", first=20, rule_id="only-there"),
    )
    found = compared(tmp_path, "release:1.0", "release:2.0", exit_code=3)
    assert found["rules"] == []
    assert found["left_out"] == {
        "checkout-order": "the rule changed, old judged A and new judged B",
        "only-there": "no result on A",
    }
    shown = run(tmp_path, "compare", "release:1.0", "release:2.0").stdout
    assert "No rule judged both sides." in shown
    assert "only-there: no result on A" in shown


def test_of_a_rule_that_changed_within_the_sides_what_both_have_is_compared(tmp_path: Path) -> None:
    store_with(
        tmp_path,
        *traces("1.0", "pppppf", first=1, rule_hash="old"),
        *traces("1.0", "pppf", first=20, rule_hash="new"),
        *traces("2.0", "pff", first=30, rule_hash="new"),
    )
    found = compared(tmp_path, "release:1.0", "release:2.0", exit_code=3)
    assert [(rule["rule_hash"], rule["a"]["results"], rule["b"]["results"]) for rule in found["rules"]] == [
        ("new", 4, 3)
    ]
    assert found["left_out"] == {
        "checkout-order": "6 results of other contents of the rule are left out (old); new is compared"
    }


def test_what_could_not_be_judged_and_incomplete_traces_stand_beside(tmp_path: Path) -> None:
    store_with(
        tmp_path,
        *traces("1.0", "ppfne", first=1),
        *traces("1.0", "ff", first=10, complete=False, missing=["root"]),
        *traces("2.0", "nn", first=20),
    )
    (rule,) = compared(tmp_path, "release:1.0", "release:2.0", exit_code=3)["rules"]
    assert rule["a"] == {
        "pass_rate": pytest.approx(2 / 3),
        "results": 3,
        "pass": 2,
        "fail": 1,
        "not_evaluable": 1,
        "error": 1,
        "incomplete": 2,
    }
    assert (rule["b"]["pass_rate"], rule["difference"], rule["reason"]) == (None, None, "nothing could be judged on B")


def test_a_sample_that_keeps_every_fail_is_weighed(tmp_path: Path) -> None:
    store_with(
        tmp_path,
        *traces("1.0", "p" * 95, first=1, probability=0.1),
        *traces("1.0", "f" * 50, first=200),
        *traces("2.0", "p" * 95 + "f" * 5, first=400),
    )
    (rule,) = compared(tmp_path, "release:1.0", "release:2.0", exit_code=3)["rules"]
    assert rule["a"]["pass_rate"] == pytest.approx(0.95)
    assert rule["difference"] == pytest.approx(0)


def test_a_run_and_a_time(tmp_path: Path) -> None:
    begin_run(tmp_path, "tuning/1")
    store_with(tmp_path, *traces("1.0", "ppppf", first=1), *traces("1.0", "pp", first=100, run="tuning/1"))
    (rule,) = compared(tmp_path, "live", "tuning/1", exit_code=3)["rules"]
    assert (rule["a"]["results"], rule["b"]["results"]) == (5, 2)
    minutes = ["live@2026-01-01..2026-01-01T00:03:00Z", "live@2026-01-01T00:03:00Z.."]
    (rule,) = compared(tmp_path, *minutes, exit_code=3)["rules"]
    assert (rule["a"]["results"], rule["b"]["results"]) == (2, 3)


def test_filters_hold_for_both_sides(tmp_path: Path) -> None:
    store_with(
        tmp_path,
        *traces("1.0", "pp", first=1),
        *traces("2.0", "pp", first=10),
        *traces("1.0", "p", first=20, service="bank"),
        *traces("2.0", "p", first=30, service="bank"),
    )
    (rule,) = compared(tmp_path, "release:1.0", "release:2.0", "--service", "bank", exit_code=3)["rules"]
    assert (rule["a"]["results"], rule["b"]["results"]) == (1, 1)


def test_a_line_for_each_of_several_evaluations(tmp_path: Path) -> None:
    for number, release in ((1, "1.0"), (2, "2.0")):
        both = [evaluation(number, release=release, evaluation=name) for name in ("order", "args")]
        store_with(tmp_path, judged(number, evaluations=both, release=release))
    lines = run(tmp_path, "compare", "release:1.0", "release:2.0").stdout.splitlines()
    assert [line.split()[0] for line in lines if "100.00%" in line] == ["checkout-order", "args", "order"]
    (rule,) = compared(tmp_path, "release:1.0", "release:2.0", exit_code=3)["rules"]
    assert [of["a"]["results"] for of in rule["evaluations"].values()] == [1, 1]


@each(
    ("sides", "message"),
    [
        (["release:1.0", "release:1.0"], "A and B are the same, 'release:1.0': name two different sides"),
        (["1.0", "release:2.0"], "no run '1.0' in the store; did you mean 'release:1.0'?"),
        (["release:1.0", "tunin"], "no run 'tunin' in the store; expected one of live"),
        (["release:1.0", "release:2"], "release:2: no result of release '2' in the store; expected one of 1.0, 2.0"),
        (["agent:suport", "live"], "agent:suport: no result of agent 'suport' in the store; did you mean 'support'?"),
        (["release:", "live"], "'release:': expected a name after 'release:'"),
        (["", "live"], "'' names no side"),
        (
            ["release:1.0", "release:2.0", "--release", "1.0"],
            "'release:1.0': the release of both sides is chosen already",
        ),
        (["live", "release:2.0", "--rule", "unknown"], "live: no result of rule 'unknown'; 'tracegrade results stats'"),
        (["live@soon..", "live"], "expected a time such as"),
        (["live@2d..3d", "live"], "'live@2d..3d': the time ends before it begins"),
        (["live@2d..", "live", "--since", "3d"], "'live@2d..': since and until name another time"),
        (["live@2020-01-01..2020-01-02", "live"], "live@2020-01-01..2020-01-02: no result in this time"),
        (["live", "live@2020-01-01..2020-01-02"], "live@2020-01-01..2020-01-02: no result in this time"),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_sentence(data_dir: Path, sides: list[str], message: str) -> None:
    result = run(data_dir, "compare", *sides)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {message}")
    assert len(result.stderr.splitlines()) == 1


def test_where_nothing_was_judged_live_the_runs_are_named(tmp_path: Path) -> None:
    begin_run(tmp_path, "tuning/1")
    store_with(tmp_path, *traces("1.0", "pp", first=1, run="tuning/1"))
    result = run(tmp_path, "compare", "release:1.0", "tuning/1")
    assert result.exit_code == 2
    assert result.stderr == (
        "Error: release:1.0: nothing was judged live yet; stored runs are tuning/1, and are named as they are\n"
    )


def test_without_a_store_it_is_said(tmp_path: Path) -> None:
    result = run(tmp_path, "compare", "release:1.0", "release:2.0")
    assert result.exit_code == 2
    assert "no such store" in result.stderr


def test_the_same_traces_judged_in_two_runs_are_pairs(tmp_path: Path) -> None:
    begin_run(tmp_path, "tuning/1")
    store_with(
        tmp_path, *traces("1.0", "p" * 40, first=1), *traces("1.0", "f" * 12 + "p" * 28, first=1, run="tuning/1")
    )
    found = compared(tmp_path, "live", "tuning/1", exit_code=1)
    (rule,) = found["rules"]
    assert (rule["method"], rule["p"]) == ("mcnemar", pytest.approx(2 / 2**12))
    pairs = rule["pairs"]
    assert (pairs["by"], pairs["count"], pairs["worse"], pairs["better"]) == ("trace", 40, 12, 0)
    changed = {change["trace_a"] for change in pairs["became_worse"]}
    assert changed == {trace_id(number) for number in range(1, 13)}
    assert "40 pairs by trace: 12 worse, 0 better" in run(tmp_path, "compare", "live", "tuning/1").stdout


def test_rates_only_takes_every_result_by_itself(tmp_path: Path) -> None:
    begin_run(tmp_path, "tuning/1")
    store_with(
        tmp_path, *traces("1.0", "p" * 40, first=1), *traces("1.0", "f" * 12 + "p" * 28, first=1, run="tuning/1")
    )
    (rule,) = compared(tmp_path, "live", "tuning/1", "--rates-only", exit_code=1)["rules"]
    assert (rule["method"], rule["pairs"]) == ("newcombe", None)


def test_cases_are_pairs(tmp_path: Path) -> None:
    for number in range(1, 11):
        shared = {"case": f"case {number}", "subject": {"kind": "trace", "id": trace_id(number)}}
        store_with(
            tmp_path, *traces("1.0", "p", first=number, **shared), *traces("2.0", "f", first=number + 50, **shared)
        )
    (rule,) = compared(tmp_path, "release:1.0", "release:2.0", exit_code=1)["rules"]
    assert (rule["pairs"]["by"], rule["pairs"]["count"], rule["p"]) == ("case", 10, pytest.approx(2 / 2**10))
    lines = run(tmp_path, "compare", "release:1.0", "release:2.0").stdout.splitlines()
    changed = [line.split() for line in lines if trace_id(60) in line]
    assert changed == [["checkout-order", "worse", "case", "10", trace_id(10), trace_id(60)]]


@pytest.mark.parametrize("output_format", ["table", "markdown"])
def test_what_has_no_partner_and_what_is_flaky_is_said(tmp_path: Path, output_format: str) -> None:
    for number in range(1, 11):
        shared = {"case": f"case {number}", "subject": {"kind": "trace", "id": trace_id(number)}}
        store_with(
            tmp_path, *traces("1.0", "p", first=number, **shared), *traces("2.0", "p", first=number + 50, **shared)
        )
        store_with(tmp_path, *traces("2.0", "f" if number == 3 else "p", first=number + 80, **shared))
    store_with(tmp_path, *traces("1.0", "pp", first=200))
    shown = run(tmp_path, "compare", "release:1.0", "release:2.0", "--format", output_format).stdout
    assert "checkout-order: results without a partner are left out: 2 on A and 0 on B" in shown
    assert "checkout-order: flaky cases, which both pass and fail on one side: case 3" in shown


def asked(number: int, outcome: str, release: str, prompt: str, model: str = "small") -> TraceResult:
    runs = [RunSummary(AGENT_SPAN, "support", None, None, model, prompt, 100, 10, 1_000_000_000)]
    return judged(number, evaluations=[evaluation(number, outcome, release=release)], release=release, runs=runs)


def test_prompts_are_pairs(tmp_path: Path) -> None:
    store_with(
        tmp_path,
        *(asked(number, "pass", "1.0", f"{number:016x}") for number in range(1, 11)),
        *(asked(number + 50, "fail", "2.0", f"{number:016x}") for number in range(1, 11)),
    )
    (rule,) = compared(tmp_path, "release:1.0", "release:2.0", exit_code=1)["rules"]
    assert (rule["pairs"]["by"], rule["pairs"]["count"]) == ("prompt", 10)


def test_results_of_a_session_go_together(tmp_path: Path) -> None:
    results = []
    for first, release, failing in ((1, "1.0", 0), (100, "2.0", 2)):
        for number in range(first, first + 60):
            session = f"{release} {(number - first) // 5}"
            outcome = "fail" if (number - first) // 5 < failing else "pass"
            found = evaluation(number, outcome, release=release, session=session)
            results.append(judged(number, evaluations=[found], release=release, session=session))
    store_with(tmp_path, *results)
    (rule,) = compared(tmp_path, "release:1.0", "release:2.0", exit_code=3)["rules"]
    assert (rule["clustered_by"], rule["method"], rule["verdict"]) == ("session", "bootstrap", "cannot_tell")
    (rule,) = compared(tmp_path, "release:1.0", "release:2.0", "--rates-only", exit_code=1)["rules"]
    assert rule["verdict"] == "worse"


def test_models_are_compared_by_what_each_did(tmp_path: Path) -> None:
    store_with(
        tmp_path,
        *(asked(number, "pass", "1.0", f"{number:016x}", "large") for number in range(1, 31)),
        *(asked(number, "fail", "1.0", f"{number:016x}", "small") for number in range(51, 81)),
    )
    (rule,) = compared(tmp_path, "model:large", "model:small", exit_code=1)["rules"]
    assert (rule["a"]["pass"], rule["a"]["fail"], rule["b"]["pass"], rule["b"]["fail"]) == (30, 0, 0, 30)
    result = run(tmp_path, "compare", "model:large", "model:other")
    assert (result.exit_code, result.stderr) == (
        2,
        "Error: model:other: model 'other' has no result; 'tracegrade results stats' shows what there is\n",
    )
    counted = run(tmp_path, "compare", "model:large", "model:small", "--rates-only")
    assert counted.stderr == "Error: model:large: results are not counted by model; compare in full, not rates alone\n"


def test_counts_and_single_results_agree(tmp_path: Path) -> None:
    """The same numbers from both ways of reading, with samples, incomplete traces and what could not be judged."""
    store_with(
        tmp_path,
        *traces("1.0", "ppffne", first=1, probability=0.5),
        *traces("1.0", "pfn", first=20, complete=False, missing=["root"]),
        *traces("2.0", "pppfnne", first=40),
        *traces("2.0", "ppf", first=60, rule_id="other"),
        *traces("1.0", "pff", first=80, rule_id="other", service="bank"),
    )
    read = compared(tmp_path, "release:1.0", "release:2.0", exit_code=3)
    counted = compared(tmp_path, "release:1.0", "release:2.0", "--rates-only", exit_code=3)
    assert read["rules"] == counted["rules"]
    assert len(read["rules"]) == 2
    assert (counted["measures"], counted["behaviour"]) == (None, None)


def test_the_prompt_of_a_run_is_its_own_and_that_of_a_trace_its_outermost_runs(tmp_path: Path) -> None:
    for number in range(1, 21):
        first = number <= 10
        release, inner = ("1.0", "b" * 16) if first else ("2.0", f"{number:016x}")
        outer = f"{(number - 1) % 10:016x}"
        runs = [
            RunSummary(AGENT_SPAN, "support", None, None, "small", outer),
            RunSummary("00f067aa0ba902b9", "search", AGENT_SPAN, None, "small", inner),
        ]
        of_trace = evaluation(number, release=release, rule_id="t", subject={"kind": "trace", "id": trace_id(number)})
        of_run = evaluation(
            number, release=release, rule_id="a", agent="search", subject={"kind": "agent", "id": "00f067aa0ba902b9"}
        )
        store_with(tmp_path, judged(number, evaluations=[of_trace, of_run], release=release, runs=runs))
    by_rule = {rule["rule_id"]: rule for rule in compared(tmp_path, "release:1.0", "release:2.0", exit_code=3)["rules"]}
    assert by_rule["t"]["pairs"]["count"] == 10
    assert by_rule["a"]["pairs"] is None


def test_a_run_that_is_not_complete_is_said(tmp_path: Path) -> None:
    begin_run(tmp_path, "tuning/1")
    begin_run(tmp_path, "tuning/2")
    store_with(tmp_path, *traces("1.0", "pp", first=1, run="tuning/1"), *traces("1.0", "pp", first=1, run="tuning/2"))
    begin_run(tmp_path, "tuning/2", state="failed", problem="a rule crashed")
    notes = ["A: the run is incomplete; results may be missing", "B: the run is failed: a rule crashed"]
    assert compared(tmp_path, "tuning/1", "tuning/2", exit_code=3)["notes"] == notes
    assert notes[1] in run(tmp_path, "compare", "tuning/1", "tuning/2").stdout
    begin_run(tmp_path, "tuning/1", state="complete")
    assert compared(tmp_path, "tuning/1", "tuning/2", exit_code=3)["notes"] == notes[1:]


def test_of_a_run_that_retention_emptied_the_counts_are_left(tmp_path: Path) -> None:
    begin_run(tmp_path, "tuning/1")
    store_with(tmp_path, *traces("1.0", "pppp", first=1), *traces("1.0", "pf", first=1, run="tuning/1"))
    begin_run(tmp_path, "tuning/1", state="complete", written_ns=1)
    engine = open_store(store_with(tmp_path))
    while delete_older(engine, 2):
        pass
    engine.dispose()
    result = run(tmp_path, "compare", "live", "tuning/1")
    expected = "Error: tuning/1: retention has deleted its traces; compare rates alone, as counted\n"
    assert (result.exit_code, result.stderr) == (2, expected)
    (rule,) = compared(tmp_path, "live", "tuning/1", "--rates-only", exit_code=3)["rules"]
    assert rule["b"]["results"] == 2


def test_a_part_of_a_run_is_not_counted(tmp_path: Path) -> None:
    begin_run(tmp_path, "tuning/1")
    store_with(tmp_path, *traces("1.0", "pppp", first=1), *traces("1.0", "pf", first=1, run="tuning/1"))
    part = "tuning/1@2026-01-01T00:02:00Z.."
    (rule,) = compared(tmp_path, "live", part, exit_code=3)["rules"]
    assert rule["b"]["results"] == 1
    result = run(tmp_path, "compare", "live", part, "--rates-only")
    assert (
        result.stderr == f"Error: {part}: results of a run are not counted by time; compare in full, not rates alone\n"
    )


def test_a_rule_that_judged_a_run_alone_says_whether_incomplete_traces_count(tmp_path: Path) -> None:
    of_rule = {"checkout-order": {"hash": "0123456789abcdef", "incomplete": "count"}}
    begin_run(tmp_path, "tuning/1", rules=of_rule)
    begin_run(tmp_path, "tuning/2", rules=of_rule)
    incomplete = {"complete": False, "missing": ["root"]}
    for name in ("tuning/1", "tuning/2"):
        store_with(tmp_path, *traces("1.0", "pf", first=1, run=name, **incomplete))
    for option in ([], ["--rates-only"]):
        (rule,) = compared(tmp_path, "tuning/1", "tuning/2", *option, exit_code=3)["rules"]
        assert (rule["a"]["results"], rule["a"]["incomplete"]) == (2, 0)


def test_what_traces_took_and_called_stands_beside(tmp_path: Path) -> None:
    def one(number: int, release: str, tools: list[str], tokens: int) -> TraceResult:
        called = [tool_call(name=name, start_ns=START_NS + place) for place, name in enumerate(tools)]
        runs = [RunSummary(AGENT_SPAN, "support", None, None, "small", None, tokens, 0)]
        found = [evaluation(number, release=release)]
        return judged(number, evaluations=found, release=release, tool_calls=called, runs=runs)

    incomplete = judged(90, evaluations=[evaluation(90, release="2.0", complete=False)], release="2.0", complete=False)
    store_with(
        tmp_path,
        *(one(number, "1.0", ["find_order", "refund"], 100) for number in range(1, 5)),
        *(one(number, "2.0", ["find_order", "find_order", "send_mail"], 300) for number in range(11, 15)),
        incomplete,
    )
    config = tmp_path / "config.yaml"
    config.write_text("traces: {prices: {small: {input: 10, output: 10}}}\n")
    found = compared(tmp_path, "release:1.0", "release:2.0", "-c", str(config), exit_code=3)
    means = {name: (of["a"]["mean"], of["b"]["mean"]) for name, of in found["measures"].items()}
    assert means == {
        "duration_s": (1.0, 1.0),
        "calls": (2.0, 3.0),
        "errors": (0.0, 0.0),
        "tokens": (100.0, 300.0),
        "cost": (pytest.approx(0.001), pytest.approx(0.003)),
    }
    assert {tool["tool"]: tool["change"] for tool in found["behaviour"]["tools"]} == {
        "find_order": "",
        "refund": "gone",
        "send_mail": "new",
    }
    shown = run(tmp_path, "compare", "release:1.0", "release:2.0").stdout
    assert "tokens        100     300     +200" in shown
    assert "send_mail   new   0.0%      100.0%    0 / 1" in shown
    assert "find_order x2, send_mail  0.0%      100.0%" in shown


def test_what_a_cache_held_costs_its_own_price(tmp_path: Path) -> None:
    for number, cached in ((1, None), (2, 900)):
        runs = [RunSummary(AGENT_SPAN, "support", None, None, "small", None, 1000, 0, cached_input_tokens=cached)]
        found = [evaluation(number, release=f"{number}.0")]
        store_with(tmp_path, judged(number, evaluations=found, release=f"{number}.0", runs=runs))
    config = tmp_path / "config.yaml"
    config.write_text("traces: {prices: {small: {input: 10, output: 10, cached_input: 1}}}\n")
    sides = compared(tmp_path, "release:1.0", "release:2.0", "-c", str(config), exit_code=3)["measures"]["cost"]
    assert [sides[side]["mean"] for side in ("a", "b")] == [pytest.approx(0.01), pytest.approx(0.0019)]


def test_argument_values_that_never_came_before(tmp_path: Path) -> None:
    def one(number: int, release: str, currency: str) -> TraceResult:
        called = [tool_call(arguments={"currency": currency})]
        return judged(number, evaluations=[evaluation(number, release=release)], release=release, tool_calls=called)

    store_with(
        tmp_path,
        *(one(number, "1.0", "EUR") for number in range(1, 13)),
        *(one(number, "2.0", "GBP" if number > 20 else "EUR") for number in range(15, 25)),
    )
    sides = ["release:1.0", "release:2.0"]
    (found,) = compared(tmp_path, *sides, exit_code=3)["behaviour"]["arguments"]
    assert found == {
        "tool": "create_order",
        "argument": "currency",
        "new": False,
        "calls_a": 12,
        "calls_b": 10,
        "new_values": 1,
        "values": [{"value": '"GBP"', "calls": 4, "trace": trace_id(24)}],
    }
    assert 'create_order  currency  1 value   "GBP" (4)' in run(tmp_path, "compare", *sides).stdout
    markdown = run(tmp_path, "compare", *sides, "--format", "markdown").stdout
    assert "| create_order | currency | 1 value |" in markdown
    assert "GBP" not in markdown
    assert compared(tmp_path, *sides, "--no-behaviour", exit_code=3)["behaviour"] is None


def test_a_trace_that_cannot_be_read_has_no_arguments(tmp_path: Path) -> None:
    store_with(tmp_path, *traces("1.0", "pp", first=1), *traces("2.0", "pp", first=10))
    engine = open_store(store_with(tmp_path))
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE traces SET judged = 'damaged'")
    engine.dispose()
    assert compared(tmp_path, "release:1.0", "release:2.0", exit_code=3)["behaviour"]["arguments"] == []


def test_a_sample_is_weighed_on_both_ways_of_reading(tmp_path: Path) -> None:
    store_with(
        tmp_path,
        *traces("1.0", "pppf", first=1, probability=0.1),
        *traces("1.0", "pf", first=20, probability=0.5),
        *traces("2.0", "ppff", first=40),
    )
    for option in ([], ["--rates-only"]):
        (rule,) = compared(tmp_path, "release:1.0", "release:2.0", *option, exit_code=3)["rules"]
        assert rule["a"]["pass_rate"] == pytest.approx((30 + 2) / (40 + 4))


def test_of_two_contents_of_a_rule_that_judged_both_sides_the_one_with_more_results_is_compared(tmp_path: Path) -> None:
    for release, first in (("1.0", 1), ("2.0", 40)):
        store_with(tmp_path, *traces(release, "ppp", first=first, rule_hash="more"))
        store_with(tmp_path, *traces(release, "pp", first=first + 10, rule_hash="less"))
    (rule,) = compared(tmp_path, "release:1.0", "release:2.0", exit_code=3)["rules"]
    assert rule["rule_hash"] == "more"


def test_garbage_is_collected_again_afterwards(data_dir: Path) -> None:
    run(data_dir, "compare", "release:1.0", "release:2.0")
    assert gc.isenabled()
