"""Chooses which of a rule's cases a subject meets.

These ways are tried in order; the first that finds a case decides. Of several cases, it is the first in the file:

1. the id in the attribute ``tracegrade.case.id`` or ``test.case.name``: with it, no other case is tried;
2. ``attributes`` alone;
3. the exact prompt, except for white space;
4. a prompt's ``{$regex: ...}``;
5. the most similar prompt, without regard to letter case, if at least ``similarity`` (as ``$similarity``; 1: never).

Worked example, a rule of three cases: `paris` asks for the prompt "What's the weather in Paris?", `anywhere` for
``{$regex: "(?i)weather"}``, `vip` for the attribute ``tenant.tier: gold``.

- A run whose span has ``tracegrade.case.id: anywhere`` meets `anywhere`, whatever its prompt.
- A gold tenant's run meets `vip`: attributes alone are tried before prompts.
- The prompt "What's  the weather in Paris?" meets `paris`: except for white space, it is that prompt.
- "Weather in Rome?" meets `anywhere`: its expression matches.
- "What's the wether in Paris?" meets `paris`: no expression matches, and 27 of 28 characters are equal.
- A run whose prompt was not recorded may meet `paris` or `anywhere`: which one is unknown.
"""

from collections.abc import Iterable

from tracegrade.match.facts import LONG_PROMPT, UNREADABLE_PROMPT, Facts
from tracegrade.model.tri import Unknown
from tracegrade.rule.case import CASE_ID_ATTRIBUTES, Case, Cases

_LONGEST_COMPARED = 10_000  # characters of a prompt that is compared by similarity


def choose(cases: Cases, facts: Facts) -> Case | Unknown | None:
    """The case that the subject meets, None without one; unknown where the prompt, which might decide, does not."""
    named = next((value for name in CASE_ID_ATTRIBUTES if (value := facts.attribute(name)) is not None), None)
    if named is not None:
        return cases.by_id.get(named) if isinstance(named, str) else None
    if (case := _first(cases.by_attributes, facts)) is not None:
        return case
    if facts.prompt is None or facts.normalised_prompt is None or facts.unknown("prompt") is not None:
        return UNREADABLE_PROMPT if cases.by_prompt or cases.by_regex else None
    case = _first(cases.by_prompt.get(facts.normalised_prompt, ()), facts)
    if case is None:
        case = _first((case for case, prompt in cases.by_regex if prompt.match(facts.prompt)), facts)
    case = case or _most_like(cases, facts.normalised_prompt, facts)
    if case is None and any(prompt.is_too_long(facts.prompt) for _, prompt in cases.by_regex):
        return LONG_PROMPT
    return case


def _most_like(cases: Cases, prompt: str, facts: Facts) -> Case | None:
    from rapidfuzz.distance import Levenshtein  # takes 40 ms, and only rules with cases need it

    if len(prompt) > _LONGEST_COMPARED:
        return None
    sought, best, most = prompt.lower(), None, 0.0
    for text, found in cases.by_prompt.items():
        for case in found:
            least = max(case.match.similarity, most)
            likeness = Levenshtein.normalized_similarity(sought, text.lower(), score_cutoff=least)
            if likeness >= least and likeness > most and _fits(case, facts):
                best, most = case, likeness
    return best


def _first(cases: Iterable[Case], facts: Facts) -> Case | None:
    return next((case for case in cases if _fits(case, facts)), None)


def _fits(case: Case, facts: Facts) -> bool:
    return all(patterns.match(facts.attribute(name)) for name, patterns in case.match.attributes.items())
