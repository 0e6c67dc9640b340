from build.listening import server

__all__ = ["server"]
