"""The JSON API under ``/api/v1``: the same reads as the pages and the command line, and requests for deletion.

One small file a resource, with a FastAPI router and its operations: a function each, which says what it takes and what
it answers with. Fields have the names that the command line's JSON has. Lists come in pages, newest first, that what is
stored meanwhile does not shift. Errors are ``application/problem+json``.
"""
