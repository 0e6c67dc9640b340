"""Keys and tokens of services, by the forms that their issuers publish.

A token stands by itself, between characters that no token has. One with a checksum is found within longer words too,
where its checksum is right; by itself it is found in any case, since issuers change how they count.

Sources: the issuers' documentation of their formats; GitHub, "Behind GitHub's new authentication token formats", on
prefix and checksum, which npm shares; our own tokens (`access.tokens`) have it, too.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from string import ascii_letters, digits
from zlib import crc32

from tracegrade.sensitive.detector import Detector, Part
from tracegrade.sensitive.likeness import is_likeness, likeness

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CHECKED = 6  # digits in base 62 at the end of a token


@dataclass(frozen=True, slots=True)
class _Form:
    """One form of token: what it begins with, what follows, and whether its end is right for its rest.

    The beginning tells a token from other text, so texts without any of ``begins`` are not searched. The beginning
    stays in the stand-in. ``first``: see `Detector`; () for the beginning and the fewest characters behind it.
    """

    name: str
    begins: tuple[str, ...]
    rest: str
    is_whole: Callable[[str], bool] | None = None
    cuts: tuple[str, ...] = ()
    first: tuple[str, ...] = ()


def _has_crc32(token: str) -> bool:
    """Whether the last six digits are the CRC-32, in base 62, of what stands between the first ``_`` and them."""
    body = token.partition("_")[2]
    number, written = crc32(body[:-_CHECKED].encode()), ""
    for _ in range(_CHECKED):
        number, digit = divmod(number, 62)
        written = _BASE62[digit] + written
    return written == body[-_CHECKED:]


_HEX32 = r"[0-9a-f]{32}"
_FORMS = (
    # GitHub, npm, AWS, GitLab, Slack
    _Form("aws_access_key", ("AKIA", "ASIA", "ABIA", "ACCA"), r"[A-Z0-9]{16}"),
    _Form("github_token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"[A-Za-z0-9]{36}", _has_crc32),
    _Form("github_token", ("github_pat_",), r"[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    # docs.gitlab.com: token prefixes
    _Form(
        "gitlab_token",
        ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "gloas-", "glsoat-", "glffct-", "glimt-", "glagent-", "glft-"),
        r"[\w\-]{20,64}",
    ),
    _Form("slack_token", ("xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xoxe.xoxp-", "xapp-"), r"[\w\-]{10,}"),
    _Form(
        "slack_webhook",
        ("hooks.slack.com/services/", "hooks.slack.com/workflows/"),
        r"T\w{8,12}/[AB]\w{8,12}/\w{20,64}",
    ),
    _Form("discord_webhook", ("discord.com/api/webhooks/", "discordapp.com/api/webhooks/"), r"\d{17,20}/[\w\-]{60,80}"),
    # Models
    _Form("anthropic_key", ("sk-ant-",), r"[\w\-]{20,}"),
    _Form("langfuse_key", ("sk-lf-",), r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    _Form("openrouter_key", ("sk-or-v1-",), r"[0-9a-f]{64}"),
    _Form(
        "openai_key",
        ("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-"),
        r"(?!ant-|proj-|svcacct-|admin-)(?=[\w\-]{0,80}\d)[\w\-]{20,}",
    ),
    _Form("hugging_face_token", ("hf_",), r"[A-Za-z0-9]{34,}"),
    _Form("groq_key", ("gsk_",), r"[A-Za-z0-9]{52}"),
    _Form("xai_key", ("xai-",), r"[A-Za-z0-9]{70,}"),
    _Form("perplexity_key", ("pplx-",), r"[A-Za-z0-9]{40,}"),
    _Form("replicate_token", ("r8_",), r"[A-Za-z0-9]{37}"),
    _Form("langsmith_key", ("lsv2_pt_", "lsv2_sk_"), r"[0-9a-f]{32}_[0-9a-f]{10}"),
    _Form("pinecone_key", ("pcsk_",), r"\w{40,}"),
    # Payment, mail, messages
    _Form("stripe_key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"), r"[A-Za-z0-9]{16,}"),
    _Form("sendgrid_key", ("SG.",), r"[\w\-]{22}\.[\w\-]{43}"),
    _Form("twilio_key", ("SK",), _HEX32),
    _Form(
        "telegram_token",
        ("",),
        r"\d{8,10}:AA[\w\-]{33}",
        cuts=(r"<:?A?A[\w\-]{20,34}>", r"\d{5}:(?:A(?:A[\w\-]*)?)?>", r"<\d{0,5}:AA[\w\-]{6}"),
        first=(r"\d:AA[\w\-]{33}",),
    ),
    # discord.com/developers: the number of the bot in base64, a time, a signature
    _Form(
        "discord_token",
        ("",),
        r"[MNO][A-Za-z0-9]{22,27}\.[\w\-]{6}\.[\w\-]{27,40}",
        cuts=(r"<[A-Za-z0-9]*\.[\w\-]{6}\.[\w\-]{20}", r"[A-Za-z0-9]{22}\.(?:[\w\-]{0,6}|[\w\-]{6}\.[\w\-]*)>"),
        first=(r"[A-Za-z0-9]\.[\w\-]{6}\.[\w\-]{27}",),
    ),
    _Form("square_token", ("sq0atp-", "sq0csp-"), r"[\w\-]{22,43}"),
    _Form("shopify_token", ("shpat_", "shpca_", "shppa_", "shpss_"), r"[0-9a-fA-F]{32}"),
    # Clouds and tools
    _Form("google_api_key", ("AIza",), r"[\w\-]{35}"),
    _Form("google_oauth", ("ya29.", "GOCSPX-"), r"[\w\-]{20,}"),
    _Form("azure_key", ("AccountKey=", "SharedAccessKey="), r"[A-Za-z0-9+/]{43,88}={0,2}"),
    # Microsoft Entra: the secret of an application
    _Form(
        "azure_secret",
        ("",),
        r"[\w.~\-]{3}[78]Q~[\w.~\-]{31,34}",
        cuts=(r"<[\w.\-]{0,2}[78]?Q?\x7e[\w.\x7e\-]{20}", r"[\w.\x7e\-]{3}[78]Q(?:\x7e[\w.\x7e\-]*)?>"),
        first=(r"[78]Q~[\w.~\-]{31}",),
    ),
    _Form("azure_signature", ("sig=",), r"[A-Za-z0-9%+/]{43,60}(?:%3D|=)"),
    _Form("digitalocean_token", ("dop_v1_", "doo_v1_", "dor_v1_"), r"[0-9a-f]{64}"),
    _Form("databricks_token", ("dapi",), _HEX32),
    _Form("vault_token", ("hvs.", "hvb."), r"[\w\-]{24,}"),
    _Form("grafana_token", ("glsa_",), r"[A-Za-z0-9]{32}_[0-9a-f]{8}"),
    _Form("atlassian_token", ("ATATT3",), r"[\w\-=]{40,}"),
    _Form("linear_key", ("lin_api_",), r"[A-Za-z0-9]{40}"),
    _Form("notion_token", ("ntn_",), r"[A-Za-z0-9]{40,}"),
    _Form("docker_token", ("dckr_pat_", "dckr_oat_"), r"[\w\-]{27,}"),
    _Form("npm_token", ("npm_",), r"[A-Za-z0-9]{36}", _has_crc32),
    _Form("pypi_token", ("pypi-AgEIcHlwaS5vcmc", "pypi-AgENdGVzdC5weXBpLm9yZw"), r"[\w\-]{50,}"),
    _Form("tracegrade_token", ("tgr_",), r"[A-Za-z0-9]{36}", _has_crc32),
)


_AT_BEGIN = re.compile(r"[\w\-]*+", re.ASCII)
_DIGIT = re.compile(r"\d")
_AHEAD = re.compile(r"\(\?[!=][^)]*\)")
_MORE = re.compile(r"\{(\d+),\d*\}$")


def _detector(form: _Form) -> Detector:
    begins = "|".join(map(re.escape, sorted(form.begins, key=len, reverse=True)))
    token = rf"(?:{begins})({form.rest})"
    by_itself = re.compile(rf"(?<![A-Za-z0-9]){token}(?![A-Za-z0-9])", re.ASCII)
    within = re.compile(token, re.ASCII) if form.is_whole is not None else None
    sign = f"(?:{begins}){_AHEAD.sub('', form.rest)}"
    find = partial(_find, form, by_itself, within)
    known = tuple(filter(None, form.begins))
    needs_digit = "(?=" in form.rest
    first = form.first or (_MORE.sub(r"{\1}", sign),)
    return Detector(
        form.name,
        find,
        likeness,
        signs=(sign,),
        may_be=_has_digit if needs_digit else None,
        begins=known,
        cuts=form.cuts,
        first=first,
        # Of words such as ``task-list-of-the-whole-department``; what has a checksum may stand within others.
        not_behind=ascii_letters + digits if needs_digit else "",
    )


def _has_digit(text: str) -> bool:
    """Whether the token has a digit, or what looks like the end of it, and stands behind it on the wire."""
    return _DIGIT.search(_AT_BEGIN.match(text)[0]) is not None  # type: ignore[index]  # it matches the empty text


def _find(
    form: _Form, by_itself: re.Pattern[str], within: re.Pattern[str] | None, text: str, key: str
) -> Iterator[Part]:
    if not any(begin in text for begin in form.begins):
        return
    found = {match.span(1) for match in by_itself.finditer(text)}
    if within is not None and form.is_whole is not None:
        found |= {match.span(1) for match in within.finditer(text) if form.is_whole(match.group())}
    yield from sorted(part for part in found if not is_likeness(text[slice(*part)]))


DETECTORS = tuple(map(_detector, _FORMS))
