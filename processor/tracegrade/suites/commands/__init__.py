"""The commands of suites and jobs: options and printing."""
