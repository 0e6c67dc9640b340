"""The page for people and the JSON API: reads of the store, the rules in force and the published metrics.

Nothing is written but requests for deletion.

A Starlette app in a process of its own (`pipeline.web_role`), so that a slow view delays neither receiving nor judging.
Pages are rendered here, with charts as SVG; they ask no other host for anything, and work without the script, which
only brings in new results. What a view shows is all in its address, so that it can be shared.
"""
