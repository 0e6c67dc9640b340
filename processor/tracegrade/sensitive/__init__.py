"""Detection of personal data and secrets: `detectors/` finds them, one kind a file, and `registry` lists all.

``redact`` takes what is found out of traces; the matcher ``$secret`` says that a secret is there. Both ask the same
detectors, so that they mean the same.

Pure: no clock, network, log or chance. Cost: each detector reads each text once, in time that grows with its length.
"""
