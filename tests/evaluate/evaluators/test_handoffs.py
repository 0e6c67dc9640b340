from typing import Any

from build import each
from tracegrade.evaluate.evaluator import Evidence, Score
from tracegrade.evaluate.evaluators.handoffs import EVALUATOR
from tracegrade.model.handoff import Handoff, SeenIn
from tracegrade.model.tool_call import ToolCall


class _Context:
    """A trace with handoffs, each written "from>to", with a "*" before it where a tool was called since the last."""

    def __init__(self, *made: str, seen_in: SeenIn = "spans", unread: str | None = None) -> None:
        self._made = []
        self._unread = unread
        work = 0
        for place, text in enumerate(made):
            work += text.startswith("*")
            from_agent, _, to_agent = text.removeprefix("*").partition(">")
            self._made.append(Handoff(from_agent, to_agent, place, f"{place:016x}", seen_in, "", work))

    def handoffs(self) -> list[Handoff]:
        return self._made

    def unread_before(self, call: ToolCall | None) -> str | None:
        return self._unread


def judged(
    criteria: dict[str, Any],
    *made: str,
    seen_in: SeenIn = "spans",
    settings: Any = None,
    unread: str | None = None,
) -> Score:
    context: Any = _Context(*made, seen_in=seen_in, unread=unread)
    read = EVALUATOR.read_criteria(criteria)
    return EVALUATOR.evaluate(Evidence([], trace_context=context), read, EVALUATOR.read_settings(settings or {}))


_TRIAGE = {"may_pass_to": {"triage": ["orders", "billing*"]}}


@each(
    ("criteria", "made", "score", "said"),
    [
        (_TRIAGE, [], 1.0, "No handoff was made."),
        (_TRIAGE, ["triage>orders", "orders>sales"], 1.0, "2 handoffs were made."),
        (_TRIAGE, ["triage>billing_2"], 1.0, "1 handoff was made."),
        (_TRIAGE, ["triage>Orders"], 1.0, "1 handoff was made."),
        (_TRIAGE, ["triage>sales"], 0.0, "1 handoff was made: from triage to sales is not allowed."),
        (_TRIAGE, ["triage>"], None, "A handoff does not say to which agent (span 0000000000000000)."),
        (_TRIAGE, ["orders>"], 1.0, "1 handoff was made."),
        (_TRIAGE, ["triage>", "triage>sales"], 0.0, "2 handoffs were made: from triage to sales is not allowed."),
        (
            {"may_pass_to": {"triage": []}},
            ["triage>orders"],
            0.0,
            "1 handoff was made: from triage to orders is not allowed.",
        ),
        ({"order": ["a", "b"]}, ["x>a", "a>c", "c>b"], 1.0, "3 handoffs were made."),
        ({"order": ["a", ["b", "c"]]}, ["x>a", "a>c"], 1.0, "2 handoffs were made."),
        ({"order": ["a", "b"]}, ["x>b", "b>a"], 0.0, "2 handoffs were made: the handoff to b after a is missing."),
        ({"order": ["a"]}, [], 0.0, "No handoff was made: the handoff to a is missing."),
        ({"order": ["a"]}, ["x>"], None, "A handoff does not say to which agent (span 0000000000000000)."),
        ({"max_handoffs": 2}, ["a>b", "b>c"], 1.0, "2 handoffs were made."),
        ({"max_handoffs": 1}, ["a>b", "b>c"], 0.0, "2 handoffs were made: 2 in all (limit 1)."),
        ({"max_in_a_row": 2}, ["a>b", "b>a", "*a>b"], 1.0, "3 handoffs were made."),
        (
            {"max_in_a_row": 2},
            ["a>b", "b>a", "a>b"],
            0.0,
            "3 handoffs were made: 3 in a row without another tool call (limit 2).",
        ),
        (
            {"max_in_a_row": 1, "max_handoffs": 2},
            ["a>b", "b>a"],
            0.5,
            "2 handoffs were made: 2 in a row without another tool call (limit 1).",
        ),
    ],
)
def test_what_is_asked_is_kept_or_not(criteria: Any, made: list[str], score: float | None, said: str) -> None:
    found = judged(criteria, *made)
    assert (found.score, found.explanation) == (score, said)


def test_only_those_count_that_are_seen_where_it_says() -> None:
    criteria = {"max_handoffs": 0}
    assert judged(criteria, "a>b", seen_in="runs").score == 0.0
    assert judged(criteria, "a>b", seen_in="runs", settings={"seen_in": ["calls", "spans"]}).score == 1.0


def test_a_rule_that_asks_nothing_is_refused() -> None:
    assert EVALUATOR.never_scores(EVALUATOR.Criteria(), EVALUATOR.Settings()) == (
        "nothing is asked; give may_pass_to, order, max_handoffs or max_in_a_row"
    )
    assert EVALUATOR.never_scores(EVALUATOR.read_criteria({"max_in_a_row": 1}), EVALUATOR.Settings()) is None


def test_it_is_said_as_a_person_would_say_it() -> None:
    asked = {"may_pass_to": {"triage": ["orders", "billing"], "orders": []}, "order": ["orders", ["billing", "sales"]]}
    criteria = EVALUATOR.read_criteria({**asked, "max_handoffs": 1, "max_in_a_row": 2})
    assert EVALUATOR.sentences(criteria, EVALUATOR.Settings()) == [
        "triage passes its task on only to orders or billing",
        "orders passes its task on to nobody",
        "the task is passed on to orders, then to billing or sales",
        "there is 1 handoff at most",
        "there are 2 handoffs at most in a row, without another tool call between them",
    ]
