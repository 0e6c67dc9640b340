from dataclasses import replace

from pydantic import SecretStr

from alert.notify.listening import ALERT, GROUP, LINES, LINKS, NOW_NS, SUMMARY, Server
from tracegrade.alert.notify.slack import Slack
from tracegrade.alert.settings import SlackSettings


def slack(server: Server) -> Slack:
    return Slack("slack", SlackSettings(url=SecretStr(server.url)), LINKS)


def test_a_message_has_a_section_an_alert(server: Server) -> None:
    assert slack(server).send(GROUP, [ALERT], NOW_NS) is None
    ((_, body),) = server.requests
    first = "\n".join([f"*firing* (high) {SUMMARY}", *LINES])
    link = "<http://tracegrade|TraceGrade>"
    assert body == {
        "text": f"[firing: 1] {SUMMARY}",
        "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": text}} for text in (first, link)],
    }


def test_what_slack_reads_as_marks_is_escaped(server: Server) -> None:
    slack(server).send(GROUP, [replace(ALERT, service="<!channel>")], NOW_NS)
    ((_, body),) = server.requests
    assert "&lt;!channel&gt;" in body["text"]
    assert "<!channel>" not in body["blocks"][0]["text"]["text"]


def test_more_alerts_than_slack_takes_are_counted(server: Server) -> None:
    slack(server).send(GROUP, [replace(ALERT, service=str(number)) for number in range(60)], NOW_NS)
    ((_, body),) = server.requests
    assert len(body["blocks"]) == 42
    assert body["blocks"][-2]["text"]["text"] == "and 20 more"
