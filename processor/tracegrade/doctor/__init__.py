"""Find what is wrong with an installation and its data, and say what to set.

Takes: the settings, the data folder, the journal and the store, all read beside a running ``serve``. Gives: findings,
each from one check. May lose: nothing; only the newest traces and the newest part of the journal are looked at, and
findings say of how many they speak. `installation` looks at disk, journal and processes, `arrivals` at when spans come,
`content` at what spans say, `judging` at what rules made of them; `examine` asks them all.
"""
