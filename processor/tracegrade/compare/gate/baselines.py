"""What ``--baseline`` and ``not_worse_than`` name: a saved file, a run that it names, or what is stored."""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tracegrade.compare.gate.against import Baseline
from tracegrade.compare.gate.baseline_file import SavedBaseline, baseline_text, read_baseline
from tracegrade.compare.gate.results import Results, results_of
from tracegrade.compare.progress import Progress, unseen
from tracegrade.compare.sides import CompareError, Side, named_side
from tracegrade.compare.store.sides import runs_with_results
from tracegrade.document.problem import did_you_mean
from tracegrade.model.errors import NotFound, NotPossible, TraceGradeError
from tracegrade.pipeline.gate import Bounds
from tracegrade.rule.gate import ANY_BASELINE, BASELINE_NAME, LONGEST_NAME
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.errors import StoreError
from tracegrade.store.open import reading_store
from tracegrade.store.result_filter import ResultFilter

FOLDER = Path(".tracegrade/baselines")
"""Where baselines are saved, below the folder in which a command is called."""

_SUFFIX = ".json"


class Baselines:
    """Finds baselines."""

    def __init__(
        self,
        store_url: str,
        rule_set: RuleSet,
        time_of: Callable[[str], int],
        *,
        folder: Path = FOLDER,
        shared: ResultFilter | None = None,
        progress: Progress = unseen,
    ) -> None:
        """Look in `folder`, and in the store at `store_url`.

        Args:
            store_url: where runs and what was judged live are.
            rule_set: the rules in force, which say how incomplete traces count.
            time_of: the time that a text names, in ns since 1970 UTC; for sides with a time.
            folder: where saved baselines are.
            shared: a filter of what is stored, as of what is compared with it; without it, all that a side names.
            progress: shows how far reading the store is.
        """
        self._store_url = store_url
        self._rule_set = rule_set
        self._time_of = time_of
        self._folder = folder
        self._shared = ResultFilter() if shared is None else shared
        self._progress = progress
        self._asked: dict[str, Baseline] = {}

    def of_gate(self, bounds: Bounds) -> Callable[[str], Baseline]:
        """Gives the baseline of a name as a gate asks for it: what the command line names has to be there.

        Raises:
            FileError: the one that the command line names is no baseline, or damaged.
            NotFound: there is none of that name.
            CompareError: it is a side without a result.
        """
        known = {} if bounds.baseline is None else {bounds.baseline: self.asked(bounds.baseline)}
        return lambda name: known.get(name) or self.named(name)

    def named(self, name: str) -> Baseline:
        """The saved baseline that a rule file names; where there is none, one with a ``problem``.

        Raises:
            FileError: the file is no baseline, or damaged.
        """
        path = self._folder / f"{name}{_SUFFIX}"
        if not path.exists():
            hint = did_you_mean(name, saved_names(self._folder))
            return Baseline(name, None, f"no baseline {name!r} is saved in {self._folder}{hint}")
        return self._saved(path, name)

    def asked(self, text: str) -> Baseline:
        """The baseline that the command line names: a saved one, a file, or a side as `compare` takes it.

        Raises:
            FileError: the file is no baseline, or damaged.
            NotFound: there is none.
            CompareError: the side has no result.
        """
        if text not in self._asked:
            self._asked[text] = self._find(text)
        return self._asked[text]

    def _find(self, text: str) -> Baseline:
        path = self._folder / f"{text}{_SUFFIX}"
        if path.exists():
            return self._saved(path, text)
        if text.endswith(_SUFFIX) or (os.sep in text and Path(text).is_file()):
            if not Path(text).exists():
                raise NotFound(f"--baseline: no file {text!r}; 'tracegrade baseline save' writes one")
            return self._saved(Path(text), text)
        shared = replace(self._shared, agent=None) if text.startswith("agent:") else self._shared
        side = named_side(text, self._time_of, shared)
        return Baseline(text, self._stored(text, side), side=side)

    def _saved(self, path: Path, name: str) -> Baseline:
        try:
            saved = read_baseline(path)
        except NotPossible as error:
            return Baseline(name, None, str(error))
        if saved.run is None:
            return Baseline(name, saved.results)
        side = Side(saved.run, replace(self._shared, run=saved.run, tenant=saved.tenant))
        try:
            return Baseline(name, self._stored(saved.run, side), side=side)
        except (CompareError, NotFound) as error:
            return Baseline(name, None, f"{name} names the run {saved.run!r}: {error}")

    def _stored(self, text: str, side: Side) -> Results:
        try:
            with reading_store(self._store_url, self._shared.tenant) as connection:
                if side.result_filter.run not in (known := runs_with_results(connection)):
                    raise self._nothing(text, known)
                return results_of(connection, side, self._rule_set, self._progress)
        except StoreError as error:
            hint = did_you_mean(text, saved_names(self._folder))
            raise NotFound(f"no baseline {text!r} in {self._folder}, and no stored run ({error}){hint}") from None

    def _nothing(self, text: str, runs: list[str]) -> NotFound:
        hint = did_you_mean(text, [*saved_names(self._folder), *runs])
        hint = hint or f"; 'tracegrade baseline save {text}' saves one"
        return NotFound(f"no baseline {text!r} in {self._folder}, and no run of that name in the store{hint}")


def saved_names(folder: Path = FOLDER) -> list[str]:
    """The names of the baselines in a folder, in order."""
    return sorted(path.stem for path in folder.glob(f"*{_SUFFIX}"))


def saved_path(text: str, folder: Path = FOLDER) -> Path:
    """The file of a baseline, by its name or its path.

    Raises:
        NotFound: there is none.
    """
    if (path := folder / f"{text}{_SUFFIX}").exists():
        return path
    if Path(text).is_file():
        return Path(text)
    hint = did_you_mean(text, saved_names(folder)) or "; 'tracegrade baseline save NAME' saves one"
    raise NotFound(f"no baseline {text!r} in {folder}{hint}")


def check_name(name: str) -> None:
    """Refuse what cannot name a baseline.

    Raises:
        NotFound: it cannot.
    """
    if not re.fullmatch(BASELINE_NAME, name) or len(name) > LONGEST_NAME or name == ANY_BASELINE:
        raise NotFound(
            f"a baseline cannot be called {name!r}: expected at most {LONGEST_NAME} letters, digits, '_', '.', '+' and "
            f"'-', none of the last three at the beginning, and not {ANY_BASELINE!r}, which stands for the one that "
            "--baseline names"
        )


def save(saved: SavedBaseline, path: Path) -> None:
    """Write a baseline, in place of what was there; its folder is made.

    Raises:
        TraceGradeError: that is not possible.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(baseline_text(saved), encoding="utf-8")
    except OSError as error:
        raise TraceGradeError(f"{path}: cannot be written: {error.strerror or error}") from None
