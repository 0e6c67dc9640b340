"""The path without processes, the only package that knows every stage.

`record_judge` takes journal records in and gives traces and sessions judged; `session_judge` judges sessions as their
traces close. `serve` runs it live, `replay` over files or a stored journal, with `workers` on all cores, and
`rule_tests` over a rule's own traces: they differ only in where records come from and where results go.
"""
