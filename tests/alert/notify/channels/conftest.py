from alert.notify.channels.listening import server

__all__ = ["server"]
