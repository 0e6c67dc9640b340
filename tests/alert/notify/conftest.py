from alert.notify.listening import server

__all__ = ["server"]
