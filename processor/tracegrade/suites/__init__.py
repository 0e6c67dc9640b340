"""Suites of tool-calling cases: from other systems' files to rules with cases, and back.

A rule holds what is judged. What only a run of the suite needs (tool definitions, mock responses, rounds) is kept
beside it, as ``suite.json``, so that an export has it again. Criteria that were imported are literal:
``matchers: false``.
"""
