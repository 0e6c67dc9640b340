"""The page for people and the JSON API: reads of the store, the rules in force and the published metrics.

It writes suites, what people say of runs and incidents, and requests for deletion.

A Starlette app in a process of its own (`serve.web_role`), so that a slow view delays neither receiving nor judging.
Pages are rendered here, with charts as SVG; they load nothing from other hosts, and work without the script, which
only brings in new results. The address of a view says all that it shows, so that it can be shared.
"""
