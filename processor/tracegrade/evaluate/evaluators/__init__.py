"""One evaluator a file, nothing else; `tracegrade.evaluate.registry` lists them."""
