from alert.receivers.listening import server

__all__ = ["server"]
