"""A rule's history goes on when its text is edited: results no longer carry the hash of the whole text.

Only the small tables change: series, and rules' texts. Results keep their ids and their hash; from now on,
``rule_texts`` and ``series.present_hash`` say which hash the rule with that hash has now. Alerts keep their
fingerprints, by which channels recognise them.

A rule's hash is computed again from its text. It stays unchanged if the text is missing, cannot be read by this
version, or if the packages are not those that judged.
"""

import sqlalchemy as sa
from alembic import op
from pydantic import ValidationError

from tracegrade.document.yaml_text import parse
from tracegrade.model.errors import TraceGradeError
from tracegrade.plugins.installed import load_plugins
from tracegrade.rule.rule import Rule
from tracegrade.store.migrations.versions.v0001_first import RESULTS, hexadecimal

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    load_plugins()
    op.rename_table("rule_texts", "rule_texts_by_hash")
    op.create_table(
        "rule_texts",
        sa.Column("rule_id", sa.Text, primary_key=True),
        sa.Column("since_ns", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("text_hash", sa.Text, nullable=False),
        sa.Column("rule_hash", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
    )
    connection = op.get_bind()
    query = "SELECT rule_hash, rule_id, first_seen_ns, text FROM rule_texts_by_hash ORDER BY first_seen_ns, rule_hash"
    latest: dict[str, int] = {}
    for earlier_hash, rule_id, first_seen_ns, text in connection.execute(sa.text(query)).all():
        since_ns = latest[rule_id] = max(first_seen_ns, latest.get(rule_id, -1) + 1)
        row = {"rule_id": rule_id, "since_ns": since_ns, "text_hash": earlier_hash, "text": text}
        connection.execute(
            sa.text("INSERT INTO rule_texts VALUES (:rule_id, :since_ns, :text_hash, :rule_hash, :text)"),
            {**row, "rule_hash": _rule_hash(rule_id, earlier_hash, text)},
        )
    op.drop_table("rule_texts_by_hash")
    op.create_index("rule_texts_by_hash", "rule_texts", ["text_hash"])
    op.create_table(
        "rule_sets",
        sa.Column("hash", sa.Text, primary_key=True),
        sa.Column("judgement_hash", sa.Text, nullable=False),
    )
    op.add_column("series", sa.Column("present_hash", sa.Text, nullable=False, server_default=""))
    op.add_column("series", sa.Column("tracegrade", sa.Text, nullable=False, server_default=""))
    op.execute(
        "UPDATE series SET present_hash = coalesce("
        "(SELECT min(known.rule_hash) FROM rule_texts AS known WHERE known.text_hash = series.rule_hash), rule_hash)"
    )
    op.execute("DROP VIEW results")
    results = RESULTS.replace("    e.id AS id\n", "    e.id AS id,\n    s.tracegrade AS tracegrade\n")
    op.execute(results.format(trace_id=hexadecimal("t.trace_id")))


def _rule_hash(rule_id: str, earlier_hash: str, text: str) -> str:
    """The hash of the rule that was written so."""
    try:
        rule = Rule.model_validate(parse(text, rule_id).value)
    except (ValidationError, TraceGradeError):
        return earlier_hash
    others_judged = rule.packages and rule.text_hash != earlier_hash
    return earlier_hash if others_judged else rule.hash
