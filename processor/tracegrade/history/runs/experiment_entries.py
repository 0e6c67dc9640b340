"""Entries of an experiment's timeline that other tools reported: what tuned parameters, prompts, or let a model judge.

A *tune* reports its best score and the configuration that gave it. It is promoted: an entry of its own, of the type
`eval`, holds that result, so that the timeline shows it among the evals. A tune counts for what is best in an
experiment, as evals do; a judge's score is of another kind, and is compared with nothing.
"""

import time
from collections.abc import Mapping
from dataclasses import replace

from tracegrade.history.runs.experiments import known_experiment
from tracegrade.history.runs.run_changes import check_unpinned
from tracegrade.model.errors import NotPossible
from tracegrade.model.json_value import JsonValue
from tracegrade.store.documents import new_id
from tracegrade.store.open import changing_store
from tracegrade.store.runs import PROMOTED, TUNES, Entry, ReportedKind, add_entry, delete_entry, entry_count

MOST_ENTRIES = 10_000


def report(
    store_url: str,
    tenant: str,
    experiment: str,
    kind: ReportedKind,
    score: float | None,
    configuration: Mapping[str, JsonValue],
) -> list[Entry]:
    """Add what another tool found to the timeline of an experiment.

    Args:
        store_url: the store.
        tenant: whose.
        experiment: its name.
        kind: what the tool did.
        score: its best, 0 to 1; None: it has none.
        configuration: what gave that score.

    Returns:
        The entry, and the one that was promoted from it, if it is a tune with a score.

    Raises:
        NotFound: there is no such experiment.
        NotPossible: there are too many entries.
    """
    with changing_store(store_url) as connection:
        known_experiment(connection, tenant, experiment)
        if entry_count(connection, tenant, experiment) >= MOST_ENTRIES:
            raise NotPossible(f"{experiment} has {MOST_ENTRIES} entries, the most there may be")
        entry = Entry(
            tenant=tenant,
            experiment=experiment,
            id=new_id(),
            kind=kind,
            at_ns=time.time_ns(),
            score=score,
            configuration=dict(configuration),
        )
        entries = [entry]
        if kind in TUNES and score is not None:
            entries.append(replace(entry, id=new_id(), kind=PROMOTED, promoted_from=entry.id))
        for item in entries:
            add_entry(connection, item)
    return entries


def delete_promoted(store_url: str, entry: Entry, *, force: bool = False) -> None:
    """Delete the eval that was promoted from a tune; the tune stays.

    Raises:
        NotPossible: without `force`, another experiment has it pinned as its baseline.
    """
    with changing_store(store_url) as connection:
        if not force:
            check_unpinned(connection, entry.tenant, (), [entry.id], but=entry.experiment)
        delete_entry(connection, entry.tenant, entry.experiment, entry.id)
