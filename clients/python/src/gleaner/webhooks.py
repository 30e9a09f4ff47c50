"""Verifying what an output of the kind `webhook` delivers: the signatures `v1` of Standard Webhooks.

    from gleaner import webhooks

    event = webhooks.verify(request.headers, request.body, secret=os.environ["WEBHOOK_SECRET"])

A message may come twice, under the same `webhook-id`: keep the ids that you have seen for two days.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .errors import WebhookRejected

#: How far the sender's clock and this one's may be apart, and how old a message may be, in seconds.
TOLERANCE_SEC = 300


def verify(
    headers: Mapping[str, str],
    body: bytes | str,
    *,
    secret: str | Sequence[str],
    tolerance: float = TOLERANCE_SEC,
    now: float | None = None,
) -> Any:
    """The JSON of a message that is signed with `secret`; raises `WebhookRejected` for any other.

    Args:
        headers: Of the request, with names in whatever case.
        body: As it came, byte for byte; not what a framework has parsed and written again.
        secret: The `whsec_…` that the answer that made the output showed; several while a secret is changed.
        tolerance: Seconds that the message may be old, or ahead of this clock.
        now: Seconds since 1970, in place of the clock's.
    """
    raw = body.encode() if isinstance(body, str) else bytes(body)
    named = {name.lower(): value for name, value in headers.items()}
    try:
        identity, moment, signatures = (named[f"webhook-{it}"] for it in ("id", "timestamp", "signature"))
    except KeyError as missing:
        raise WebhookRejected(f"there is no header {missing.args[0]}") from None
    if not (moment.isascii() and moment.isdigit() and len(moment) <= 12):
        raise WebhookRejected("webhook-timestamp is no number of seconds")
    distance = (time.time() if now is None else now) - int(moment)
    if abs(distance) > tolerance:
        raise WebhookRejected(f"the message is {'too old' if distance > 0 else 'of the future'}: check the clock, too")
    signed = b".".join([identity.encode(), moment.encode(), raw])
    secrets = [secret] if isinstance(secret, str) else list(secret)
    expected = [hmac.new(key_of(it), signed, hashlib.sha256).digest() for it in secrets]
    given = [_decoded(it[3:]) for it in signatures.split() if it.startswith("v1,")]
    if not given:
        raise WebhookRejected("there is no signature v1")
    # Every pair is compared, so that how long it takes says nothing.
    if not any([hmac.compare_digest(ours, theirs) for ours in expected for theirs in given]):
        raise WebhookRejected("no signature fits the message and the secret")
    try:
        return json.loads(raw)
    except ValueError as error:
        raise WebhookRejected(f"the message is no JSON: {error}") from None


def key_of(secret: str) -> bytes:
    """The bytes of a `whsec_…`. ValueError where it is none: that is the receiver's mistake and not the sender's."""
    try:
        key = base64.b64decode(secret.strip().removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("secret: is no whsec_ key") from None
    if not 24 <= len(key) <= 64:
        raise ValueError("secret: a whsec_ key has 24 to 64 bytes")
    return key


def _decoded(signature: str) -> bytes:
    try:
        return base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        return b""
