"""What changed rules would have said of traces that are stored: before anything is deployed.

`sources` finds the rules on both sides, and which of them differ. `judged` judges a trace by both, in a worker.
`changes` adds up what changed. `alerts` says when alerts would have fired. `backtest` does one after the other.
"""
