"""What runs the best configuration of an experiment again."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from tracegrade.history.runs.experiments import known_experiment
from tracegrade.model.errors import NotPossible
from tracegrade.model.json_value import JsonValue
from tracegrade.model.short_hash import short_hash
from tracegrade.suites.jobs.suite_request import SuiteRequest, suite_request
from tracegrade.suites.keeping import known_suite
from tracegrade.suites.runs.evals import EvalStanding, EvalTimeline, eval_timeline, model_keys, suite_about

_ASKED = ("temperature", "tool_choice", "system_prompt", "repeat")


def best_request(connection: Connection, tenant: str, experiment: str, models: Sequence[str] = ()) -> SuiteRequest:
    """What is asked of a job that runs the best configuration.

    Args:
        connection: to the store.
        tenant: whose.
        experiment: its name.
        models: to be asked in place of those of the configuration.

    Raises:
        NotFound: there is no such experiment.
        NoSuchSuite: its suite was deleted.
        NotPossible: it has no best, or that cannot be run: no stored suite, no models, or a configuration that is none.
    """
    found = eval_timeline(connection, known_experiment(connection, tenant, experiment))
    if found.best is None:
        raise NotPossible(f"{experiment} has no best configuration: nothing of it has a score")
    suite_id = suite_about(connection, found.experiment)
    if suite_id is None:
        raise NotPossible(f"{experiment} is about no stored suite: nothing can be run")
    suite = known_suite(connection, tenant, suite_id)
    best = found.best
    if isinstance(best, EvalStanding):
        given: Mapping[str, JsonValue] = best.eval.configuration
        own = short_hash(suite.system_prompt.encode()) if suite.system_prompt else ""
        if best.eval.job is None and best.eval.system_prompt_hash != own:
            raise NotPossible(
                f"the best of {experiment}, {best.eval.id}, was asked with another system prompt than the suite has, "
                "which is not stored: submit an eval with it"
            )
    else:
        given = best.entry.configuration
    chosen = list(models) or model_keys(given) or _models_of(found)
    if not chosen:
        raise NotPossible(f"the best configuration of {experiment} names no models: send some")
    asked = {key: given[key] for key in _ASKED if given.get(key) is not None}
    prompts = asked.get("system_prompt")
    if isinstance(prompts, dict):  # of models that are not asked now, too
        asked["system_prompt"] = {key: text for key, text in prompts.items() if key in chosen}
    return suite_request({**asked, "suite": suite.id, "models": chosen, "experiment": experiment})


def _models_of(found: EvalTimeline) -> list[str]:
    """The models of the best eval, of the evals alone."""
    evals = [item.eval for item in found.evals if item.eval.score is not None and item.delta_note is None]
    best = max(evals, key=lambda item: item.score or 0.0, default=None)
    return [] if best is None else [str(model) for model in best.models]
