"""Models that answer by OpenAI's chat completions, whoever serves them: their settings, a client, and what they said.

Keys are sent to the address in the settings and nowhere else: no redirect is followed, and no error, trace or stored
run holds one.
"""
