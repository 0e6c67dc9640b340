"""The rows of suites, of jobs, and of what was run of them: their tables are in `tables`."""
