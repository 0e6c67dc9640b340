"""What is known of a run before anything is judged."""

import time
from collections.abc import Mapping
from pathlib import Path

from tracegrade.config import Config
from tracegrade.history.runs.git_revision import git_revision
from tracegrade.pipeline.version import tracegrade_version
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.runs import Run


def new_run(
    tenant: str,
    experiment: str,
    labels: Mapping[str, str],
    source: str,
    selection: Mapping[str, object],
    rule_set: RuleSet,
    config: Config,
) -> Run:
    """A run that begins now and has no name yet; `selection` says what of `source` is in it, and how."""
    now_ns = time.time_ns()
    return Run(
        tenant=tenant,
        name="",
        experiment=experiment,
        begun_ns=now_ns,
        written_ns=now_ns,
        labels=labels,
        source=source,
        selection=selection,
        rule_set_hash=rule_set.hash,
        judgement_hash=rule_set.judgement_hash,
        settings_hash=config.settings_hash,
        rules={
            rule.id: {
                "hash": rule.hash,
                "level": rule.level,
                "status": rule.status,
                "incomplete": rule.incomplete,
                "path": rule_set.paths[rule.id],
                "scored_by": "overall" if rule.is_suite else "pass_rate",
            }
            for rule in rule_set.rules
        },
        tracegrade=tracegrade_version(),
        git_revision=git_revision(Path.cwd()),
        releases=[],
    )
