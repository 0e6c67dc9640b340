"""Work of a role that does not run, done by the command that requests it: deletions, and records to be read again.

A role that runs holds the lock of its journal and does its part itself; the functions here then do nothing.
"""

from collections.abc import Sequence
from contextlib import ExitStack, suppress

from tracegrade.config import Config
from tracegrade.deletion.carry_out import bury, erase_from_files, erase_from_journal, erase_from_results
from tracegrade.deletion.request import Deletion, Deletions
from tracegrade.journal.errors import JournalLocked
from tracegrade.journal.kafka.produce import KafkaJournal
from tracegrade.journal.local import LocalJournal
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.plugins.installed import load_plugins
from tracegrade.receive.redacted_ids import RedactedIds
from tracegrade.serve.receiving.received_in_kafka import lock_receiving
from tracegrade.store.open import open_store
from tracegrade.telemetry.metrics import Telemetry


def run_deletion_offline(config: Config, deletion: Deletion) -> Deletion:
    """Do the parts of `deletion` that are due and whose role does not run. Returns the deletion with its new state.

    Raises:
        OSError, TraceGradeError, SQLAlchemyError: a disk or database refused; the role does it at its next start.
    """
    load_plugins()  # dialects say which attributes hold sessions and users
    folder, deletions = DataFolder(config.data_path), Deletions(config.data_path)
    try:
        if deletion.state in ("requested", "resolved"):
            deletion = _erase_received(config, folder, deletion)
            folder.set_aside.erase(deletion.trace_ids, deletion.choice.tenant)
        if deletion.state in ("erased", "unstored"):
            with ExitStack() as opened:
                results = []
                for name in folder.results_journals():
                    path, consumed = folder.path / name, folder.consumed_of(name)
                    results.append(LocalJournal.open(path, config.journal, name=name, consumed=consumed))
                    opened.callback(results[-1].close)
                if deletion.state == "erased":
                    deletion = _erase_results(config, folder, deletion, results)
                if deletion.state == "unstored":
                    (deletion,) = erase_from_files([deletion], deletions, config.parquet, folder.path)
    except JournalLocked:
        pass
    return deletion


def _erase_received(config: Config, folder: DataFolder, deletion: Deletion) -> Deletion:
    """The receive role's part of `deletion`."""
    deletions, url, remembered_s = Deletions(folder.path), config.store_url, config.remembers_deleted_for
    ids = RedactedIds(config.redaction, folder.path)
    with ExitStack() as opened:
        if config.journal.kafka is not None:
            opened.callback(lock_receiving(folder).release)
            (erased,) = bury([deletion], deletions, store_url=url, ids=ids, remembered_s=remembered_s)
            return erased
        journal = LocalJournal.open(folder.journal, config.journal, consumed=folder.consumed())
        opened.callback(journal.close)
        (erased,) = erase_from_journal(
            [deletion], deletions, journal, folder.journal, store_url=url, ids=ids, remembered_s=remembered_s
        )
        return erased


def _erase_results(config: Config, folder: DataFolder, deletion: Deletion, results: Sequence[LocalJournal]) -> Deletion:
    """The judge's part of `deletion`."""
    engine = open_store(config.store_url, update=True)
    try:
        # Records are erased first, so that results that the store does not hold yet are not stored later.
        with_files = config.parquet is not None
        deletions = Deletions(folder.path)
        (erased,) = erase_from_results([deletion], deletions, results, engine, with_files=with_files)
        deletions.forget_erased_by(deletion)
        folder.forget_traces(deletion.trace_ids)
    finally:
        engine.dispose()
    return erased


def retry_set_aside_offline(config: Config) -> None:
    """Append the records whose reading again was requested to the journal, unless a receive role runs.

    Raises:
        OSError, JournalError: the disk refused.
    """
    folder = DataFolder(config.data_path)
    with ExitStack() as opened, suppress(JournalLocked):
        journal: LocalJournal | KafkaJournal
        if config.journal.kafka is not None:
            opened.callback(lock_receiving(folder).release)
            settings = config.journal.kafka.of_instance(folder.instance_id())
            journal = KafkaJournal.open(settings, Telemetry("receive"))
        else:
            journal = LocalJournal.open(folder.journal, config.journal, consumed=folder.consumed())
        opened.callback(journal.close)
        folder.set_aside.retry(lambda entry: journal.append(entry).result())
