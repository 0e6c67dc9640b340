import pytest
from pydantic import SecretStr, ValidationError

from build.listening import INCIDENT, NOW_NS, SUMMARY, Server

pytest.importorskip("apprise", reason="needs pip install -e '.[notify]'")

from tracegrade.alert.notify.channels.apprise import Apprise
from tracegrade.alert.notify.links import NO_LINKS
from tracegrade.alert.notify.settings import AppriseSettings


# Its modules for other services use what Python deprecates.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_goes_by_way_of_apprise(server: Server) -> None:
    settings = AppriseSettings(urls=[SecretStr(f"json://127.0.0.1:{server.server_port}/hook")])
    channel = Apprise("other", settings, NO_LINKS)
    assert channel.send(INCIDENT, NOW_NS) is None
    ((_, body),) = server.requests
    assert (body["title"], body["type"]) == (f"[firing: 1] {SUMMARY}", "failure")
    server.status = 500
    assert channel.send(INCIDENT, NOW_NS) == "some service of apprise did not take it"
    channel.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_address_that_apprise_does_not_know_is_refused_without_being_shown() -> None:
    with pytest.raises(ValidationError, match="of the form of number 1") as refusal:
        AppriseSettings(urls=[SecretStr("nothing-like-it://hidden")])
    assert "hidden" not in str(refusal.value)
