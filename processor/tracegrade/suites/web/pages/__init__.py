"""The pages of suites and evals, one in each file."""
