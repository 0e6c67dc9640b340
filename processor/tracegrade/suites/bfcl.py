"""Lists of the Berkeley Function Calling Leaderboard: ``{id, question, function, ground_truth}``, one an entry.

Each argument lists its acceptable values, and "" among them means that it may be left out; texts are compared letter
case aside. All the calls, no others, in any order. Answers may come in the entry (``ground_truth``,
``possible_answer``, ``answer``) or in a file of their own, by id. An entry of an irrelevance category expects no call;
one without an answer says nothing and is left out, as is one whose answer is program text (several turns).

Source: ShishirPatil/gorilla, berkeley-function-call-leaderboard, its data and ast_checker. It also leaves out spaces
and punctuation of texts, which is not done here.
"""

from collections.abc import Iterator

from tracegrade.model.json_value import JsonValue
from tracegrade.rule.rule import Rule
from tracegrade.suites.imported import Imported, JsonObject, SuiteError, head, list_at, object_at, rule_id_of, unique_id

_ANSWERS = ("ground_truth", "possible_answer", "answer")
_NO_CALL = "irrelevance"


def is_bfcl(document: JsonValue) -> bool:
    """Whether it is such a list, or one entry of it."""
    return isinstance(document, list) or (
        isinstance(document, dict) and ("function" in document or "question" in document)
    )


def import_bfcl(document: JsonValue, name: str, rule_id: str = "", answers: JsonValue = None) -> Imported:
    """A rule with a case for each entry that has an answer.

    Args:
        document: the entries.
        name: what the rule is called; files of this kind have no name.
        rule_id: the rule's id; made of `name` if "".
        answers: the entries of a file of answers, None for no such file.

    Raises:
        SuiteError: a field of a wrong type, or no entry with an answer.
    """
    entries = document if isinstance(document, list) else [document]
    by_id = {item.get("id"): item for item in list_at(answers, "the answers") if isinstance(item, dict)}
    cases: list[JsonValue] = []
    kept_cases: dict[str, JsonValue] = {}
    notes: list[str] = []
    for place, item in enumerate(entries):
        where = f"[{place}]"
        entry = object_at(item, where)
        prompt = _prompt(entry.get("question"))
        if not prompt:
            notes.append(f"{where} has no prompt and is left out")
            continue
        case_id = unique_id(entry.get("id"), len(cases) + 1, kept_cases)
        expected = _expected(entry, by_id.get(entry.get("id"), {}), where)
        if isinstance(expected, str):
            notes.append(f"{where} ({case_id}) {expected} and is left out")
            continue
        case: JsonObject = {"id": case_id, "match": {"prompt": prompt}}
        cases.append(case | expected)
        kept_cases[case_id] = {key: entry[key] for key in ("question", "function") if key in entry}
    if not cases:
        raise SuiteError("expected at least one entry with a question and an answer; --answers names a file of answers")
    return Imported(head(rule_id or rule_id_of(name), name, "") | {"cases": cases}, {"bfcl": kept_cases}, notes)


def _prompt(question: JsonValue) -> str:
    """The last thing that the user says; "" where the user says nothing."""
    if isinstance(question, str):
        return question.strip()
    texts = [
        message["content"]
        for turn in (question if isinstance(question, list) else [])
        for message in (turn if isinstance(turn, list) else [turn])
        if isinstance(message, dict) and message.get("role") == "user" and isinstance(message.get("content"), str)
    ]
    return str(texts[-1]).strip() if texts else ""


def _expected(entry: JsonObject, answer: JsonObject, where: str) -> JsonObject | str:
    """What is expected of an entry; a text says why nothing is."""
    found = next((source[key] for source in (entry, answer) for key in _ANSWERS if source.get(key) is not None), None)
    if not found:
        if _NO_CALL in str(entry.get("id", "")) or _NO_CALL in str(entry.get("test_category", "")):
            return {"evaluator": "abstention", "should_call_tool": False}
        return "has no answer"
    calls: list[JsonValue] = []
    for place, call in enumerate(found if isinstance(found, list) else [found]):
        if not isinstance(call, dict):
            return "has an answer that is a program"
        for name, arguments in call.items():
            values = object_at(arguments, f"{where}.ground_truth[{place}].{name}")
            calls.append({"name": name, "args": {key: _accepted(value) for key, value in values.items()}})
    return {"evaluator": "tool-call-accuracy", "reference_tool_calls": calls}


def _accepted(values: JsonValue) -> JsonValue:
    """The matcher of the acceptable values; one value alone is a list of one."""
    options = values if isinstance(values, list) else [values]
    accepted: list[JsonValue] = [_criterion(value) for value in options if value != ""]
    if "" in options:
        accepted.append({"$absent": True})
    return {"$one_of": accepted} if accepted else {"$any": True}


def _criterion(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return {"$case_insensitive": value}
    if isinstance(value, dict):  # each member lists its acceptable values again
        return (
            {key: _accepted(member) for key, member in value.items()} if not _is_matcher(value) else {"$literal": value}
        )
    if isinstance(value, list):
        return [_criterion(item) for item in value]
    return value


def _is_matcher(value: JsonObject) -> bool:
    return any(key.startswith("$") for key in value)


def export_bfcl(rule: Rule, kept: JsonObject) -> list[JsonValue]:
    """The entries of a rule that was made by `import_bfcl`, each with its answer.

    Raises:
        SuiteError: a case that is none of these.
    """
    beside = object_at(kept.get("bfcl"), "bfcl")
    entries: list[JsonValue] = []
    for case in rule.cases.all if rule.cases is not None else ():
        entry: JsonObject = {"id": case.id}
        entry |= object_at(beside.get(case.id, {}), case.id)
        written: JsonObject = dict(case.spec.written)
        if case.spec.evaluator.name == "abstention":
            entries.append(entry | {"test_category": _NO_CALL})
            continue
        if case.spec.evaluator.name != "tool-call-accuracy":
            raise SuiteError(f"case {case.id!r}: expected tool-call-accuracy, found {case.spec.evaluator.name}")
        entry["ground_truth"] = list(_answer(list_at(written.get("reference_tool_calls"), f"case {case.id!r}")))
        entries.append(entry)
    return entries


def _answer(calls: list[JsonValue]) -> Iterator[JsonValue]:
    for call in calls:
        described = object_at(call, "a call")
        arguments = object_at(described.get("args") or {}, "args")
        yield {str(described["name"]): {key: _values(matcher) for key, matcher in arguments.items()}}


def _values(matcher: JsonValue) -> JsonValue:
    """The inverse of `_accepted`."""
    if not isinstance(matcher, dict) or "$one_of" not in matcher:
        return [""] if matcher == {"$any": True} else [_value(matcher)]
    return ["" if item == {"$absent": True} else _value(item) for item in list_at(matcher["$one_of"], "$one_of")]


def _value(criterion: JsonValue) -> JsonValue:
    if isinstance(criterion, list):
        return [_value(item) for item in criterion]
    if isinstance(criterion, dict):
        for word in ("$case_insensitive", "$literal"):
            if word in criterion:
                return criterion[word]
        return {key: _values(member) for key, member in criterion.items()}
    return criterion
