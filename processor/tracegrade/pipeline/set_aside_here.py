"""A record that was set aside, read again by whoever asks for it, as far as nobody else is there to do it."""

from tracegrade.config import Config
from tracegrade.journal.errors import JournalLocked
from tracegrade.journal.local import LocalJournal
from tracegrade.pipeline.data_folder import JUDGE, DataFolder


def retry_unless_somebody_else_does(config: Config) -> None:
    """Put what is asked for at the journal's end; a running receive role holds the journal, and does it itself.

    Raises:
        OSError, JournalError: the disk refused.
    """
    folder = DataFolder(config.data_path)
    consumed = folder.consumed((JUDGE, *config.exporters))
    try:
        journal = LocalJournal.open(folder.journal, config.journal, consumed=consumed)
    except JournalLocked:
        return
    try:
        folder.set_aside.retry(lambda entry: journal.append(entry).result())
    finally:
        journal.close()
