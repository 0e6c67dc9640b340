from cli.test_promote import rule

__all__ = ["rule"]
