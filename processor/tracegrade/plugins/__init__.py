"""What installed packages add to TraceGrade: dialects and evaluators, found by entry point.

Whoever starts something that reads traces or rules calls `installed.load_plugins` before: importing loads none.
"""
