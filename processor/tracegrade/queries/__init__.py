"""What people ask of what is stored, declared once for the command line, the API and the page.

`parameters` declares the parameters of each read: their names, types and meanings. The options of a command
(`cli.options.query_options`), the query of an operation with its OpenAPI entry (`web.api.parameters.asked`) and the
filters of a page are made from them. `lists` and `incidents` have the reads that come in pages; `times` reads points in
time.

To add a filter: a field of `store.result_filter.ResultFilter` with its condition, and a parameter of the query.
"""
