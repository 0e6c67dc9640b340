"""A deletion carried out by whoever asks for it, as far as nobody else is there to do it."""

from tracegrade.config import Config
from tracegrade.deletion.carry_out import erase_from_journal, erase_from_results
from tracegrade.deletion.request import Deletion, Deletions
from tracegrade.journal.errors import JournalLocked
from tracegrade.journal.local import LocalJournal
from tracegrade.pipeline.data_folder import JUDGE, DataFolder, consumers_of_results
from tracegrade.store.open import open_store


def carry_out_what_nobody_else_does(config: Config, deletion: Deletion) -> Deletion:
    """Do the parts of `deletion` whose turn it is and whose role does not run; how far it is then.

    While a role runs it holds its lock, and does its part itself.

    Raises:
        OSError, TraceGradeError, SQLAlchemyError: a disk or database refused; it is done at the next start of the role.
    """
    folder, deletions = DataFolder(config.data_path), Deletions(config.data_path)
    try:
        if deletion.state in ("requested", "resolved"):
            consumed = folder.consumed((JUDGE, *config.exporters))
            journal = LocalJournal.open(folder.journal, config.journal, consumed=consumed)
            try:
                (deletion,) = erase_from_journal(
                    [deletion],
                    deletions,
                    journal,
                    folder.journal,
                    store_url=config.store_url,
                    remembered_s=config.remembers_deleted_for,
                )
                folder.set_aside.erase(set(deletion.trace_ids))
            finally:
                journal.close()
        if deletion.state == "erased":
            consumed = folder.consumed(consumers_of_results(config.exporters))
            results = LocalJournal.open(folder.results, config.journal, name="results", consumed=consumed)
            engine = open_store(config.store_url)
            try:
                # What the store does not hold yet is not stored later: its records are erased first.
                (deletion,) = erase_from_results([deletion], deletions, results, engine)
            finally:
                engine.dispose()
                results.close()
    except JournalLocked:
        pass
    return deletion
