"""The statistics of alerts, pure: outcomes in, findings out.

A look at one series is one file by the kind of alert: `drop`, `bound` (``below``, and ``above`` of shares), `mean`
(``rise``, and ``above`` of values), `coverage`, `burn` (``slo``) and `silence`. The last two count. The others weigh
what came, by `evidence` (has a share changed?), `recovery` (is it back?) or `bets` (the same of a mean), against what
is `usual`. Of many series, `stands_out` says which fire. `steps` is what goes in, `finding` what comes out.
"""
