"""Personal data and secrets, found in values and replaced by stand-ins of the same kind.

Takes any JSON value: texts, JSON in texts, JSON in that, keys, and numbers. Gives the value with stand-ins in place of
what was found. By `Redactor`, the same value always gets the same stand-in, so that what was equal is equal afterwards,
and a value that came from an earlier call still does. Texts around what was found stay as they came, byte by byte.

``settings.py`` is what users say of it, ``places.py`` what that means for one tenant and service, ``requests/`` goes
through requests of OTLP for the receiver, ``redactor.py`` through values for commands that write traces to files.

Pure: no clock, network, log or chance. Cost: each detector reads each text once, in time that grows with its length.

May miss: what no detector knows, such as names and addresses of streets, and what a sender wrote in a code of its own.
Only `requests` looks at what is split over several texts.
"""
