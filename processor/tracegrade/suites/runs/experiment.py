"""The experiment that an eval of a stored suite goes into: one about this suite, so that deltas compare one suite.

A suite has an experiment of its *own*, for evals that name none. It is found by the suite's id, whatever either is
called later.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from sqlalchemy import Connection

from tracegrade.history.runs.recorded_run import check_experiment
from tracegrade.model.errors import NotPossible, WrongValue
from tracegrade.store.runs import Experiment, own_experiment, save_experiment, stored_experiment
from tracegrade.suites.imported import rule_id_of
from tracegrade.suites.runs.evals import suite_about
from tracegrade.suites.store.suites import StoredSuite, stored_suite

_LONGEST_BASE = 80


class OtherSuite(NotPossible):
    """An eval of one suite does not go into an experiment about another; the message says which, and what to do."""


def experiment_for(connection: Connection, suite: StoredSuite, name: str | None, now_ns: int) -> Experiment:
    """The experiment that an eval goes into, which is about its suite from now on.

    Args:
        connection: in the transaction that queues the eval, or just before its runs are begun.
        suite: what is run.
        name: the experiment's, which may be new; None: the suite's own, which is made where there is none.
        now_ns: when a new one is made.

    Raises:
        OtherSuite: the experiment is about another suite.
        WrongValue: the name cannot be one.
    """
    if name is None:
        return _experiment_of_suite(connection, suite, now_ns)
    check_experiment(connection, suite.tenant, "experiment", name)
    found = stored_experiment(connection, suite.tenant, name) or Experiment(suite.tenant, name, now_ns, None, 0)
    about = suite_about(connection, found)
    if about not in (None, suite.id):
        raise OtherSuite(
            f"the experiment {name!r} is about the suite {_called(connection, suite.tenant, str(about))}, and an eval "
            f"of {suite.id} ({suite.name!r}) cannot be measured in it; choose another experiment, or leave it out. To "
            f"change that suite instead, import with suite_id, or by 'suite import --replace {about}': it keeps its id"
        )
    return _about(connection, found, suite, own=found.own)


def _experiment_of_suite(connection: Connection, suite: StoredSuite, now_ns: int) -> Experiment:
    if (found := own_experiment(connection, suite.tenant, suite.id)) is not None:
        return found
    for name in _possible_names(suite):
        found = stored_experiment(connection, suite.tenant, name)
        if found is not None and suite_about(connection, found) == suite.id:
            return _about(connection, found, suite, own=True)
        if found is None and _is_free(connection, suite.tenant, name):
            return _about(connection, Experiment(suite.tenant, name, now_ns, None, 0), suite, own=True)
    raise AssertionError("names do not end")


def _about(connection: Connection, experiment: Experiment, suite: StoredSuite, *, own: bool) -> Experiment:
    about = replace(experiment, suite=suite.id, own=own)
    save_experiment(connection, about)
    return about


def _possible_names(suite: StoredSuite) -> Iterator[str]:
    """What a suite's own experiment may be called: as the suite, or also with its id."""
    name = rule_id_of(suite.name)
    yield name
    with_id = f"{name[:_LONGEST_BASE].rstrip('-')}-{suite.id}"
    yield with_id
    yield from (f"{with_id}-{number}" for number in count(2))


def _is_free(connection: Connection, tenant: str, name: str) -> bool:
    try:
        check_experiment(connection, tenant, "experiment", name)
    except WrongValue:
        return False
    return True


def _called(connection: Connection, tenant: str, id_: str) -> str:
    """A suite by its id, and its name while it is stored."""
    found = stored_suite(connection, tenant, id_)
    return f"{id_} (deleted)" if found is None else f"{id_} ({found.name!r})"
