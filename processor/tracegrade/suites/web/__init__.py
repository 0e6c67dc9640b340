"""The pages and the operations of suites, jobs and evals."""
