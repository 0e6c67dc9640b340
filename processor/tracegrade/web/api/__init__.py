"""The JSON API under ``/api/v1``: the same reads as the pages and the command line, and requests for deletion.

One small file for each resource, with a FastAPI router and its operations: one function each, with its parameters and
its answer. Fields have the same names as in the command line's JSON. Lists come in pages, newest first, which do not
shift when new results are stored. Errors are ``application/problem+json``.
"""
