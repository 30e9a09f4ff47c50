"""A client of Gleaner, the web data collection appliance.

    from gleaner import Gleaner

    with Gleaner("https://box.example", api_key="glk_…") as client:
        collection = client.collect(["https://shop.example/1", "https://shop.example/2"])
        collection.wait(on_progress=print)
        frame = client.sql("select url, name, price from latest_products").to_pandas()

`AsyncGleaner` is the same for asyncio.
"""

from . import errors, models, webhooks
from ._async.client import AsyncGleaner
from ._async.events import AsyncEventStream
from ._async.jobs import AsyncCollection, AsyncJob
from ._async.sql import AsyncQuery
from ._http import Meta, meta
from ._progress import Progress
from ._sync.client import Gleaner
from ._sync.events import EventStream
from ._sync.jobs import Collection, Job
from ._sync.sql import Query
from ._version import __version__
from .errors import (
    ApiError,
    AuthenticationFailed,
    CollectInterrupted,
    Conflict,
    ConnectionFailed,
    EventGap,
    ExportFailed,
    GleanerError,
    IgnoredFieldsWarning,
    InvalidRequest,
    JobFailed,
    NoAnswer,
    NotFound,
    PaymentRequired,
    PermissionDenied,
    PreconditionFailed,
    QueryFailed,
    RateLimited,
    ServerError,
    ServiceUnavailable,
    WaitTimeout,
    WebhookRejected,
)

__all__ = [
    "ApiError",
    "AsyncCollection",
    "AsyncEventStream",
    "AsyncGleaner",
    "AsyncJob",
    "AsyncQuery",
    "AuthenticationFailed",
    "CollectInterrupted",
    "Collection",
    "Conflict",
    "ConnectionFailed",
    "EventGap",
    "EventStream",
    "ExportFailed",
    "Gleaner",
    "GleanerError",
    "IgnoredFieldsWarning",
    "InvalidRequest",
    "Job",
    "JobFailed",
    "Meta",
    "NoAnswer",
    "NotFound",
    "PaymentRequired",
    "PermissionDenied",
    "PreconditionFailed",
    "Progress",
    "Query",
    "QueryFailed",
    "RateLimited",
    "ServerError",
    "ServiceUnavailable",
    "WaitTimeout",
    "WebhookRejected",
    "__version__",
    "errors",
    "meta",
    "models",
    "webhooks",
]
