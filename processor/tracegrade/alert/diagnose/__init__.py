"""What broke when an alert begins to fire: why results are bad, which slices of them, and what changed near that time.

Takes an alert and the store, gives a `Diagnosis`. Results since the beginning are compared with those of seven days
before it. Counts are exact and read from sums; all else is read from stored traces that are spread evenly over both
times, bad results apart from good ones, each at most as many as `cases.MOST_CASES`. So the cost does not grow with the
number of results: at most five times `store.spread.MOST_ROWS` rows of traces are read without their values, and three
times more for each new model or prompt (at most six of both), whose first minute is looked for; the values or the spans
are read of at most six times `cases.MOST_READ` traces. `tests/system/bench/diagnose.py` measures it.
"""
