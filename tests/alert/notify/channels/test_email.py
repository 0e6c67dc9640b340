import socketserver
import threading
from collections.abc import Iterator
from email import message_from_bytes, policy

import pytest

from build.listening import INCIDENT, LINES, LINKS, NOW_NS, PAGE, SUMMARY
from tracegrade.alert.notify.channels.email import Email
from tracegrade.alert.notify.settings import EmailSettings


class MailServer(socketserver.ThreadingTCPServer):
    """As much of SMTP as it takes to be given a mail."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.mails: list[bytes] = []
        self.refused = ""


class _Session(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self._say("220 here")
        while line := self.rfile.readline().decode().strip():
            word = line.split(" ")[0].upper()
            if word == "DATA":
                self._say("354 go on")
                mail = b""
                while (part := self.rfile.readline()) != b".\r\n":
                    mail += part
                self.server.mails.append(mail)
            refused = word == "RCPT" and self.server.refused and self.server.refused in line
            self._say("550 nobody" if refused else "221 bye" if word == "QUIT" else "250 ok")
            if word == "QUIT":
                return

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    with MailServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def email(port: int) -> Email:
    settings = EmailSettings(
        host="127.0.0.1", port=port, tls="none", sender="tg@example.org", to=["a@example.org", "b@example.org"]
    )
    return Email("mail", settings, LINKS)


def test_a_mail_says_what_an_alert_says_and_twice_the_same_has_one_id(mail_server: MailServer) -> None:
    channel = email(mail_server.server_address[1])
    for _ in range(2):
        assert channel.send(INCIDENT, NOW_NS) is None
    first, second = (message_from_bytes(mail, policy=policy.default) for mail in mail_server.mails)
    assert first["Subject"] == f"[firing] {SUMMARY}"
    assert (first["From"], first["To"]) == ("tg@example.org", "a@example.org, b@example.org")
    assert first["Message-ID"] == second["Message-ID"] == f"<{INCIDENT.id}.firing@tracegrade>"
    assert first.get_content().splitlines() == [f"FIRING (high): {SUMMARY}", *LINES, "", PAGE]


def test_a_mail_that_not_everybody_gets_is_a_failure(mail_server: MailServer) -> None:
    mail_server.refused = "b@example.org"
    assert email(mail_server.server_address[1]).send(INCIDENT, NOW_NS) == "refused b@example.org"


def test_a_server_that_is_not_there_is_a_failure(mail_server: MailServer) -> None:
    mail_server.shutdown()
    mail_server.server_close()
    assert email(mail_server.server_address[1]).send(INCIDENT, NOW_NS) == "not sent: ConnectionRefusedError"
