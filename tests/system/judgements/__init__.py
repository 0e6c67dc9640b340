"""All judgements of captures, rule tests, vectors and generated traces, in one file that two commits can compare."""
