from dataclasses import replace

from pydantic import SecretStr

from build.listening import ALERT, INCIDENT, LINES, LINKS, NOW_NS, PAGE, SUMMARY, Server, incident
from tracegrade.alert.notify.channels.slack import Slack
from tracegrade.alert.notify.settings import SlackSettings


def slack(server: Server) -> Slack:
    return Slack("slack", SlackSettings(url=SecretStr(server.url)), LINKS)


def test_a_message_has_a_section_and_a_link(server: Server) -> None:
    assert slack(server).send(INCIDENT, NOW_NS) is None
    ((_, body),) = server.requests
    first = "\n".join([f"*firing* (high) {SUMMARY}", *LINES])
    link = f"<{PAGE}|TraceGrade>"
    assert body == {
        "text": f"[firing] {SUMMARY}",
        "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": text}} for text in (first, link)],
    }


def test_what_slack_reads_as_marks_is_escaped(server: Server) -> None:
    slack(server).send(incident(replace(ALERT, service="<!channel>")), NOW_NS)
    ((_, body),) = server.requests
    assert "&lt;!channel&gt;" in body["text"]
    assert "<!channel>" not in body["blocks"][0]["text"]["text"]


def test_more_alerts_than_people_read_are_counted(server: Server) -> None:
    slack(server).send(incident(*(replace(ALERT, service=str(number)) for number in range(60))), NOW_NS)
    ((_, body),) = server.requests
    said = body["blocks"][0]["text"]["text"]
    assert len(said) <= 3000
    assert said.count("Also firing") == 10
    assert said.endswith("And 49 more alerts.")
