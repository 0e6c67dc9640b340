"""Which rules judge which subjects.

Takes an `Extraction` and a `RuleSet` (read from YAML by `rule.load`), gives one `Match` for each rule and subject that
belong together, in order of scope, subject and rule id. Loses nothing: for every pair that does not match, `explain`
names the clause. Pure, and the cost grows with the rules that match, not with the rules loaded: `index` is made once of
a `RuleSet`.
"""
