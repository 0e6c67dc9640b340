"""Who calls, and what they may: callers, their rights, and the tokens made by ``tracegrade tokens``.

Receivers, the page and the API ask here. A caller is known by a token that was made (it has a name, roles and perhaps a
tenant), by one that the settings hold (it may do everything), or not at all.
"""
