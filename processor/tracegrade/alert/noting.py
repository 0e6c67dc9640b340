"""What people do about an incident: acknowledge it, make themselves its owner, comment.

Each is noted, with who and when. The page, the API and the command line call these, and have checked the right.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection

from tracegrade.codec.json_text import storable
from tracegrade.model.errors import NotFound, NotPossible, WrongValue
from tracegrade.store.documents import new_id
from tracegrade.store.incidents import Incident, Note, NoteKind, add_note, stored_incident
from tracegrade.store.open import changing_store

LONGEST_TEXT = 2000
"""Characters of a text that somebody types."""
MOST_NOTES = 500
"""Notes of one incident; silencing and accepting it are possible, and noted, beyond that."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who acts: ``name`` as in the access log, or "local"; ``tenant`` is whose data they see, None for all.

    ``redacted`` makes of a text that they typed, and of its tenant, what may be kept; ``redacted_name`` of a name in
    which only detectors look.
    """

    name: str
    tenant: str | None
    redacted: Callable[[str, str], str]
    redacted_name: Callable[[str, str], str]


def acknowledge(store_url: str, incident_id: str, author: Author, now_ns: int) -> None:
    """Stop repeated notifications of an incident, until its level rises; Alertmanager, which forgets, is still sent it.

    Doing so twice changes nothing.

    Raises:
        NotFound: there is no such incident.
        NotPossible: it is over, or has too many notes.
        StoreError: the store cannot be opened.
    """
    with changing_store(store_url) as connection:
        incident = _incident(connection, incident_id)
        if incident.state != "firing":
            raise NotPossible(f"incident {incident.id} is over: nobody is notified of it again")
        if incident.acknowledged is None or incident.acknowledged.author != author.name:
            note(connection, incident, author, "acknowledged", now_ns)


def own(store_url: str, incident_id: str, author: Author, now_ns: int) -> None:
    """Make `author` the owner of an incident, in place of whoever is. Raises as `acknowledge`, also where it fires."""
    with changing_store(store_url) as connection:
        incident = _incident(connection, incident_id)
        if incident.owner != author.name:
            note(connection, incident, author, "owned", now_ns)


def comment(store_url: str, incident_id: str, author: Author, text: str, now_ns: int) -> None:
    """Add a comment to an incident, redacted.

    Raises:
        WrongValue: it is empty, or too long.
        NotFound, NotPossible, StoreError: as `acknowledge`; of one that is over, too, people may comment.
    """
    written = typed(text, "comment")
    if not written:
        raise WrongValue("comment: expected some text, found none")
    with changing_store(store_url) as connection:
        incident = _incident(connection, incident_id)
        kept = author.redacted(written, incident.lead.tenant)
        note(connection, incident, author, "commented", now_ns, kept)


def typed(text: str, name: str) -> str:
    """`text` as it may be stored once it is redacted, without space around it.

    Raises:
        WrongValue: it is too long.
    """
    written = storable(text.strip().replace("\r\n", "\n"))
    if len(written) > LONGEST_TEXT:
        raise WrongValue(f"{name}: expected at most {LONGEST_TEXT:,} characters, found {len(written):,}")
    return written


def note(
    connection: Connection, incident: Incident, author: Author, kind: NoteKind, now_ns: int, text: str = ""
) -> None:
    """Note what `author` did; `text` is redacted."""
    add_note(connection, incident, Note(new_id(), now_ns, author.name, kind, incident.level, text))


def _incident(connection: Connection, incident_id: str) -> Incident:
    if (found := stored_incident(connection, incident_id)) is None:
        raise NotFound(f"there is no incident {incident_id[:200]!r}, or none any more")
    if len(found.notes) >= MOST_NOTES:
        raise NotPossible(f"incident {found.id} has {MOST_NOTES} notes, and takes no more")
    return found
