"""The store: traces, results and what people keep beside them, in SQLite or PostgreSQL; all SQL but that of parts.

- Open it: `open`; which stores are refused: `check`, `version`, `errors`; a damaged one: `files`, `salvage`.
- Tables: `schema`, which `migrations` brings up to date. The two databases: `sqlite`, `postgresql` (with `partitions`),
  behind the interface `database`, which `registry` gives; `tenant_views`, `several_processes`. The configuration:
  `settings`.
- Write results: `write`. Which rules judged afterwards: `backfills`. Delete: `delete`.
- Read traces: `read` whole, `heads` in lists, `senders` by who sends them.
- Read results: `results` in lists, `tallies` as numbers, `history` for alerts. A `result_filter` chooses them; `series`
  and `index` find them; `named` finds what an id or its beginning names.
- Records that are a row each, by `documents`: `runs`, `alerts`, `incidents`; `rule_texts` has the rules as
  they were, `diagnosis` what an alert says of its cause.
"""
