"""Incidents by mail."""

import smtplib
import ssl
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime

from tracegrade.alert.notify.links import Links
from tracegrade.alert.notify.message import subject, text
from tracegrade.alert.notify.settings import EmailSettings
from tracegrade.store.incidents import Incident


class Email:
    """Sends one mail for each incident, over a new connection."""

    resend_s: float | None = None
    records = False

    def __init__(self, name: str, settings: EmailSettings, links: Links) -> None:
        self.name = name
        self._settings = settings
        self._links = links

    def send(self, incident: Incident, now_ns: int) -> str | None:
        """Mail `incident`. Returns None when the server took the mail for all addresses, else why not. Blocks."""
        try:
            with self._connected() as server:
                if refused := server.send_message(self._mail(incident, now_ns)):
                    return f"refused {', '.join(refused)}"
        except (smtplib.SMTPException, OSError) as error:
            return f"not sent: {type(error).__name__}"
        return None

    def close(self) -> None:
        """Does nothing: no connection is kept open."""

    def _connected(self) -> smtplib.SMTP:
        settings = self._settings
        place = (settings.host, settings.port)
        if settings.tls == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                *place, timeout=settings.timeout, context=ssl.create_default_context()
            )
        else:
            server = smtplib.SMTP(*place, timeout=settings.timeout)
        try:
            if settings.tls == "starttls":
                server.starttls(context=ssl.create_default_context())
            if settings.username:
                server.login(settings.username, settings.password.get_secret_value())
        except (smtplib.SMTPException, OSError):
            server.close()
            raise
        return server

    def _mail(self, incident: Incident, now_ns: int) -> EmailMessage:
        mail = EmailMessage()
        mail["Subject"] = " ".join(subject(incident).split())
        mail["From"] = self._settings.sender
        mail["To"] = ", ".join(self._settings.to)
        mail["Date"] = format_datetime(datetime.fromtimestamp(now_ns // 1_000_000_000, UTC))
        # The same for the same news, so that a mail that was sent twice is shown once.
        mail["Message-ID"] = f"<{incident.id}.{incident.state}@tracegrade>"
        mail.set_content(text(incident, self._links))
        return mail
