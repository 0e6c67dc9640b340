"""A recorded trace becomes a test: judged, shortened, redacted, judged again, and written.

`promotion` does it for one trace and one rule; `rule_test_files` plans the files beside the rule; `chosen` finds the
traces that are worth a test.
"""
