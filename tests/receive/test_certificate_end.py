"""When certificates end."""

from datetime import UTC, datetime

import pytest
import trustme
from cryptography import x509

from build import each
from tracegrade.receive.certificate_end import certificate_end

PEM_ENDS = "-----END CERTIFICATE-----"


@each(
    "end",
    [
        datetime(2030, 6, 1, 12, 30, 15, tzinfo=UTC),
        datetime(2049, 12, 31, tzinfo=UTC),
        datetime(2099, 1, 1, tzinfo=UTC),
    ],
)
def test_the_end_is_that_of_the_servers_own_certificate(end: datetime) -> None:
    authority = trustme.CA()
    chain = b"".join(part.bytes() for part in authority.issue_cert("localhost", not_after=end).cert_chain_pems)
    assert certificate_end(chain + authority.cert_pem.bytes()) == end
    assert x509.load_pem_x509_certificates(chain)[0].not_valid_after_utc == end


def test_what_holds_no_certificate_says_so() -> None:
    whole = trustme.CA().cert_pem.bytes().decode()
    head, body, *_ = whole.splitlines()
    for damaged in ("", "no", head, whole.replace(PEM_ENDS, ""), "\n".join([head, body, PEM_ENDS])):
        with pytest.raises(ValueError, match="certificate"):
            certificate_end(damaged.encode())
