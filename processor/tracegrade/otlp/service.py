"""The service that a request is of, without decoding the request."""

from tracegrade.otlp.wire import BYTES, RESOURCES, Field, field_at, fields


def service_of(payload: bytes) -> str:
    """The name of the service of a request's first resource; "" when there is none.

    `payload` is a request of traces or logs that was parsed before.
    """
    for resource in fields(payload, 0, len(payload), RESOURCES):
        return service_of_resource(payload, resource)
    return ""


def service_of_resource(payload: bytes, resources: Field) -> str:
    """The name of the service of one resource of a request, a field `RESOURCES`; "" when there is none."""
    for resource in fields(payload, resources.value, resources.end, 1):
        for attribute in fields(payload, resource.value, resource.end, 1):
            key = value = b""
            at = attribute.value
            while at < attribute.end:
                field = field_at(payload, at)
                if field.number == 1:
                    key = payload[field.value : field.end]
                elif field.number == 2 and field.wire_type == BYTES:
                    texts = fields(payload, field.value, field.end, 1)
                    value = next((payload[text.value : text.end] for text in texts), b"")
                at = field.end
            if key == b"service.name":
                return value.decode("utf-8", "replace")
    return ""
