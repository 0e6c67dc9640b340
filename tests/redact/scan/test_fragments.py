"""Values that are split within pieces of JSON, as streamed arguments of tools are, and whole ones beside odd texts."""

import json

from build import each
from build.otlp import otlp_span, payload
from tracegrade.model.signal import Signal
from tracegrade.receive.redaction import trial_redactor
from tracegrade.redact.settings import RedactionSettings

TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
CARD = "4111111111111111"


def redacted(**attributes: object) -> bytes:
    request = payload([otlp_span(1, 1, **attributes)])
    return trial_redactor(RedactionSettings()).redacted(Signal.TRACES, request, "default").payload


@each("at", range(4, 13))
def test_a_card_that_is_split_within_json_is_found_in_neighbouring_texts(at: int) -> None:
    whole = json.dumps({"card": CARD, "amount": 5})
    cut = whole.index(CARD) + at
    rest = f'{CARD[at:]}", '
    assert rest.encode() not in redacted(first=whole[:cut], second=whole[cut:])
    in_list = json.dumps([whole[:cut], whole[cut:]])
    assert json.dumps(rest)[1:-1].encode() not in redacted(pieces=in_list)


@each("at", range(6, 30, 4))
def test_a_token_that_is_split_within_the_content_of_messages_is_found(at: int) -> None:
    whole = json.dumps({"value": TOKEN})
    cut = whole.index(TOKEN) + at
    messages = [{"role": "user", "content": piece} for piece in (whole[:cut], whole[cut:])]
    assert TOKEN[at:].encode() not in redacted(gen_ai__input__messages=json.dumps(messages))


@each("secret", ["password=hunter2x9", "client_secret=9dk3Jd82hQx"])
def test_a_secret_is_found_also_before_a_text_that_looks_like_a_stand_in(secret: str) -> None:
    assert secret.partition("=")[2].encode() not in redacted(first=secret, second="AAAAAAAAAAAA")
