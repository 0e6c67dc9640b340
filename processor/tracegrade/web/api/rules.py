"""The rules in force."""

from dataclasses import asdict
from typing import Any

from tracegrade.rule.summary import rule_summary
from tracegrade.store.backfills import stored_backfills
from tracegrade.store.errors import StoreError
from tracegrade.store.rule_texts import rule_versions
from tracegrade.web.api.documents import Document, ExactJson
from tracegrade.web.api.operations import Operations
from tracegrade.web.api.parameters import ApiSources, NoParameters, PathName
from tracegrade.web.problem import not_found
from tracegrade.web.sources import Sources

router = Operations()


class RuleDocument(Document):
    """One rule in short. Its rule hash covers how it judges and is on every result; its text hash covers all of it."""

    rule: str
    category: str
    title: str
    level: str
    status: str
    scope: str
    evaluators: list[str]
    hash: str
    text_hash: str


class RuleVersion(Document):
    """A text of a rule, and since when it is or was in force, ns since 1970 UTC."""

    text_hash: str
    rule_hash: str
    since_ns: int


class Rules(Document):
    """All rules in force."""

    items: list[RuleDocument]


class BackfillDocument(Document):
    """What `rules backtest --store` judged afterwards by the rule, ns since 1970 UTC; results are of run `backfill`.

    It is not `complete` while it is being stored, or when that broke off.
    """

    tenant: str
    rule_hash: str
    made_ns: int
    since_ns: int
    until_ns: int
    subjects: int
    complete: bool


class WholeRule(RuleDocument):
    """One rule with all that its file says, as JSON; ``tracegrade rules schema`` describes that.

    Its versions are the texts that are stored, the latest first; none where there is no store yet, and no backfills.
    """

    definition: dict[str, Any]
    versions: list[RuleVersion]
    backfills: list[BackfillDocument]


@router.operation("GET /rules", "The rules in force", Rules)
def list_rules(sources: ApiSources, query: NoParameters) -> ExactJson:
    """The rules in force, in short."""
    rule_set = sources.rule_set()
    return ExactJson({"items": [rule_summary(rule, rule_set.paths[rule.id]) for rule in rule_set.rules]})


@router.operation("GET /rules/{rule_id:path}", "One rule", WholeRule, 404)
def show_rule(sources: ApiSources, rule_id: PathName, query: NoParameters) -> ExactJson:
    """One rule in force: all that its file says, and the versions of its text and the backfills that are stored."""
    rule_set = sources.rule_set()
    rule = rule_set.rule(rule_id)
    if rule is None:
        raise not_found(f"rule {rule_id[:200]!r} in force")
    definition = rule.model_dump(mode="json", exclude_defaults=True)
    summary = rule_summary(rule, rule_set.paths[rule.id])
    return ExactJson({**summary, "definition": definition, **_stored(sources, rule.id)})


def _stored(sources: Sources, rule_id: str) -> dict[str, list[dict[str, Any]]]:
    try:
        with sources.store() as connection:
            versions = rule_versions(connection, rule_id, sources.tenant)
            backfills = stored_backfills(connection, rule_id)
    except StoreError:  # its rules can be read before anything was judged
        versions, backfills = [], []
    return {
        "versions": [
            {"text_hash": item.text_hash, "rule_hash": item.rule_hash, "since_ns": item.since_ns} for item in versions
        ],
        "backfills": [{name: value for name, value in asdict(item).items() if name != "rule_id"} for item in backfills],
    }
