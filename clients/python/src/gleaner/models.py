"""What the API takes and gives, as types: a TypedDict for every schema of the OpenAPI document.

Members are named as on the wire (`job["resultId"]`). At run time they are plain dicts, so a box of a later release may
give members that are not here.
"""

# Made by generate.py; changes are lost.

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

if sys.version_info >= (3, 11):
    from typing import NotRequired
elif TYPE_CHECKING:
    from typing_extensions import NotRequired
else:  # Of the types nothing but their names is used at run time.
    NotRequired = Union


class AcceptInviteRequest(TypedDict):
    #: From the message.
    token: str


class AccountExportView(TypedDict):
    id: str
    status: ExportStatusView
    requestedAt: str
    finishedAt: str | None
    #: When the file goes.
    expiresAt: str
    #: Null until it is made.
    byteSize: int | None
    #: A link that needs no credential, for 15 minutes from now. Null until the export is made.
    downloadUrl: str | None


class ActionView(TypedDict):
    """Something that can be clicked."""

    id: str
    label: str
    #: Whether it can be clicked again; no unless said.
    repeatable: NotRequired[bool]
    #: What a client echoes with the id, or nothing.
    value: Any


class ActorView(TypedDict):
    type: ActorType
    #: Of the user or the key.
    id: str | None
    #: What they are called now; null for a user who was erased and a key that was deleted.
    name: str | None
    #: Of a key: whose it is.
    userId: str | None


class AdapterView(TypedDict):
    """An adapter in the catalog."""

    #: What `adapter` of a new provider names.
    adapter: str
    name: str
    about: str
    #: The vendor's documentation.
    docs: str | None
    #: The vendor's address, which `baseUrl` can replace; null where there is none.
    baseUrl: str | None
    #: JSON Schema of `credentials`.
    credentials: dict[str, Any]
    #: JSON Schema of `settings`.
    settings: dict[str, Any]
    credits: dict[str, PriceView]
    #: Why it cannot be connected on this box; null when it can.
    unavailable: str | None


class AdapterViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[AdapterView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class AgentMessageView(TypedDict):
    """One message of a conversation."""

    id: str
    #: From 1, without gaps.
    seq: int
    #: The message of the user that the turn began with.
    turnId: str
    role: MessageRole
    text: str
    #: The card that it shows.
    cardId: NotRequired[str]
    #: The statement that it tells of.
    queryId: NotRequired[str]
    createdAt: str


class AgentMessageViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[AgentMessageView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class AgentPointView(TypedDict):
    x: Any
    y: float


class AgentView(TypedDict):
    """A conversation over the data."""

    id: str
    name: str
    createdAt: str


class AgentViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[AgentView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class ApiKeyView(TypedDict):
    id: str
    name: str
    #: The first 8 characters of the secret.
    prefix: str
    kind: KeyKind
    permissions: list[str]
    createdBy: str
    createdAt: str
    expiresAt: str | None
    lastUsedAt: str | None


class ApiKeyViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[ApiKeyView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class ApproveCliAuthRequest(TypedDict):
    #: Case, spaces and hyphens do not count.
    user_code: str


class ApprovedCliAuthView(TypedDict):
    ok: bool
    hostname: str


class AttemptView(TypedDict):
    n: int
    nodeId: str | None
    providerId: str
    startedAt: str
    durationMs: int
    outcome: Outcome
    httpStatus: int | None
    #: Received on the wire.
    bytes: int
    credits: int
    costSource: CostSource
    #: The detection rule that spoke.
    rule: str | None
    error: str | None


class Attribute(TypedDict):
    """One attribute of a schema: what it is called, where it is found, and what it has to look like."""

    #: Unique within the schema: a letter or `_`, then letters, digits, `_` and `-`, 128 characters at most.
    name: str
    #: XPath 1.0 expressions, tried in order until one yields a value.
    xpaths: list[str]
    #: JSONPath queries (RFC 9535) over the JSON that the page is or carries, tried in order behind the XPaths. What
    #: stands before the `$` says in which JSON: nothing is the page itself, or the largest JSON in its scripts;
    #: `ld+json` is every block of linked data; another word is a script's `id`, or the name that a script assigns to.
    #: An attribute has at least one XPath or JSONPath.
    jsonPaths: NotRequired[list[str]]
    #: What the found text is made into.
    type: AttributeType
    description: str | None
    #: Regular expressions (case-insensitive); a text that matches one is treated as not found.
    antiPatterns: list[str] | None
    semanticType: SemanticType | None
    #: What a value must satisfy to count as valid.
    validation: NotRequired[Validation]


class AttributeCoverageView(TypedDict):
    pageType: str
    attribute: str
    #: Results of the page type in the period that were read by a schema.
    results: int
    #: Those in which the attribute has a value.
    found: int
    #: `found`, as a part of `results`: null where there are none.
    coverage: float | None
    #: The same in the time of the same length before. An attribute that was found then is listed also when it is not
    #: now.
    previousCoverage: float | None
    #: Those in which its value differs from the URL's result before.
    changed: int


class AttributeDrift(TypedDict):
    """How one attribute does beside its own past."""

    name: str
    state: DriftState
    since: str | None
    #: The newest results, ten at most.
    recent: FoundShare
    #: Those before; they stand still while the attribute is not well.
    baseline: FoundShare


class AttributeErrorView(TypedDict):
    """Why an attribute has no value, or one that is not trusted."""

    name: str
    reason: AttributeErrorReason
    #: What happened at which XPath, or which limit a value misses.
    detail: str | None


class AttributeInput(TypedDict):
    """One attribute of a schema: what it is called, where it is found, and what it has to look like."""

    #: Unique within the schema: a letter or `_`, then letters, digits, `_` and `-`, 128 characters at most.
    name: str
    #: XPath 1.0 expressions, tried in order until one yields a value.
    xpaths: NotRequired[list[str]]
    #: JSONPath queries (RFC 9535) over the JSON that the page is or carries, tried in order behind the XPaths. What
    #: stands before the `$` says in which JSON: nothing is the page itself, or the largest JSON in its scripts;
    #: `ld+json` is every block of linked data; another word is a script's `id`, or the name that a script assigns to.
    #: An attribute has at least one XPath or JSONPath.
    jsonPaths: NotRequired[list[str] | None]
    #: What the found text is made into.
    type: AttributeType
    description: NotRequired[str | None]
    #: Regular expressions (case-insensitive); a text that matches one is treated as not found.
    antiPatterns: NotRequired[list[str] | None]
    semanticType: NotRequired[SemanticType | None]
    #: What a value must satisfy to count as valid.
    validation: NotRequired[ValidationInput | None]


class AttributeRepair(TypedDict):
    name: str
    result: RepairResult
    #: Why it was refused: `not_found`, `too_few_pages`, `too_little_evidence`, `ambiguous`, `no_agreement`,
    #: `implausible`, `unsupported`, `not_better`, `budget`, `too_often`, `no_attribute`, `interrupted`; null
    #: otherwise.
    reason: str | None


class AttributeTrialView(TypedDict):
    name: str
    #: The place of the XPath from which the value comes, from 0; null where none gives one.
    matched: int | None
    xpaths: list[XpathTrialView]
    #: The same of the JSONPaths, where no XPath gives a value.
    matchedJsonPath: int | None
    #: `first` has only text here: a value, or what it is instead of one.
    jsonPaths: list[XpathTrialView]


class AuditLogView(TypedDict):
    """A row of the audit log."""

    id: str
    at: str
    actor: ActorView
    action: str
    resourceType: str
    resourceId: str | None
    #: Null for what had no request, and once the person was erased.
    ip: str | None
    requestId: str | None
    details: dict[str, Any]
    #: Its place in the organization's chain, from 1 and without gaps.
    number: int
    #: SHA-256 over this row and the hash before it: whoever keeps one can later prove that no row up to it was
    #: touched.
    hash: str


class AuditLogViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[AuditLogView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class BackfillRequest(TypedDict):
    #: A registrable domain, or one host of it.
    domain: str
    pageType: PageType
    #: 1 to 50 results; without them the next ones that were read by another schema or by other attributes, the newest
    #: first.
    resultIds: NotRequired[list[str] | None]
    #: 1 to 50 rows; 20 unless it is said.
    limit: NotRequired[int | None]


class BackfillRow(TypedDict):
    id: str
    status: BackfillRowStatus
    #: Attributes that have a value now and had none.
    newFields: int
    #: Why it is an error; null otherwise.
    message: str | None


class BackfillSummary(TypedDict):
    """What became of each row."""

    #: Rows that were updated.
    processed: int
    skipped: int
    failed: int
    results: list[BackfillRow]
    #: Whether no stored result of the page type is left that was read by another schema; the same request again goes
    #: on. True for a request that names its results.
    isComplete: bool


class BalanceView(TypedDict):
    """What the ledger's rows come to."""

    #: What jobs reserved, less what they gave back: negative where more came back than was reserved.
    used: int
    #: Credits of the plan.
    granted: int
    recharged: int
    #: Credits that lapsed, and corrections; negative out of the balance.
    adjusted: int


class BatchCounts(TypedDict):
    """How many jobs stand where. One that failed and was submitted again stays failed."""

    queued: int
    running: int
    succeeded: int
    failed: int
    canceled: int


class BatchErrorView(TypedDict):
    """Failures of one kind."""

    #: What became of the last attempt; null where nobody was asked.
    outcome: Outcome | None
    #: The detection rule that spoke.
    rule: str | None
    count: int
    #: The first of them.
    exampleJobId: str


class BatchRetryView(TypedDict):
    """Submitting again what had failed."""

    requestedAt: str
    #: Null while it goes on.
    finishedAt: str | None
    #: Jobs that were made.
    submitted: int
    #: Jobs of which none could be made.
    refused: int
    #: Why not all were submitted: credits or room ended, or what the first refused one lacks.
    message: str | None


class BatchView(TypedDict):
    """Jobs that were submitted together, and how far they are."""

    #: The batch of a schedule's run has the run's id.
    id: str
    name: str | None
    source: BatchSource
    createdAt: str
    jobs: int
    byStatus: BatchCounts
    #: How many of the failed ones were submitted again, as jobs of this batch.
    retried: int
    #: Jobs that end in a second, measured over about the last minute.
    ratePerSec: float
    #: When all jobs will have ended if they go on as they do; null where nobody can say.
    expectedEndAt: str | None
    #: When the last job had ended; null while one has not, or more are to come.
    endedAt: str | None
    #: Whether jobs are still being added.
    isFilling: bool
    #: When its cancellation was asked for; it takes no more jobs from then on.
    canceledAt: str | None
    #: Whether jobs are still to be canceled.
    isCanceling: bool
    #: The newest retry; null where there was none.
    retry: BatchRetryView | None
    #: The ten most frequent failures.
    errors: list[BatchErrorView]
    #: Failed jobs of kinds that are not listed.
    otherErrors: int


class BatchViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[BatchView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class BenchmarkView(TypedDict):
    """A benchmark: every provider that takes part fetches every URL, one probe each."""

    id: str
    status: BenchmarkStatus
    urls: list[str]
    providerIds: list[str]
    totalProbes: int
    #: Probes that have ended, however.
    completedProbes: int
    #: Those among them that brought no page.
    failedProbes: int
    #: Providers without a probe that brought a page; known when the benchmark has ended.
    skippedProviders: list[str]
    error: str | None
    createdAt: str
    startedAt: str | None
    finishedAt: str | None


class BenchmarkViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[BenchmarkView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class ByStatusView(TypedDict):
    """Where the jobs stand now."""

    queued: int
    running: int
    succeeded: int
    failed: int
    canceled: int


class CanceledView(TypedDict):
    status: QueryStatus


class CardEntryView(TypedDict):
    #: That of the message that shows it.
    seq: int
    turnId: str | None
    card: CardView


class ChangeView(TypedDict):
    """How the period differs from the one before: as a part of that, so 0.5 is half as much again. Null where that had
    nothing.
    """

    jobs: float | None
    results: float | None
    credits: float | None
    latencyP95Ms: float | None
    #: The difference of the two rates.
    successRate: float | None
    #: The difference of the two means.
    quality: float | None


ChangedValue = TypedDict(
    "ChangedValue",
    {
        "name": "str",
        "from": "Any",
        "to": "Any",
    },
)
"""An attribute that differs from the URL's result before."""

class ChargeView(TypedDict):
    #: The domain, or the provider's id; null where no provider is known.
    key: str | None
    #: The domain, or what the provider is called.
    name: str | None
    #: Jobs that were charged.
    jobs: int
    credits: int


class Chart(TypedDict):
    """How a tile is drawn, by names of its result's columns."""

    #: Default: "table".
    type: ChartKind
    x: str | None
    y: list[str]


class ChartCardView(TypedDict):
    """An answer drawn."""

    id: str
    version: Literal[1]
    payload: ChartPayload
    actions: list[ActionView]


class ChartInput(TypedDict):
    """How a tile is drawn, by names of its result's columns."""

    #: Default: "table".
    type: NotRequired[ChartKind]
    x: NotRequired[str | None]
    y: NotRequired[list[str]]


class ChartPayload(TypedDict):
    queryId: str
    kind: AgentChartKind
    #: The column of the places.
    x: str
    #: The column of the values.
    y: str
    points: list[AgentPointView]


class CliAuthView(TypedDict):
    hostname: str
    status: State
    expires_at: str


class ColumnView(TypedDict):
    name: str
    type: str
    nullable: bool
    description: NotRequired[str]
    #: Up to 5 example values, refreshed daily. Absent when the column was not sampled yet.
    sampleValues: NotRequired[list[Any]]


class ConditionConfig(TypedDict):
    field: Literal["url", "domain", "pageType", "tag", "attempts", "httpStatus"]
    #: On attempts and httpStatus: eq, ne, in, not_in, lt, lte, gt, gte, between, is_null, not_null; on the other
    #: fields: eq, ne, in, not_in, contains, starts_with, ends_with, matches, is_null, not_null.
    op: Literal["eq", "ne", "in", "not_in", "contains", "starts_with", "ends_with", "matches", "is_null", "not_null", "lt", "lte", "gt", "gte", "between"]
    #: A list with in, not_in and between (the least and the most), nothing with is_null and not_null.
    value: NotRequired[str | int | list[str | int]]


class ConditionNode(TypedDict):
    """Asks a question about the job. Edges that leave it: true, false."""

    #: Unique among the nodes; without control characters.
    id: str
    type: Literal["condition"]
    config: ConditionConfig
    #: Where an editor draws it; kept and never read.
    position: NotRequired[dict[str, Any]]


class ContentView(TypedDict):
    """The main content of a page: without navigation, comments, notices and what else stands beside it."""

    #: Where the page was found: links are resolved against it, or against the base that the page names.
    url: str
    format: ContentFormat
    #: The title of the content, which does not repeat it; null where the page has none.
    title: str | None
    #: The language that the page declares (BCP 47); null where it declares none.
    language: str | None
    content: str
    #: True if there was more than an answer holds (2 MiB).
    isTruncated: bool
    scrapedAt: str


class ConvertedView(TypedDict):
    """A structured query as PostgreSQL's SQL."""

    sql: str
    dialect: Literal["postgresql"]


class CoverageView(TypedDict):
    """What an aggregate could not see."""

    #: Readings created before it may be missing.
    backfillHorizon: str
    #: How many readings were left out.
    preHorizonRows: int


class CrawlKeep(TypedDict):
    """What a link's page is registered with."""

    #: The input's own unless said otherwise.
    pageType: PageType | None
    #: Beside those of the input.
    tags: list[str]


class CrawlKeepInput(TypedDict):
    """What a link's page is registered with."""

    #: The input's own unless said otherwise.
    pageType: NotRequired[PageType | None]
    #: Beside those of the input.
    tags: NotRequired[list[str]]


class CrawlRule(TypedDict):
    """A rule as it is shown."""

    xpath: str | None
    css: str | None
    include: list[str]
    exclude: list[str]
    keep: CrawlKeep | None
    follow: bool


class CrawlRunView(TypedDict):
    """How far a run of a crawl is."""

    #: Pages that came and were read.
    pagesWalked: int
    #: Pages that did not come; their jobs say why.
    pagesFailed: int
    #: Pages whose jobs go on.
    pagesUnderWay: int
    #: Pages that are known and were not asked for: the next run goes on with them.
    pagesLeft: int
    #: Pages that robots.txt forbids.
    robotsRefused: int
    #: Pages that led to a login or off the site; they are not kept.
    ledAway: int
    depthReached: int
    traps: list[CrawlTrap]


class CrawlTrap(TypedDict):
    """A place in a site where a walk went on for ever, or would have."""

    #: Its addresses, with what a program fills in as `{n}`, `{date}`, `{token}` and `{text}`.
    shape: str
    #: `calendar`, `session`, `endless`, `barren`, `repeated` or `long`.
    why: str
    #: Pages that were asked for there, or links that were not followed.
    pages: int
    example: str


class CreditsBucketView(TypedDict):
    """What the ledger's rows come to."""

    #: When it begins.
    at: str
    #: When the next one begins.
    endsAt: str
    #: What jobs reserved, less what they gave back: negative where more came back than was reserved.
    used: int
    #: Credits of the plan.
    granted: int
    recharged: int
    #: Credits that lapsed, and corrections; negative out of the balance.
    adjusted: int


class CreditsView(TypedDict):
    period: PeriodView
    groupBy: CreditsBy
    #: All of the period, whatever it is grouped by.
    totals: BalanceView
    #: Every day, week or month of the period, oldest first; empty where it is grouped by something else.
    buckets: list[CreditsBucketView]
    #: What jobs that ended in the period were charged, the dearest 200 providers or domains first; empty where it is
    #: grouped by time. Pages of benchmarks are not among them.
    items: list[ChargeView]
    #: An upper bound on how old the tables are that this was computed from.
    freshnessSec: int


class CurrentPlanView(TypedDict):
    plan: PlanView
    #: What can be reserved now; credits that running jobs hold are not in it.
    remainingCredits: int
    #: Of those, credits that were recharged: they are spent last and do not lapse with the period.
    rechargedCredits: int
    monthlyCredits: int
    #: Credits charged since the period began; jobs that were submitted before it are not counted.
    usedThisPeriod: int
    periodEndsAt: str
    trialEndsAt: str | None
    isTrialExpired: bool
    #: What the organization stores, to be held against the plan's limits.
    stored: StoredView
    #: How long things are kept: the box's terms, as the plan shortens them.
    retention: TermsView


class Dag(TypedDict):
    """Nodes and edges as somebody drew them."""

    nodes: list[DagNode]
    edges: list[DagEdge]


class DagEdge(TypedDict):
    """An edge as it was drawn."""

    #: Unique among the edges, for editors; kept and never read.
    id: NotRequired[str]
    #: The node that it leaves.
    source: str
    #: The node that it leads to.
    target: str
    #: As the source's type allows.
    type: Literal["always", "true", "false", "success", "failure", "blocked", "timeout", "low_quality"]


class DashboardParameter(TypedDict):
    """A value that tiles refer to by its name."""

    name: str
    #: A text, a number, a truth value or null.
    value: Any


class DashboardParameterInput(TypedDict):
    """A value that tiles refer to by its name."""

    name: str
    #: A text, a number, a truth value or null.
    value: NotRequired[Any]


class DashboardRefresh(TypedDict):
    """When a dashboard is made anew by itself."""

    #: As a schedule's; once a minute at most.
    cron: str
    #: An IANA zone; UTC unless given.
    timezone: str | None


class DashboardRefreshInput(TypedDict):
    """When a dashboard is made anew by itself."""

    #: As a schedule's; once a minute at most.
    cron: str
    #: An IANA zone; UTC unless given.
    timezone: NotRequired[str | None]


class DashboardUpdate(TypedDict):
    """What is to be different. What is left out, or null, stays as it is."""

    name: NotRequired[str | None]
    #: An empty text removes it.
    description: NotRequired[str | None]
    #: All of them: what is not among them is removed.
    tiles: NotRequired[list[NewTile] | None]
    #: All of them.
    parameters: NotRequired[list[DashboardParameterInput] | None]
    refresh: NotRequired[DashboardRefreshInput | None]
    #: What the dashboard is to have none of from now on.
    clear: NotRequired[list[ClearableOfDashboard] | None]


class DashboardView(TypedDict):
    """Saved queries on one page."""

    id: str
    name: str
    description: str | None
    tiles: list[TileView]
    parameters: list[DashboardParameter]
    refresh: DashboardRefresh | None
    #: When all of its tiles were last made anew.
    refreshedAt: str | None
    #: Whether they are being made anew, or wait for it.
    isRefreshing: bool
    nextRefreshAt: str | None
    createdBy: str
    #: With whose permissions it is made anew: who changed it last.
    runsAs: str
    createdAt: str
    updatedAt: str


class DashboardViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[DashboardView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class DeleteAccountRequest(TypedDict):
    #: The caller's password: a token that somebody found erases nobody. Who has signed in through the company's
    #: provider in the last ten minutes needs none.
    password: NotRequired[str | None]


class DeleteOrgRequest(TypedDict):
    #: The organization's name, letter by letter.
    confirmName: str


class DeleteResults(TypedDict):
    #: 1 to 1,000 results. Either this or `filter`.
    ids: NotRequired[list[str] | None]
    #: Every result that matches all that is given; at least one member.
    filter: NotRequired[ResultDeleteFilter | None]
    #: The `nextCursor` of a deletion by the same filter that was not through.
    cursor: NotRequired[str | None]


class DeleteUrls(TypedDict):
    #: 1 to 10,000 URLs. Either this or `filter`.
    ids: NotRequired[list[str] | None]
    #: Every URL that matches all that is given, as in listUrls; at least one member.
    filter: NotRequired[UrlsChosenBy | None]
    #: The `nextCursor` of a deletion by the same filter that was not through.
    cursor: NotRequired[str | None]


class DeletedResults(TypedDict):
    deleted: int
    #: Ids that are no result of the organization; empty for a deletion by filter.
    missing: list[str]
    #: Hand it back as `cursor`, with the same filter, to go on; null when everything that matched is gone.
    nextCursor: str | None


class DeletedUrls(TypedDict):
    deleted: int
    #: Ids that are no URL of the organization; empty for a deletion by filter.
    missing: list[str]
    #: Hand it back as `cursor`, with the same filter, to go on; null when everything that matched is gone.
    nextCursor: str | None


class DeliveredCliAuthView(TypedDict):
    #: `approved`.
    status: State
    #: The key itself, in this answer and nowhere else.
    api_key: str
    org_id: str
    org_name: str


class DeliveryAttemptView(TypedDict):
    """One try."""

    at: str
    durationMs: int
    #: What the endpoint answered; null where it did not.
    status: int | None
    #: The beginning of its answer, or why there was none.
    told: str


class DeliveryView(TypedDict):
    """An event on its way to an output."""

    id: str
    outputId: str
    #: `webhook-id`, the same at every try.
    webhookId: str
    #: Its number among the output's deliveries.
    sequence: int
    state: DeliveryState
    eventId: str
    #: The event's place in the log.
    eventSeq: int
    eventKind: str
    eventAt: str
    #: Tries since it was made, or was last to be tried anew.
    tries: int
    #: The newest of all tries, 16 at most.
    attempts: list[DeliveryAttemptView]
    nextTryAt: str | None
    createdAt: str
    endedAt: str | None


class DeliveryViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[DeliveryView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


Dimension = TypedDict(
    "Dimension",
    {
        "column": "str",
        "bucket": "Bucket | None",
        "as": "str | None",
    },
)
"""A column by which rows are grouped."""

DimensionInput = TypedDict(
    "DimensionInput",
    {
        "column": "str",
        "bucket": "NotRequired[Bucket | None]",
        "as": "NotRequired[str | None]",
    },
)
"""A column by which rows are grouped."""

class DiscoveredSchemaVersion(TypedDict):
    """A version of a schema."""

    id: str
    domain: str
    pageType: PageType
    version: int


class DiscoveryRequest(TypedDict):
    #: A registrable domain, or one host of it.
    domain: str
    #: Null where the pages are to say what they are.
    pageType: NotRequired[PageType | None]
    #: The jobs whose pages are to teach (20 at most); without them, and without `urls`, the newest pages of the
    #: domain.
    jobIds: NotRequired[list[str] | None]
    #: The same by URLs: the newest stored page of each.
    urls: NotRequired[list[str] | None]
    #: How many pages are to teach, where none are named: 1 to 20.
    sampleSize: NotRequired[int | None]


class DiscoveryView(TypedDict):
    """A discovery and where it stands."""

    id: str
    status: DiscoveryStatus
    domain: str
    #: What was asked for, else what the pages say; null until they have said it.
    pageType: PageType | None
    sampleSize: int
    createdAt: str
    startedAt: str | None
    finishedAt: str | None
    #: Why the pages have taught nothing; null where they have.
    error: str | None
    #: Who has proposed what was kept.
    discoveredBy: DiscoveredBy | None
    #: The type that the pages say they are of.
    foundPageType: PageType | None
    #: The pages that were looked at, and what for.
    sample: list[SampledPage]
    #: What the pages have taught, whether it became a schema or not.
    attributes: list[FoundAttribute]
    #: What pages say of themselves, and nothing on them shows in a way that holds.
    leftOut: list[LeftOutAttribute]
    #: The share of values on held-back pages that the attributes reproduce.
    confidence: float | None
    #: The schema that holds with it, new or not; null where there is none.
    schema: DiscoveredSchemaVersion | None
    #: Why no new version was made; null where one was.
    notSaved: NotSaved | None
    #: What else is to be said, as that a language model did not answer.
    notes: list[str]


class DomainFiguresView(TypedDict):
    domain: str
    #: Jobs that were submitted in the period.
    jobs: int
    succeeded: int
    failed: int
    successRate: float | None
    latencyP50Ms: float | None
    latencyP95Ms: float | None
    #: What these jobs were charged.
    credits: int
    #: Results whose page was fetched in the period.
    results: int
    changed: int
    #: Their mean composite quality.
    quality: float | None


class DomainsView(TypedDict):
    period: PeriodView
    items: list[DomainFiguresView]
    #: Hand it back as `cursor` for the next page, with the other parameters as they were; null on the last.
    nextCursor: str | None
    #: Domains of all pages.
    total: int
    #: An upper bound on how old the tables are that this was computed from.
    freshnessSec: int


class Drift(TypedDict):
    """How pages of one type of a domain are read."""

    #: A registrable domain, or the host of it whose own schema reads the pages.
    domain: str
    pageType: PageType
    #: The worst of its attributes' states.
    state: DriftState
    #: Since when it is so; null where it never was otherwise.
    since: str | None
    #: The version of the platform's schema by which the newest result was read; null without one.
    schemaVersion: int | None
    #: The version of the own attributes that were merged in; null without any.
    attributesVersion: int | None
    attributes: list[AttributeDrift]
    #: The last time that somebody looked why attributes were not found; null where that never was necessary.
    lastRepair: DriftRepair | None


class DriftPage(TypedDict):
    """A page of a list on the wire."""

    items: list[Drift]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class DriftRepair(TypedDict):
    at: str
    attributes: list[AttributeRepair]
    #: The platform schema's version before and after; the same where it was left as it is.
    fromVersion: int | None
    toVersion: int | None
    #: The version of the own attributes before and after.
    attributesFromVersion: int | None
    attributesToVersion: int | None
    #: Stored pages that were looked at.
    pages: int
    #: Results that were read again since.
    backfilled: int
    #: Whether more may be read again.
    isBackfilling: bool


class DryEventView(TypedDict):
    seq: int
    id: str
    kind: str
    at: str
    domain: str | None
    subjectType: str
    subjectId: str
    verdict: DryVerdict


class DryRunView(TypedDict):
    """What would have been delivered."""

    #: Of the events below.
    delivered: int
    #: The last 100 of the log at most, newest first.
    events: list[DryEventView]


class EligibilityView(TypedDict):
    """Whether the caller could export the result."""

    eligible: bool
    hasWritePermission: bool
    withinRowLimit: bool
    withinByteLimit: bool


class EmailTerms(TypedDict):
    """Of the kind `email`: to whom letters go, and when. What is left out of a change stays as it is."""

    #: Addresses. Members of the organization with a verified address get letters at once; anybody else is asked
    #: first.
    recipients: NotRequired[list[str] | None]
    #: `immediately` unless said otherwise.
    when: NotRequired[EmailWhen | None]
    #: Of `daily`: the hour of the day, 0 to 23; 8 unless said otherwise.
    hour: NotRequired[int | None]
    #: Of `daily`: an IANA name such as `Europe/Berlin`; UTC unless said otherwise.
    timezone: NotRequired[str | None]


class EmailView(TypedDict):
    """Of the kind `email`: to whom letters go, and when."""

    when: EmailWhen
    #: Of `daily`: the hour.
    hour: int | None
    #: Of `daily`: the zone of the hour.
    timezone: str | None
    recipients: list[RecipientView]
    #: Events that wait to become a letter.
    waiting: int
    #: When they are looked at next; of a digest that is far off this is sooner.
    nextLookAt: str | None
    #: Until when nothing is sent, because the organization has sent as many letters this hour as it may.
    fullUntil: str | None


class EndConfig(TypedDict):
    status: Literal["succeeded", "failed"]


class EndNode(TypedDict):
    """Ends the job. No edge leaves it."""

    #: Unique among the nodes; without control characters.
    id: str
    type: Literal["end"]
    config: EndConfig
    #: Where an editor draws it; kept and never read.
    position: NotRequired[dict[str, Any]]


class EndedSessionsView(TypedDict):
    """How many logins have ended."""

    ended: int


class ErasureStartedView(TypedDict):
    """An erasure that goes on in the background."""

    #: By which the operator finds it.
    erasureId: str
    message: str


class EventView(TypedDict):
    """Something that happened in the organization."""

    id: str
    #: Its place in the organization's log: one more than that of the event before. What `Last-Event-ID` and `after`
    #: name.
    seq: int
    at: str
    #: `batch.completed`: All jobs of a batch have ended, however (`jobs`, `succeeded`, `failed`, `canceled`); again
    #: after each retry. `benchmark.completed`: All probes of a benchmark have ended (`status`, `completedProbes`,
    #: `failedProbes`). `crawl.completed`: A run of a crawl has ended (`runId`, `added`, `changed`, `jobsCreated`,
    #: `pages` that were asked for, `failed`, `left`: pages that the next run begins with, `stopped`: why it asked for
    #: no more, `message`). `crawl.failed`: A run of a crawl has failed (`runId`, `message`, and the rest as of
    #: `crawl.completed`). `crawl.started`: A run of a crawl began (`runId`, `trigger`). `input.completed`: A run of
    #: an input that is no crawl has ended, and something was new or had changed (`runId`, `added`, `changed`,
    #: `jobsCreated`, `message`). `input.failed`: A run of an input that is no crawl has failed (`runId`, `message`).
    #: `input.failing`: Five runs of an input in a row have failed; or its document is gone for good, and it is
    #: switched off (`reason`). `input.ingested`: A webhook has taken in a message (`accepted`, `duplicates`,
    #: `invalid`, `jobsCreated`). `job.canceled`: A job was canceled before its end (`url`). `job.failed`: A job ended
    #: without what it was for (`url`, `error`, `outcome` of its last attempt, `attempts`). `job.queued`: A job was
    #: submitted, by a request, a retry or a schedule's run (`url`, `batchId`, which is a run's id). `job.started`: A
    #: run of a job began (`run`, 1 for the first). `job.succeeded`: A job ended well (`url`, `resultId`, `attempts`,
    #: `creditsCharged`). `monitor.error`: A monitor cannot be run any more (`reason`, and the rest as of
    #: `monitor.firing`). `monitor.firing`: The condition of a monitor has begun to hold (`name`, `before`: the state
    #: before, `value`, `op`, `threshold` or `changePercent` and `comparedWith`). `monitor.no_data`: The statement of
    #: a monitor has begun to give no value (`reason`, and the rest as of `monitor.firing`). `monitor.ok`: It holds no
    #: more; data as of `monitor.firing`. `output.disabled`: The box switched an output off (`name`, `reason`: `gone`,
    #: `failing`, `no_recipients` or `restored`). `quota.low`: Less than a tenth of the period's credits is left
    #: (`plan`, `remainingCredits`, `usedThisPeriod`). `result.changed`: Values differ from those of the page's
    #: previous result (`jobId`, `url`, `pageType`, `changes` of `name`, `from`, `to`). `result.gone`: A page of which
    #: there are values is not there any more: its site answered 404 or 410 (`jobId`, `url`, `pageType`, `status`);
    #: the result that it is of is the last one. Once, until the page is read again. `result.new`: A page was read of
    #: which there is no earlier result (`jobId`, `url`, `pageType`). `retention.removed`: What went because its time
    #: was over or there were too many of it (`results` with their pages, `pages` alone), in one round.
    #: `schedule.completed`: All jobs of a run have ended, however, or no URL matched (`runId`, `status`,
    #: `jobsCreated`, `succeeded`, `failed`, `canceled`, `truncated`). `schedule.disabled`: The box found a schedule
    #: that it cannot read any more; it does not fire (`reason`). `schedule.failed`: A run has ended that could not
    #: submit all its jobs (`runId`, `message`, and how many were submitted and ended how). `schedule.missed`: A
    #: schedule's time passed and the box had decided nothing about it (`scheduledFor`). `schedule.skipped`: A tick
    #: was left out, as the schedule's policy says (`runId`, `status`, `scheduledFor`, `message`). `schedule.started`:
    #: A run began (`runId`, `trigger`, `scheduledFor`); it finds its URLs and submits jobs. `schema.drifted`: A site
    #: has changed so that attributes are not found any more (`domain`, `pageType`, `attributes` of `name`, `result`,
    #: `reason`, `fromVersion`, `toVersion`). Once for each drift. `site_session.expired`: A site does not accept a
    #: session any more: it asks for a login (`name`, `url` that was asked for). `storage.failing`: The organization's
    #: storage does not work (`bucket`, `fault`, `message`): new pages are kept in the box meanwhile, and those that
    #: lie there cannot be read. `storage.moved`: The last page has left a storage that pages are not kept in any more
    #: (`bucket`, and `missing`: how many were not there). `storage.recovered`: A storage that did not work works
    #: again (`bucket`). `suggestion.created`: A better ranking is suggested for a smart workflow (`workflowId`,
    #: `expectedGain`).
    kind: Literal["batch.completed", "benchmark.completed", "crawl.completed", "crawl.failed", "crawl.started", "input.completed", "input.failed", "input.failing", "input.ingested", "job.canceled", "job.failed", "job.queued", "job.started", "job.succeeded", "monitor.error", "monitor.firing", "monitor.no_data", "monitor.ok", "output.disabled", "quota.low", "result.changed", "result.gone", "result.new", "retention.removed", "schedule.completed", "schedule.disabled", "schedule.failed", "schedule.missed", "schedule.skipped", "schedule.started", "schema.drifted", "site_session.expired", "storage.failing", "storage.moved", "storage.recovered", "suggestion.created"]
    subject: SubjectView
    #: The registrable domain that it concerns; null where it concerns none.
    domain: str | None
    tags: list[str]
    #: More about it; which members there are its kind says.
    data: dict[str, Any]


class EventViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[EventView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class EvidenceView(TypedDict):
    providerId: str
    #: Null is over all.
    domain: str | None
    samples: int
    successRate: float
    p50Ms: int | None
    p95Ms: int | None
    avgCredits: float
    #: By the workflow's strategy, from 0 to 1, at the lower end of the interval.
    score: float
    #: Where the rate of success lies.
    interval: list[float]


class ExecutionView(TypedDict):
    """A submitted statement."""

    jobId: str
    #: Whether an earlier submission answered.
    replayed: bool
    #: The Idempotency-Key of the run.
    submissionKey: str | None
    status: QueryStatus
    #: What planning found out; its members are null until then.
    dryRun: dict[str, Any]
    #: The beginning of the statement; of a structured query the one that it came to.
    sqlPreview: str | None
    #: The first page, when the statement ended in time.
    results: NotRequired[ResultPageView]
    #: The saved query that this is a run of; these three members are absent from any other.
    savedQueryId: NotRequired[str]
    #: Its name when it was run.
    savedQueryName: NotRequired[str]
    #: The query that it was saved from, or null.
    sourceQueryId: NotRequired[str | None]
    scopeKind: ScopeKind
    scopeAgentId: str | None
    createdAt: str
    startedAt: str | None
    finishedAt: str | None
    error: NotRequired[QueryFailure]


class ExecutionViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[ExecutionView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class ExportEnvelope(TypedDict):
    export: ExportView


class ExportFailure(TypedDict):
    """Why an export has no file."""

    #: `invalid_sql` when the result does not fit the format or the byte cap; `transient` for what lies with the box.
    code: Literal["invalid_sql", "transient"]
    message: str
    #: Whether the same export may succeed when it is asked for again.
    retriable: bool


class ExportRequestedView(TypedDict):
    id: str


class ExportView(TypedDict):
    """An export."""

    id: str
    #: The query whose result it is.
    queryId: str
    format: ExportFormat
    status: ExportStatus
    rowCount: int
    #: Null until `success`.
    byteSize: int | None
    createdAt: str
    finishedAt: str | None
    #: When the file goes; null until it has ended.
    expiresAt: str | None
    #: A link that needs no credential, for 15 minutes from now or until you may not read results any more; null until
    #: `success`.
    downloadUrl: str | None
    #: Why there is no file.
    error: NotRequired[ExportFailure]


class ExtractConfig(TypedDict):
    #: Default: 0.5.
    minQuality: NotRequired[float]


class ExtractNode(TypedDict):
    """Extracts the page and looks at the quality. Edges that leave it: success, low_quality."""

    #: Unique among the nodes; without control characters.
    id: str
    type: Literal["extract"]
    config: NotRequired[ExtractConfig]
    #: Where an editor draws it; kept and never read.
    position: NotRequired[dict[str, Any]]


class ExtractionHistoryEntry(TypedDict):
    """A result of the URL."""

    resultId: str
    jobId: str
    pageType: PageType | None
    schemaVersion: int | None
    attributesVersion: int | None
    httpStatus: int
    contentHash: str
    scrapedAt: str
    extractedAt: str
    #: What differs from the result before; empty for the first.
    changed: list[ChangedValue]


class ExtractionHistoryEntryPage(TypedDict):
    """A page of a list on the wire."""

    items: list[ExtractionHistoryEntry]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class FacetCount(TypedDict):
    value: str
    count: int


class FacetsView(TypedDict):
    """How what matches is distributed, the most frequent values first."""

    domain: list[FacetCount]
    pageType: list[FacetCount]


class FeaturesView(TypedDict):
    sqlConsole: bool
    agents: bool
    benchmarks: bool


class FilesOfOutput(TypedDict):
    """Files: in a folder of the box, unless `s3` or `sftp` says where else. It has no `Debug`: its secrets are for
    nobody's eyes.
    """

    #: `parquet` unless said otherwise.
    format: NotRequired[FileFormat | None]
    #: Whether the files of each table have a Delta Lake log; of Parquet only. False unless said otherwise, and it
    #: stays as it was made.
    delta: NotRequired[bool | None]
    #: Folders below that of the organization, or below the prefix of `s3` or the folder of `sftp`: letters, digits,
    #: `_`, `-` and `/`. The output's id unless said otherwise.
    path: NotRequired[str | None]
    #: A file is whole after so many minutes; 15 unless said otherwise.
    everyMinutes: NotRequired[int | None]
    #: Or with so many results; 10,000 unless said otherwise.
    maxRows: NotRequired[int | None]
    #: A bucket that they go into. Whether an output has one stays as it was made.
    s3: NotRequired[S3OfFiles | None]
    #: A server that they go onto. Whether an output has one stays as it was made.
    sftp: NotRequired[SftpOfFiles | None]


class FilesView(TypedDict):
    """Files as they are shown."""

    format: FileFormat
    delta: bool
    path: str
    everyMinutes: int
    maxRows: int
    s3: NotRequired[S3OfFilesView]
    sftp: NotRequired[SftpOfFilesView]


class Filter(TypedDict):
    """A condition on one column. A row whose value is NULL passes none but `is_null`."""

    column: str
    op: FilterOp
    #: A value of the column's type; a list of them for `in` and `not_in`, of two for `between`, none for `is_null`
    #: and `not_null`. Times as RFC 3339, integers beyond 2^53 as text.
    value: Any


class FilterInput(TypedDict):
    """A condition on one column. A row whose value is NULL passes none but `is_null`."""

    column: str
    op: FilterOp
    #: A value of the column's type; a list of them for `in` and `not_in`, of two for `between`, none for `is_null`
    #: and `not_null`. Times as RFC 3339, integers beyond 2^53 as text.
    value: NotRequired[Any]


class FlatError(TypedDict):
    #: A short sentence, stable for its cause.
    error: str
    #: More, where there is more.
    message: NotRequired[str]


class ForgotPasswordRequest(TypedDict):
    email: str


class FoundAttribute(TypedDict):
    """An attribute with what speaks for it."""

    #: Unique within the schema: a letter or `_`, then letters, digits, `_` and `-`, 128 characters at most.
    name: str
    #: XPath 1.0 expressions, tried in order until one yields a value.
    xpaths: list[str]
    #: JSONPath queries (RFC 9535) over the JSON that the page is or carries, tried in order behind the XPaths. What
    #: stands before the `$` says in which JSON: nothing is the page itself, or the largest JSON in its scripts;
    #: `ld+json` is every block of linked data; another word is a script's `id`, or the name that a script assigns to.
    #: An attribute has at least one XPath or JSONPath.
    jsonPaths: NotRequired[list[str]]
    #: What the found text is made into.
    type: AttributeType
    description: str | None
    #: Regular expressions (case-insensitive); a text that matches one is treated as not found.
    antiPatterns: list[str] | None
    semanticType: SemanticType | None
    #: What a value must satisfy to count as valid.
    validation: NotRequired[Validation]
    #: The share of values on held-back pages that it reproduces.
    confidence: float
    #: The share of the pages on which it gives a value.
    coverage: float
    #: Whether the values differ from page to page and its first expression is right on all of them, so that it did
    #: not come about by chance.
    isFirm: bool


class FoundResult(TypedDict):
    """A result that was found."""

    id: str
    jobId: str
    urlId: str | None
    url: str
    #: Where redirects led.
    finalUrl: str
    #: The answers that led there, in their order; empty where there were none, or the provider does not tell them.
    redirects: list[RedirectView]
    #: The registrable domain of the URL.
    domain: str
    #: The host of the URL.
    host: str
    pageType: PageType | None
    #: The job's tags, then those that its URL had when the job ended.
    tags: list[str]
    schemaId: str | None
    schemaVersion: int | None
    #: The version of the organization's own attributes that were merged in; null where it had none for the page.
    attributesVersion: int | None
    #: By attribute; attributes without a value are absent. Empty when no schema was there for the page.
    values: dict[str, Any]
    #: Null when no schema was there for the page: nothing was measured.
    quality: QualityView | None
    #: One for every attribute without a value, and for those whose value is not trusted.
    attributeErrors: list[AttributeErrorView]
    provider: str
    httpStatus: int
    #: SHA-256 of the values found, or of the page's bytes when no schema was there.
    contentHash: str
    #: Attributes whose values differ from the URL's previous result; empty for its first.
    changed: list[str]
    scrapedAt: str
    extractedAt: str
    #: When it could first be found by search; null until then.
    indexedAt: str | None
    #: Pieces of the title and the values around the words of `q`, as HTML with `<em>` marks.
    highlights: list[str]


class FoundShare(TypedDict):
    """On how many pages an attribute had a valid value."""

    pages: int
    #: From 0 to 1; null without pages.
    found: float | None


class GenerateRequest(TypedDict):
    name: NotRequired[str | None]
    strategy: NotRequired[Strategy | None]
    mode: NotRequired[Mode | None]


class HistoryView(TypedDict):
    """What a conversation has shown and what became of it: complete and in order."""

    cards: list[CardEntryView]
    resolutions: list[ResolutionView]
    saveReceipts: list[ReceiptView]
    saveOutcomes: list[OutcomeView]


class IngestView(TypedDict):
    """What became of a message."""

    #: URLs that are new, or known ones that gained something.
    accepted: int
    #: Known URLs that did not change, and repetitions within the message.
    duplicates: int
    invalid: list[InvalidUrl]
    jobsCreated: int
    #: Jobs that could not be made, and why the first of them could not.
    jobsMissing: int
    message: str | None
    #: The batch of the jobs.
    batchId: str | None


class InputRunNote(TypedDict):
    """Something that was noticed in a document. Line and column are from 1, or 0 where there is none."""

    document: str
    line: int
    column: int
    message: str


class InputRunView(TypedDict):
    """What became of a tick, or of a request to run at once."""

    id: str
    inputId: str
    trigger: InputTrigger
    full: bool
    scheduledFor: str
    startedAt: str | None
    finishedAt: str | None
    status: InputRunStatus
    #: Why it was left out, failed, or did less.
    message: str | None
    #: What the input's own document was answered with.
    httpStatus: int | None
    #: Who answered it, where redirects led elsewhere.
    finalUrl: str | None
    #: What the document is, such as `RSS 2.0`.
    format: str | None
    #: Documents that were read.
    documents: int
    #: Those that are as they were.
    notModified: int
    bytes: int
    #: The sum of the next six.
    found: int
    added: int
    changed: int
    unchanged: int
    #: URLs that the run had found before.
    duplicates: int
    filtered: int
    #: Entries without a URL that can be registered, or of another domain.
    refused: int
    #: What lies beyond the bounds.
    truncated: int
    #: Whether a document broke off or could not be had.
    incomplete: bool
    jobsCreated: int
    jobsMissing: int
    batchId: str | None
    notes: list[InputRunNote]
    #: How far a crawl is; null where it is none.
    crawl: CrawlRunView | None


class InputRunViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[InputRunView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class InputUpdate(TypedDict):
    """What is to be different. What is left out, or null, stays as it is."""

    #: A webhook's: true ends its token; the answer has the new one.
    rotateToken: NotRequired[bool | None]
    #: What the input is to have none of from now on.
    clear: NotRequired[list[ClearableOfInput] | None]
    #: What people call it; the host of `url`, or `webhook`, unless said otherwise.
    name: NotRequired[str | None]
    #: What its URLs are registered with.
    tags: NotRequired[list[str] | None]
    pageType: NotRequired[PageType | None]
    workflowId: NotRequired[str | None]
    #: Whether URLs become jobs; false unless said otherwise.
    submitJobs: NotRequired[bool | None]
    #: True unless said otherwise. One that is switched off takes nothing and does not run by itself.
    isEnabled: NotRequired[bool | None]
    #: A webhook's: messages must be signed with it (Standard Webhooks); `whsec_` and 24 to 64 bytes in base64. It is
    #: never shown.
    signingSecret: NotRequired[str | None]
    #: The document of sitemaps, feeds and CSV files, which they must have.
    url: NotRequired[str | None]
    #: URLs that are wanted: texts in which `*` stands for anything. Empty: all.
    include: NotRequired[list[str] | None]
    #: URLs that are not, likewise; it goes before `include`.
    exclude: NotRequired[list[str] | None]
    #: A sitemap's or crawl's: whether URLs of other registrable domains are meant, too; false unless said otherwise.
    anyDomain: NotRequired[bool | None]
    #: When it runs by itself, as of a schedule; only when it is asked for unless said otherwise.
    cron: NotRequired[str | None]
    #: An IANA name such as `Europe/Berlin`; UTC unless said otherwise.
    timezone: NotRequired[str | None]
    #: A crawl's: where it begins. It must have some.
    startUrls: NotRequired[list[str] | None]
    #: A crawl's: what is done with links. Without rules every page is kept and its links are followed.
    rules: NotRequired[list[NewCrawlRule] | None]
    #: A crawl's: how many links a page may be away from the start; 5 unless said otherwise.
    depth: NotRequired[int | None]
    #: A crawl's: pages that a run asks for at most; 1,000 unless said otherwise.
    maxPages: NotRequired[int | None]
    #: A crawl's: for how long a page that is kept is not asked for again; a week unless said otherwise.
    revisitAfterSeconds: NotRequired[int | None]


class InputView(TypedDict):
    """A source of URLs."""

    id: str
    kind: InputKind
    name: str
    tags: list[str]
    pageType: PageType | None
    workflowId: str | None
    submitJobs: bool
    isEnabled: bool
    #: Why the box switched it off.
    disabledReason: str | None
    #: The first characters of a webhook's token.
    tokenPrefix: str | None
    #: Whether a webhook's messages must be signed.
    isSigned: bool
    url: str | None
    include: list[str]
    exclude: list[str]
    anyDomain: bool
    startUrls: list[str] | None
    rules: list[CrawlRule] | None
    #: How many links a page may be away from the start; the next page of a list (`rel="next"`) is as deep as the
    #: list.
    depth: int | None
    #: Pages that a run asks for at most; the next run goes on with those that are left.
    maxPages: int | None
    #: For how long a page that is kept is not asked for again.
    revisitAfterSeconds: int | None
    cron: str | None
    timezone: str
    #: The next tick.
    nextRunAt: str | None
    lastRunAt: str | None
    #: Runs that failed, one after the other; 0 where the last went well.
    failures: int
    createdAt: str
    updatedAt: str
    #: Where a webhook is sent its URLs, with its token: in the answer that made the token, and nowhere else.
    ingestUrl: NotRequired[str]


class InputViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[InputView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class InvalidLine(TypedDict):
    #: On which it begins, from 1.
    line: int
    #: What was read as the URL: its first 200 characters.
    url: str
    reason: str


class InvalidUrl(TypedDict):
    #: Position in the request.
    index: int
    url: str
    reason: str


class InviteView(TypedDict):
    id: str
    email: str
    role: Role
    invitedBy: str
    createdAt: str
    expiresAt: str


class InviteViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[InviteView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class JobView(TypedDict):
    id: str
    url: str
    #: The registrable domain.
    domain: str
    host: str
    urlId: str | None
    workflowId: str | None
    workflowVersionId: str | None
    scheduleId: str | None
    scheduleRunId: str | None
    benchmarkId: str | None
    #: The jobs that it was submitted with: a request's, or those of a schedule's run, whose id it then is.
    batchId: str | None
    status: JobStatus
    priority: int
    pageType: PageType | None
    options: OptionsView
    tags: list[str]
    metadata: dict[str, Any]
    externalId: str | None
    attempts: list[AttemptView]
    #: Null where it made none, and where that is gone.
    resultId: str | None
    #: Whether it made a result that was deleted since, or whose time was over.
    resultDeleted: bool
    creditsCharged: int
    error: str | None
    #: What a queued job waits for: null for one that waits for its turn only. And what one waits for that runs: null
    #: unless that is a place in the box's browser.
    waiting: WaitingView | None
    createdAt: str
    startedAt: str | None
    finishedAt: str | None


class JobViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[JobView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class LearnedAttribute(TypedDict):
    """An attribute with what speaks for it."""

    #: Unique within the schema: a letter or `_`, then letters, digits, `_` and `-`, 128 characters at most.
    name: str
    #: XPath 1.0 expressions, tried in order until one yields a value.
    xpaths: list[str]
    #: JSONPath queries (RFC 9535) over the JSON that the page is or carries, tried in order behind the XPaths. What
    #: stands before the `$` says in which JSON: nothing is the page itself, or the largest JSON in its scripts;
    #: `ld+json` is every block of linked data; another word is a script's `id`, or the name that a script assigns to.
    #: An attribute has at least one XPath or JSONPath.
    jsonPaths: NotRequired[list[str]]
    #: What the found text is made into.
    type: AttributeType
    description: str | None
    #: Regular expressions (case-insensitive); a text that matches one is treated as not found.
    antiPatterns: list[str] | None
    semanticType: SemanticType | None
    #: What a value must satisfy to count as valid.
    validation: NotRequired[Validation]
    #: The share of right values to expect: from each example, asked with what the others teach, and the other pages.
    #: Few examples never give full confidence.
    confidence: float
    #: The share of the other stored pages on which it gives a value; null where there are none.
    coverage: float | None


class LeftOutAttribute(TypedDict):
    """An attribute that was not kept."""

    name: str
    reason: LeftOutReason
    #: The share of values that it would have reproduced; null where nothing was found.
    confidence: float | None


class Lesson(TypedDict):
    #: A registrable domain, or one host of it.
    domain: str
    #: What saved attributes are for: the first for a type of one's own makes it.
    pageType: PageType
    #: Two to ten stored pages of the domain.
    examples: list[LessonExample]
    #: Puts what was learned beside the organization's own attributes of the domain. One of a name that is taken takes
    #: its place.
    save: NotRequired[bool | None]


class LessonExample(TypedDict):
    """A stored page, by its job or its URL, with what is seen on it."""

    #: The job that fetched the page. Either this or `url`.
    jobId: NotRequired[str | None]
    #: The newest stored page of this URL.
    url: NotRequired[str | None]
    #: By attribute, the text as it is seen on the page, or all texts of a list; an empty list says that the page has
    #: none.
    values: dict[str, TextOrTexts | None]


class LessonPreview(TypedDict):
    jobId: str
    url: str
    #: By attribute; attributes without a value are absent.
    values: dict[str, Any]


class LessonView(TypedDict):
    """What was learned, and what it gives."""

    attributes: list[LearnedAttribute]
    #: Attributes for which nothing was found that gives the told values and nothing else.
    leftOut: list[str]
    #: What the attributes give on other stored pages of the domain, the newest first.
    preview: list[LessonPreview]
    #: Limits that were reached, so that there may be more to learn.
    notes: list[str]
    #: Whether they are among the organization's own now.
    isSaved: bool


class LimitsView(TypedDict):
    """The caps of a plan."""

    #: URLs that an ingest webhook takes a day (UTC).
    webhookUrlsPerDay: int
    #: Bytes of all rows, and of pages as they lie compressed on the disk.
    storageBytes: int
    #: Rows of all kinds: URLs, jobs, results, what belongs to them.
    rows: int
    #: Registered URLs.
    urls: int
    #: Versions of all workflows.
    workflowVersions: int
    #: Schedules, also those that are switched off.
    schedules: int


class LoginRequest(TypedDict):
    email: str
    password: str


class LoginView(TypedDict):
    """Who logged in, what they may do, and the tokens of the login."""

    user: UserView
    permissions: list[str]
    accessToken: str
    #: Good once: a refresh answers with the next one.
    refreshToken: str
    #: Seconds until the access token ends.
    expiresIn: int


class ManifestEnvelope(TypedDict):
    manifest: ManifestView


class ManifestView(TypedDict):
    """What a result is; most of it null until the query has succeeded."""

    jobId: str
    status: QueryStatus
    rowCount: int | None
    byteSize: int | None
    completedAt: str | None
    #: What the pages are counted with.
    pageSize: int
    totalPages: int | None
    #: Whether rows beyond a cap were left out.
    truncated: bool | None
    #: When the rows are removed; null when there are none (any more).
    expiresAt: str | None
    #: Upper bound in seconds on how stale the rows were when they were read; before that, on how stale they are now.
    freshnessSec: int
    #: The time limit that applied, in seconds.
    maxQuerySec: int


class MeView(TypedDict):
    user: UserView
    role: Role | None
    #: What this credential allows: for an API key perhaps less than its maker may do.
    permissions: list[str]
    organization: OrgView | None
    authMethod: AuthMethodView


Measure = TypedDict(
    "Measure",
    {
        "fn": "MeasureFn",
        "column": "str | None",
        "as": "str | None",
    },
)
"""One computed column."""

MeasureInput = TypedDict(
    "MeasureInput",
    {
        "fn": "MeasureFn",
        "column": "NotRequired[str | None]",
        "as": "NotRequired[str | None]",
    },
)
"""One computed column."""

class MemberView(TypedDict):
    userId: str
    email: str
    name: str
    role: Role
    emailVerifiedAt: str | None


class MemberViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[MemberView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class MessageView(TypedDict):
    message: str


class ModeRequest(TypedDict):
    mode: Mode


class ModeView(TypedDict):
    mode: Mode


MonitorCondition = TypedDict(
    "MonitorCondition",
    {
        "value": "str",
        "op": "MonitorOperator",
        "threshold": "float | None",
        "changePercent": "float | None",
        "over": "str | None",
        "for": "int | None",
    },
)
"""When a value is to be told."""

MonitorConditionInput = TypedDict(
    "MonitorConditionInput",
    {
        "value": "str",
        "op": "MonitorOperator",
        "threshold": "NotRequired[float | None]",
        "changePercent": "NotRequired[float | None]",
        "over": "NotRequired[str | None]",
        "for": "NotRequired[int | None]",
    },
)
"""When a value is to be told."""

class MonitorOn(TypedDict):
    """When a monitor runs: by a cron expression in a zone, or whenever a run of a schedule has ended."""

    #: As a schedule's; a monitor runs once a minute at most. This or `scheduleId`.
    cron: str | None
    #: An IANA zone; UTC unless given.
    timezone: str | None
    scheduleId: str | None


class MonitorOnInput(TypedDict):
    """When a monitor runs: by a cron expression in a zone, or whenever a run of a schedule has ended."""

    #: As a schedule's; a monitor runs once a minute at most. This or `scheduleId`.
    cron: NotRequired[str | None]
    #: An IANA zone; UTC unless given.
    timezone: NotRequired[str | None]
    scheduleId: NotRequired[str | None]


class MonitorUpdate(TypedDict):
    """What is to be different. What is left out, or null, stays as it is."""

    name: NotRequired[str | None]
    sql: NotRequired[str | None]
    savedQueryId: NotRequired[str | None]
    condition: NotRequired[MonitorConditionInput | None]
    on: NotRequired[MonitorOnInput | None]
    #: One that is switched on again runs at once, and goes on from there.
    isEnabled: NotRequired[bool | None]


class MonitorView(TypedDict):
    """A statement that is run by itself, and what is to be told of it."""

    id: str
    name: str
    #: Null where it is a saved query.
    sql: str | None
    savedQueryId: str | None
    condition: MonitorCondition
    on: MonitorOn
    isEnabled: bool
    state: MonitorState
    #: Since when it is in that state.
    since: str
    #: Why, where that is not the condition alone.
    reason: str | None
    #: Null before the first run.
    lastRunAt: str | None
    #: What the last run gave; null where it gave no value.
    lastValue: float | None
    #: What that was compared with.
    comparedWith: float | None
    #: Runs that were left out before the last one: the box was off, or the one before had not ended.
    missed: int
    #: The next tick; null for one that follows a schedule, or that is switched off.
    nextRunAt: str | None
    createdBy: str
    #: With whose permissions it runs: who changed it last.
    runsAs: str
    createdAt: str
    updatedAt: str


class MonitorViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[MonitorView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class MoveView(TypedDict):
    """How pages get there."""

    state: MoveState
    #: Pages that are not yet where they are to lie.
    left: PagesView
    #: Objects in storages that are still to be removed; 100,000 stands for that many or more.
    objectsToRemove: int
    error: StorageErrorView | None


class NewAgentView(TypedDict):
    """A conversation to begin."""

    #: "Agent" and when it was made, unless given.
    name: NotRequired[str | None]


class NewApiKeyRequest(TypedDict):
    name: str
    #: `organization` unless said otherwise; `personal`: the caller's own.
    kind: NotRequired[KeyKind | None]
    #: What the key allows; all that the caller may do when left out.
    permissions: NotRequired[list[Literal["workflows:read", "workflows:write", "jobs:read", "jobs:write", "urls:read", "urls:write", "schedules:read", "schedules:write", "providers:read", "providers:write", "integrations:read", "integrations:write", "bi:read", "bi:write", "agents:read", "agents:write", "analytics:read", "analytics:write", "billing:read", "billing:write", "org:read", "org:write", "audit:read", "audit:write"]] | None]
    #: When it ends; never when left out.
    expiresAt: NotRequired[str | None]


class NewApiKeyView(TypedDict):
    apiKey: ApiKeyView
    #: The key itself, shown once.
    secret: str


class NewBenchmark(TypedDict):
    #: Those that are no URLs are left out.
    urls: list[str]


class NewCrawlRule(TypedDict):
    """What is done with links. The first rule that means a link decides; a link that none means is passed over."""

    #: The part of a page whose links are meant, as XPath; or as `css`. The whole page unless said otherwise.
    xpath: NotRequired[str | None]
    css: NotRequired[str | None]
    #: Links that are meant: texts in which `*` stands for anything. Empty: all.
    include: NotRequired[list[str] | None]
    #: Links that are not, likewise; it goes before `include`.
    exclude: NotRequired[list[str] | None]
    #: Registers their pages.
    keep: NotRequired[CrawlKeepInput | None]
    #: Whether their own links are read; true where they are not kept, unless said otherwise. Neither kept nor
    #: followed: they are not asked for.
    follow: NotRequired[bool | None]


class NewDashboard(TypedDict):
    """A dashboard to make."""

    #: Unique in the organization.
    name: str
    description: NotRequired[str | None]
    tiles: NotRequired[list[NewTile] | None]
    parameters: NotRequired[list[DashboardParameterInput] | None]
    refresh: NotRequired[DashboardRefreshInput | None]


class NewExportView(TypedDict):
    """What to make of a result."""

    format: ExportFormat


class NewInput(TypedDict):
    """An input as a caller asks for it."""

    kind: InputKind
    #: What people call it; the host of `url`, or `webhook`, unless said otherwise.
    name: NotRequired[str | None]
    #: What its URLs are registered with.
    tags: NotRequired[list[str] | None]
    pageType: NotRequired[PageType | None]
    workflowId: NotRequired[str | None]
    #: Whether URLs become jobs; false unless said otherwise.
    submitJobs: NotRequired[bool | None]
    #: True unless said otherwise. One that is switched off takes nothing and does not run by itself.
    isEnabled: NotRequired[bool | None]
    #: A webhook's: messages must be signed with it (Standard Webhooks); `whsec_` and 24 to 64 bytes in base64. It is
    #: never shown.
    signingSecret: NotRequired[str | None]
    #: The document of sitemaps, feeds and CSV files, which they must have.
    url: NotRequired[str | None]
    #: URLs that are wanted: texts in which `*` stands for anything. Empty: all.
    include: NotRequired[list[str] | None]
    #: URLs that are not, likewise; it goes before `include`.
    exclude: NotRequired[list[str] | None]
    #: A sitemap's or crawl's: whether URLs of other registrable domains are meant, too; false unless said otherwise.
    anyDomain: NotRequired[bool | None]
    #: When it runs by itself, as of a schedule; only when it is asked for unless said otherwise.
    cron: NotRequired[str | None]
    #: An IANA name such as `Europe/Berlin`; UTC unless said otherwise.
    timezone: NotRequired[str | None]
    #: A crawl's: where it begins. It must have some.
    startUrls: NotRequired[list[str] | None]
    #: A crawl's: what is done with links. Without rules every page is kept and its links are followed.
    rules: NotRequired[list[NewCrawlRule] | None]
    #: A crawl's: how many links a page may be away from the start; 5 unless said otherwise.
    depth: NotRequired[int | None]
    #: A crawl's: pages that a run asks for at most; 1,000 unless said otherwise.
    maxPages: NotRequired[int | None]
    #: A crawl's: for how long a page that is kept is not asked for again; a week unless said otherwise.
    revisitAfterSeconds: NotRequired[int | None]


class NewInviteRequest(TypedDict):
    email: str
    role: Role


class NewJob(TypedDict):
    """A job as a caller asks for it."""

    #: The page; or name a registered one by `urlId`.
    url: NotRequired[str | None]
    urlId: NotRequired[str | None]
    workflowId: NotRequired[str | None]
    pageType: NotRequired[PageType | None]
    #: 0 (last) to 9 (first); 5 unless said otherwise.
    priority: NotRequired[int | None]
    options: NotRequired[NewOptions | None]
    tags: NotRequired[list[str] | None]
    #: At most 16 KiB of JSON.
    metadata: NotRequired[dict[str, Any] | None]
    #: Unique in the organization: makes a retry safe.
    externalId: NotRequired[str | None]


class NewJobs(TypedDict):
    #: What people call the batch.
    name: NotRequired[str | None]
    jobs: list[NewJob]


class NewMessage(TypedDict):
    """A message of URLs: `url` or `urls`."""

    url: NotRequired[UrlEntry | None]
    urls: NotRequired[list[UrlEntry] | None]


class NewMessageView(TypedDict):
    """A message, or the answer to a card: `text`, or `cardId` with `actionId`."""

    #: A question in plain words, one SELECT, or the words of an action.
    text: NotRequired[str | None]
    cardId: NotRequired[str | None]
    #: One of the card's actions.
    actionId: NotRequired[str | None]
    #: The action's own value, as the card has it; may be left out.
    value: NotRequired[Any]


class NewMonitor(TypedDict):
    """A monitor to make."""

    name: str
    #: One SELECT over the console's tables. This or `savedQueryId`.
    sql: NotRequired[str | None]
    #: What is saved under this id whenever it runs, in its scope.
    savedQueryId: NotRequired[str | None]
    condition: MonitorConditionInput
    on: MonitorOnInput
    #: True unless said otherwise.
    isEnabled: NotRequired[bool | None]


class NewOptions(TypedDict):
    """How the page is to be fetched."""

    render: NotRequired[bool | None]
    #: ISO 3166-1 alpha-2.
    country: NotRequired[str | None]
    premium: NotRequired[bool | None]
    #: Header lines to send: at most 32, of 4,096 bytes each and 16 KiB together. Those that the box writes itself are
    #: refused: `Host`, `Content-Length`, `Transfer-Encoding`, `Trailer`, `Expect`, `Connection`, `Keep-Alive`,
    #: `Proxy-Connection`, `HTTP2-Settings`, `TE`, `Upgrade`, `Proxy-Authenticate`, `Proxy-Authorization`,
    #: `Accept-Encoding`.
    headers: NotRequired[dict[str, str] | None]
    #: 30,000 unless said otherwise.
    timeoutMs: NotRequired[int | None]
    #: The site session that the page is asked for with, of the URL's domain; the URL's own unless said otherwise.
    siteSessionId: NotRequired[str | None]


class NewOrgRequest(TypedDict):
    name: str


class NewOutput(TypedDict):
    """An output as a caller asks for it. It has no `Debug`: its secret is for nobody's eyes."""

    kind: OutputKind
    #: What people call it; the host of `url`, or `Feed`, unless said otherwise.
    name: NotRequired[str | None]
    #: A webhook's, and a chat's: the endpoint, which they must have. A chat's is never shown again.
    url: NotRequired[str | None]
    #: Kinds of events; `job.*` is every one of its subject.
    events: list[str]
    #: Only what has all of these tags.
    tags: NotRequired[list[str] | None]
    #: Only what is of this registrable domain.
    domain: NotRequired[str | None]
    #: Only results of these page types, and what tells of them.
    pageTypes: NotRequired[list[PageType] | None]
    #: Only what this holds for, such as `price < 100 and changed(price)`.
    condition: NotRequired[str | None]
    #: True unless said otherwise.
    isEnabled: NotRequired[bool | None]
    #: A chat's: whose messages it takes. It must say so.
    product: NotRequired[ChatProduct | None]
    #: A webhook's: how messages are signed; `v1` unless said otherwise.
    signatures: NotRequired[list[SignatureScheme] | None]
    #: A webhook's: the key of `v1`, where it is known already: `whsec_` and 24 to 64 bytes in base64. Else the box
    #: makes one.
    secret: NotRequired[str | None]
    #: Of the kind `postgres`: the server and the table.
    postgres: NotRequired[PostgresOfOutput | None]
    #: Of the kind `files`: which, and where.
    files: NotRequired[FilesOfOutput | None]
    #: Of the kind `email`: to whom letters go, and when.
    email: NotRequired[EmailTerms | None]


class NewOwnAttributes(TypedDict):
    #: All of them: what is not among them is removed.
    attributes: list[OwnAttributeInput]


class NewPrice(TypedDict):
    """A price; what is left out stays the adapter's own."""

    plain: NotRequired[int | None]
    render: NotRequired[int | None]


class NewProvider(TypedDict):
    """A provider to be connected."""

    #: One of the catalog.
    adapter: str
    #: What to call it; the adapter's name when left out.
    name: NotRequired[str | None]
    credentials: NotRequired[dict[str, Any] | None]
    settings: NotRequired[dict[str, Any] | None]
    #: Where a hosted provider is asked instead of at its vendor's address.
    baseUrl: NotRequired[str | None]
    #: Prices that replace the adapter's own, by tier.
    credits: NotRequired[dict[str, NewPrice] | None]
    #: Requests at once; as many as jobs run when left out.
    maxConcurrency: NotRequired[int | None]
    #: True unless said otherwise.
    isEnabled: NotRequired[bool | None]


class NewQueryView(TypedDict):
    """A statement to run."""

    #: One SELECT; this or `structured` is needed.
    sql: NotRequired[str | None]
    structured: NotRequired[StructuredInput | None]
    #: The values of the parameters `$1`, `$2` … of `sql`: texts, numbers, truth values or null.
    params: NotRequired[list[Any] | None]
    #: `org` unless given; `agent` needs `scopeAgentId`.
    scopeKind: NotRequired[ScopeKind | None]
    #: Only with the scope `agent`.
    scopeAgentId: NotRequired[str | None]
    #: Plan it and run nothing.
    dryRun: NotRequired[bool | None]
    #: How long to wait for the end, in milliseconds; 2,000 unless given.
    waitMs: NotRequired[int | None]


class NewRechargeRequest(TypedDict):
    credits: int
    #: What the operator should know.
    note: NotRequired[str | None]


class NewSavedQueryView(TypedDict):
    """A query to save."""

    #: Unique in the scope.
    name: str
    description: NotRequired[str | None]
    #: One SELECT; this, `structured` or `sourceQueryId` is needed. One that cannot be read is refused; whether there
    #: are its tables and columns is asked when it is run.
    sql: NotRequired[str | None]
    structured: NotRequired[StructuredInput | None]
    #: A query that was submitted, which is saved unless another one is given.
    sourceQueryId: NotRequired[str | None]
    #: `org` unless given; `agent` needs `scopeAgentId`.
    scopeKind: NotRequired[ScopeKind | None]
    #: Only with the scope `agent`.
    scopeAgentId: NotRequired[str | None]


class NewSchedule(TypedDict):
    """A schedule as a caller asks for it."""

    name: str
    #: 5 fields, or 6 with seconds in front, or a short form such as `@hourly`; names, `L`, `W` and `#` may be used.
    cron: str
    #: An IANA name such as `Europe/Berlin`; UTC unless said otherwise.
    timezone: NotRequired[str | None]
    #: The workflow of its jobs; else the URL's own, or the one that is routed there.
    workflowId: NotRequired[str | None]
    #: URLs with any of these tags; empty is every URL.
    tagFilters: NotRequired[list[str] | None]
    #: These URLs alone; with `tagFilters` those of them that match.
    urlIds: NotRequired[list[str] | None]
    #: How the pages are to be fetched, as in submitJob.
    options: NotRequired[NewOptions | None]
    #: When the run before has not ended: `skip` unless said otherwise.
    overlap: NotRequired[Overlap | None]
    #: When ticks were missed: `run_once` unless said otherwise.
    misfire: NotRequired[Misfire | None]
    #: How old a missed tick may be to be made up for; a year unless said otherwise.
    catchUpSeconds: NotRequired[int | None]
    #: Each tick is put off by up to so many seconds, by chance; 0 unless said otherwise.
    jitterSeconds: NotRequired[int | None]
    #: True unless said otherwise. Of one that is there it is changed by toggleSchedule.
    isEnabled: NotRequired[bool | None]


class NewSiteSession(TypedDict):
    """A site session to be kept. It has no `Debug`: its values are for nobody's eyes."""

    #: A host or a URL of the site: the session is for its registrable domain, with all hosts under that.
    domain: str
    #: What to call it; the domain when left out.
    name: NotRequired[str | None]
    kind: SiteSessionKind
    #: Cookies: a list of objects (`name`, `value`, and where known `domain`, `hostOnly`, `path`, `secure`,
    #: `httpOnly`, `expires`), as browsers' extensions export it; or as a text the same JSON, a cookies.txt, or a
    #: `Cookie` header. Headers: an object, or lines as a text.
    values: Any


class NewSmartRequest(TypedDict):
    name: NotRequired[str | None]
    strategy: NotRequired[Strategy | None]
    mode: NotRequired[Mode | None]
    route: NotRequired[str | None]


class NewStorage(TypedDict):
    """A storage as a caller asks for it. It has no `Debug`: its secret is for nobody's eyes."""

    kind: StorageKind
    #: The name of the bucket, which must exist.
    bucket: NotRequired[str | None]
    #: Where the server is, as `https://host:port`; Amazon's own of the region when left out. Private addresses are
    #: refused unless `network.allow` opens them.
    endpoint: NotRequired[str | None]
    #: The bucket's region; `us-east-1` when left out, which servers without regions take.
    region: NotRequired[str | None]
    #: What keys begin with, without `/` at its ends.
    prefix: NotRequired[str | None]
    accessKeyId: NotRequired[str | None]
    #: Kept sealed, and never shown. May be left out where the same bucket goes on with the same access key.
    secretAccessKey: NotRequired[str | None]
    #: Whether the bucket is named in the path and not in the host: as MinIO and Ceph mostly want it. True when an
    #: endpoint is given and nothing is said.
    pathStyle: NotRequired[bool | None]
    #: Whether the server knows `If-None-Match` when it takes an object; true when left out.
    conditionalPuts: NotRequired[bool | None]
    #: A checksum beside the signature; none when left out, as not every server knows them.
    checksum: NotRequired[ChecksumKind | None]


class NewTile(TypedDict):
    """A tile as a caller gives it."""

    #: That of a tile which is there and stays; the box numbers new ones.
    id: NotRequired[int | None]
    #: The saved query's name unless given.
    title: NotRequired[str | None]
    savedQueryId: str
    #: The values of `$1`, `$2` …: each a text, a number, a truth value, null, or `{"parameter": "<name>"}`, one of
    #: the dashboard's.
    params: NotRequired[list[Any] | None]
    #: A table unless given.
    chart: NotRequired[ChartInput | None]
    #: Below the others unless given.
    position: NotRequired[TilePosition | None]


class NewUrl(TypedDict):
    url: str
    tags: NotRequired[list[str] | None]
    #: At most 16 KiB of JSON.
    metadata: NotRequired[dict[str, Any] | None]
    pageType: NotRequired[PageType | None]
    workflowId: NotRequired[str | None]


class NewUrls(TypedDict):
    urls: list[UrlEntry]


class NewWorkflowRequest(TypedDict):
    name: str
    dag: Dag
    #: `*` (every job), `domain:<domain>`, or null: only jobs that name the workflow.
    route: NotRequired[str | None]


class NotReadyError(TypedDict):
    error: dict[str, Any]
    #: Where it stands; only beside the code not_ready, and always there.
    status: NotRequired[Literal["queued", "running", "failed", "canceled"]]


class OptionsView(TypedDict):
    render: bool
    country: str | None
    premium: bool
    #: Names only: what a job is sent with may be a login, so every value is `***`.
    headers: dict[str, str]
    timeoutMs: int
    #: The site session that it is sent with, its own or its URL's; what that consists of is shown nowhere.
    siteSessionId: str | None


class OrderBy(TypedDict):
    """One column of the order."""

    #: The name of a measure or dimension in the result.
    ref: str
    #: `asc` unless given. NULLs come last either way.
    dir: Direction | None


class OrderByInput(TypedDict):
    """One column of the order."""

    #: The name of a measure or dimension in the result.
    ref: str
    #: `asc` unless given. NULLs come last either way.
    dir: NotRequired[Direction | None]


class OrgLoginView(TypedDict):
    """What a person gets who has come into an organization: it, and a login in it."""

    organization: OrgView
    accessToken: str
    #: Good once: a refresh answers with the next one.
    refreshToken: str
    #: Seconds until the access token ends.
    expiresIn: int
    permissions: list[str]


class OrgView(TypedDict):
    """An organization as everybody in it sees it."""

    id: str
    name: str
    #: The plan's id.
    plan: str


class OutcomeView(TypedDict):
    """A save that wrote nothing, and can be tried again."""

    cardId: str
    status: Literal["name_conflict"]
    proposedName: str | None
    toolCallId: str


class OutlineView(TypedDict):
    #: The element, or that in which a text or an attribute stands; null for what stands nowhere.
    tag: str | None
    id: str | None
    classes: list[str]
    #: The attribute that was selected.
    attribute: str | None
    #: 200 characters at most, without surplus white space.
    text: str


class OutputConfig(TypedDict):
    outputId: str


class OutputKeyView(TypedDict):
    """A key with which messages are signed."""

    scheme: SignatureScheme
    #: The last characters of a secret; null of `v1a`.
    ending: str | None
    #: What verifies signatures of `v1a`; null of `v1`, which is verified with the secret.
    publicKey: str | None
    #: Until when one that was replaced signs beside the new one.
    until: str | None


class OutputNode(TypedDict):
    """Hands the result to an output. Edges that leave it: always."""

    #: Unique among the nodes; without control characters.
    id: str
    type: Literal["output"]
    config: OutputConfig
    #: Where an editor draws it; kept and never read.
    position: NotRequired[dict[str, Any]]


class OutputPreviewRequest(TypedDict):
    """What an output that is not saved yet is to let through."""

    #: Kinds of events; `job.*` is every one of its subject.
    events: list[str]
    #: Only what has all of these tags.
    tags: NotRequired[list[str] | None]
    #: Only what is of this registrable domain.
    domain: NotRequired[str | None]
    #: Only results of these page types, and what tells of them.
    pageTypes: NotRequired[list[PageType] | None]
    #: Only what this holds for.
    condition: NotRequired[str | None]


class OutputTestRequest(TypedDict):
    """How an output is tried."""

    #: True: nothing is sent; the answer says which of the last 100 events would be delivered.
    dryRun: NotRequired[bool]
    #: A dry run's: with this condition in place of the output's.
    condition: NotRequired[str | None]


class OutputTestView(TypedDict):
    """What came of a test: one of the two."""

    sent: TestMessageView | None
    dryRun: DryRunView | None


class OutputUpdate(TypedDict):
    """What is to be different. What is left out, or null, stays as it is."""

    name: NotRequired[str | None]
    url: NotRequired[str | None]
    events: NotRequired[list[str] | None]
    tags: NotRequired[list[str] | None]
    domain: NotRequired[str | None]
    pageTypes: NotRequired[list[PageType] | None]
    condition: NotRequired[str | None]
    #: One that is switched on again goes on with what happens from then on; what happened meanwhile can be recovered.
    isEnabled: NotRequired[bool | None]
    #: A chat's.
    product: NotRequired[ChatProduct | None]
    #: A webhook's, true: new keys, which the answer has. The old ones sign beside them for another 24 hours. A
    #: feed's: a new address, and the old one leads nowhere from now on.
    rotateSecret: NotRequired[bool | None]
    #: Of the kind `postgres`: what is to be different about the server and the table.
    postgres: NotRequired[PostgresOfOutput | None]
    #: Of the kind `files`: what is to be different about them.
    files: NotRequired[FilesOfOutput | None]
    #: Of the kind `email`: what is to be different about letters. `recipients` are all of them.
    email: NotRequired[EmailTerms | None]
    #: What the output is to have none of from now on.
    clear: NotRequired[list[ClearableOfOutput] | None]


class OutputView(TypedDict):
    """Where events leave by themselves."""

    id: str
    kind: OutputKind
    name: str
    #: A webhook's endpoint; null of other kinds.
    url: str | None
    #: The host of a webhook's or a chat's endpoint.
    host: str | None
    #: A chat's.
    product: ChatProduct | None
    #: The first characters of a feed's token.
    tokenPrefix: str | None
    events: list[str]
    tags: list[str]
    domain: str | None
    pageTypes: list[PageType]
    condition: str | None
    isEnabled: bool
    state: OutputHealth
    #: Why the box switched it off.
    disabledReason: DisabledReason | None
    disabledAt: str | None
    keys: list[OutputKeyView]
    #: The keys in whole, in the answer that makes them and in no other: a `whsec_` to verify with, or a `whpk_`. Of a
    #: feed its address.
    secrets: NotRequired[list[str]]
    #: Of the kind `postgres`.
    postgres: NotRequired[PostgresView]
    #: Of the kind `files`.
    files: NotRequired[FilesView]
    #: Of the kind `email`.
    email: NotRequired[EmailView]
    #: Events up to this place of the log were looked at.
    position: int
    #: Deliveries that wait for a try; 1,000 are counted at most.
    pending: int
    delivered: int
    #: Deliveries of which every try has failed.
    failed: int
    #: Events that were gone from the log before they were looked at.
    missed: int
    #: Since when every try has failed.
    failingSince: str | None
    lastDeliveredAt: str | None
    lastError: str | None
    createdAt: str
    updatedAt: str


class OutputViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[OutputView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class OverviewView(TypedDict):
    period: PeriodView
    totals: TotalsView
    #: The time of the same length before.
    previousPeriod: PeriodView
    previous: TotalsView
    change: ChangeView
    #: An upper bound on how old the tables are that this was computed from.
    freshnessSec: int


class OwnAttribute(TypedDict):
    """An attribute of the organization's own."""

    #: Unique within the domain: a letter or `_`, then letters, digits, `_` and `-`, 128 characters at most. One that
    #: the platform's schema has replaces that one.
    name: str
    #: XPath 1.0 expressions, tried in order until one yields a value.
    xpaths: list[str]
    #: JSONPath queries (RFC 9535), tried behind the XPaths, as in a schema. At least one of the two.
    jsonPaths: list[str] | None
    #: What the found text is made into.
    type: AttributeType
    description: str | None
    #: Regular expressions (case-insensitive); a text that matches one is treated as not found.
    antiPatterns: list[str] | None
    semanticType: SemanticType | None
    #: What a value must satisfy to count as valid.
    validation: Validation | None
    #: Pages of this type alone; null for pages of every type. A name that is not the platform's begins a page type of
    #: your own.
    pageType: PageType | None


class OwnAttributeInput(TypedDict):
    """An attribute of the organization's own."""

    #: Unique within the domain: a letter or `_`, then letters, digits, `_` and `-`, 128 characters at most. One that
    #: the platform's schema has replaces that one.
    name: str
    #: XPath 1.0 expressions, tried in order until one yields a value.
    xpaths: NotRequired[list[str]]
    #: JSONPath queries (RFC 9535), tried behind the XPaths, as in a schema. At least one of the two.
    jsonPaths: NotRequired[list[str] | None]
    #: What the found text is made into.
    type: AttributeType
    description: NotRequired[str | None]
    #: Regular expressions (case-insensitive); a text that matches one is treated as not found.
    antiPatterns: NotRequired[list[str] | None]
    semanticType: NotRequired[SemanticType | None]
    #: What a value must satisfy to count as valid.
    validation: NotRequired[ValidationInput | None]
    #: Pages of this type alone; null for pages of every type. A name that is not the platform's begins a page type of
    #: your own.
    pageType: NotRequired[PageType | None]


class OwnAttributesView(TypedDict):
    """The organization's own attributes for a domain."""

    #: A registrable domain, or one host of it.
    domain: str
    #: Grows with each change; results say it as `attributesVersion`. 0 where nothing was ever saved.
    version: int
    #: Null where nothing was ever saved.
    updatedAt: str | None
    attributes: list[OwnAttribute]


class OwnAttributesViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[OwnAttributesView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class PagesView(TypedDict):
    """Pages, and what they take, compressed."""

    pages: int
    bytes: int


class PendingCliAuthView(TypedDict):
    #: `pending`.
    status: State
    #: Seconds until the next poll, at least.
    interval: int


class PendingView(TypedDict):
    """The answer while a result is extracted and not yet indexed."""

    #: Always true.
    indexingPending: bool
    retryAfterSeconds: int
    jobId: str
    id: str
    extractedAt: str


PeriodView = TypedDict(
    "PeriodView",
    {
        "from": "str",
        "to": "str",
        "timezone": "str",
    },
)
"""The time that an answer is about."""

class PlanView(TypedDict):
    id: str
    name: str
    monthlyCredits: int
    trialDays: int | None
    features: FeaturesView
    limits: LimitsView


class PlanViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[PlanView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class PointView(TypedDict):
    """One bucket. Of the first and last what lies in the period counts."""

    #: When it begins.
    at: str
    #: When the next one begins.
    endsAt: str
    #: Null for a rate, mean or percentile of nothing.
    value: float | None
    #: How many jobs, results or attempts it was made of.
    count: int


class PollCliAuthRequest(TypedDict):
    device_code: str


class PollRequest(TypedDict):
    ids: list[str]


class Polled(TypedDict):
    items: list[PolledJob]
    #: Ids that are no job of this organization.
    missing: list[str]


class PolledJob(TypedDict):
    id: str
    status: JobStatus
    resultId: str | None
    error: str | None


class PostgresOfOutput(TypedDict):
    """A table of a PostgreSQL server. It has no `Debug`: its password is for nobody's eyes."""

    #: The server's name or address.
    host: NotRequired[str | None]
    #: 5432 unless said otherwise.
    port: NotRequired[int | None]
    database: NotRequired[str | None]
    user: NotRequired[str | None]
    #: It is sealed, and not shown again. Given again where `host`, `port`, `sslmode` or `ca` change.
    password: NotRequired[str | None]
    #: The words of libpq; `verify-full` unless said otherwise.
    sslmode: NotRequired[SslMode | None]
    #: The certificates in PEM of the authorities that are trusted; those that the box trusts unless said otherwise.
    #: An empty text takes them away.
    ca: NotRequired[str | None]
    #: `public` unless said otherwise. It must be there.
    schema: NotRequired[str | None]
    #: It is made where it is not there.
    table: NotRequired[str | None]
    #: `append` (a row a result) unless said otherwise; `upsert` is a row a URL.
    mode: NotRequired[WriteMode | None]
    #: Whether columns are added that the table lacks; true unless said otherwise.
    addColumns: NotRequired[bool | None]
    #: How long a row waits for others that are written with it, in seconds; 5 unless said otherwise.
    everySeconds: NotRequired[int | None]


class PostgresView(TypedDict):
    """A table of a PostgreSQL server as it is shown."""

    host: str
    port: int
    database: str
    user: str
    hasPassword: bool
    sslmode: SslMode
    ca: str | None
    schema: str
    table: str
    mode: WriteMode
    addColumns: bool
    everySeconds: int


class PreviewView(TypedDict):
    #: The next ticks from now on, without jitter, also of a schedule that is switched off.
    fires: list[str]


class PriceView(TypedDict):
    """What a delivery costs in one tier."""

    #: Without rendering.
    plain: int
    render: int


class ProbeDetail(TypedDict):
    """One probe that has ended."""

    url: str
    domain: str
    providerId: str
    outcome: Outcome
    httpStatus: int | None
    durationMs: int
    bytes: int
    credits: int
    error: str | None
    startedAt: str


class ProbeStepView(TypedDict):
    """What came of one step."""

    step: ProbeStep
    isOk: bool
    durationMs: int
    #: What is at fault, in a word: `no_such_bucket`, `bad_secret`, `slow_down` …
    fault: str | None
    message: str | None


class ProbeView(TypedDict):
    """What came of a test; it ends with the first step that fails, but for removing what was put."""

    isOk: bool
    steps: list[ProbeStepView]


class ProblemView(TypedDict):
    #: From the body's root: `dag.nodes[2].config.providerId`.
    path: str
    code: Literal["node_type_unknown", "edge_type_unknown", "missing_start", "duplicate_id", "dangling_edge", "cycle", "unreachable", "missing_edge", "provider_not_connected", "output_not_found", "bad_config"]
    message: str


class ProposedXpath(TypedDict):
    xpath: str
    #: How many nodes it selects on the page; of a single value the first is the element.
    nodes: int
    #: The share of the other pages on which it gives a value; null where there are none.
    coverage: float | None


class ProviderConfig(TypedDict):
    providerId: str
    #: What is left out is as the job has it.
    render: NotRequired[bool]
    #: ISO 3166-1 alpha-2.
    country: NotRequired[str]
    premium: NotRequired[bool]
    timeoutMs: NotRequired[int]
    #: Further tries. Default: 0.
    retries: NotRequired[int]
    #: False: the target's robots.txt is not asked, whatever the provider's settings say.
    robots: NotRequired[bool]


class ProviderFiguresView(TypedDict):
    providerId: str
    #: Null for one that is not connected any more.
    name: str | None
    adapter: str | None
    #: Requests that went out through it in the period.
    attempts: int
    #: Those that brought the page.
    succeeded: int
    blocked: int
    timeouts: int
    #: Those to which the target answered something else, such as 404: that is no fault of the provider.
    targetErrors: int
    #: `succeeded`, as a part of the attempts that were not `targetErrors`.
    successRate: float | None
    #: `blocked`, as a part of all attempts.
    blockRate: float | None
    #: How long those took that brought the page.
    latencyP50Ms: float | None
    latencyP95Ms: float | None
    bytes: int
    #: Jobs of the period that ended with its answer.
    jobs: int
    #: What those jobs were charged.
    credits: int
    creditsPerJob: float | None
    #: What it says that its attempts cost, in units of its own.
    billed: int


class ProviderNode(TypedDict):
    """Fetches the page through a provider. Edges that leave it: success, failure, and perhaps blocked, timeout."""

    #: Unique among the nodes; without control characters.
    id: str
    type: Literal["provider"]
    config: ProviderConfig
    #: Where an editor draws it; kept and never read.
    position: NotRequired[dict[str, Any]]


class ProviderPatch(TypedDict):
    """What to change of a provider; what is left out stays. Settings and credentials are merged, field by field."""

    name: NotRequired[str | None]
    credentials: NotRequired[dict[str, Any] | None]
    settings: NotRequired[dict[str, Any] | None]
    #: Empty: the vendor's own again.
    baseUrl: NotRequired[str | None]
    #: Replaces all earlier ones; empty: the adapter's own again.
    credits: NotRequired[dict[str, NewPrice] | None]
    #: 0: no bound of its own again.
    maxConcurrency: NotRequired[int | None]
    isEnabled: NotRequired[bool | None]


class ProviderView(TypedDict):
    """A connected provider. Its credentials are never shown."""

    id: str
    adapter: str
    name: str
    baseUrl: str | None
    settings: dict[str, Any]
    #: Whether credentials are kept for it.
    credentialsSet: bool
    #: What a delivery costs, by tier.
    credits: dict[str, PriceView]
    maxConcurrency: int | None
    isEnabled: bool
    #: Why it is left alone at the moment; null when it is not.
    trouble: TroubleView | None
    #: How its proxies are; null for other adapters.
    proxies: ProxiesView | None
    createdAt: str
    updatedAt: str


class ProviderViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[ProviderView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class ProvidersView(TypedDict):
    period: PeriodView
    #: At most 200, who was asked most first.
    items: list[ProviderFiguresView]
    #: An upper bound on how old the tables are that this was computed from.
    freshnessSec: int


class ProxiesView(TypedDict):
    #: Entries of the list.
    count: int
    #: How many of them are left alone at the moment.
    cooling: int
    #: The first of those.
    troubles: list[ProxyTroubleView]


class ProxyTroubleView(TypedDict):
    #: Without its login.
    proxy: str
    error: str
    #: When it is tried again.
    until: str


class QualityFiguresView(TypedDict):
    period: PeriodView
    groupBy: QualityBy
    #: By domain and page type, or page type: at most 200, those with the most results first. Empty for attributes.
    items: list[QualityRowView]
    #: By page type and attribute: at most 500. Empty for anything else.
    attributes: list[AttributeCoverageView]
    #: An upper bound on how old the tables are that this was computed from.
    freshnessSec: int


class QualityRowView(TypedDict):
    #: Null where it is grouped by page types alone.
    domain: str | None
    #: Null for pages of no known type.
    pageType: str | None
    results: int
    #: Those that were read by a schema, of which what follows are the means.
    scored: int
    #: 0.6 completeness + 0.4 validation.
    composite: float | None
    completeness: float | None
    validation: float | None
    #: Results in which a value differs from their URL's result before.
    changed: int


class QualityView(TypedDict):
    """How good a result is, each from 0 to 1."""

    completeness: float
    validation: float
    composite: float


class QueryFailure(TypedDict):
    """Why a statement has no result, in the words of the interface."""

    #: Stable and machine-readable.
    code: Literal["syntax_error", "statement_timeout", "rls_denied", "too_many_queries", "kill_switched", "canceled", "transient"]
    #: A sentence for the customer.
    message: str
    #: Whether the same statement may succeed when it is sent again.
    retriable: bool


class QuestionCardView(TypedDict):
    """A question back: which of several readings is meant. Answered once, by a click or by its words."""

    id: str
    version: Literal[1]
    payload: QuestionPayload
    actions: list[ActionView]


class QuestionPayload(TypedDict):
    question: str


class QuotaError(TypedDict):
    error: Literal["QUOTA_EXCEEDED"]
    message: str
    #: The organization's plan.
    plan: str
    #: What can be reserved now; the refused request took nothing.
    remainingCredits: int
    isTrialExpired: bool
    #: What the request needs, where that is known.
    requiredCredits: NotRequired[int]


class RaceConfig(TypedDict):
    providerIds: list[str]
    timeoutMs: NotRequired[int]
    #: False: the target's robots.txt is not asked, whatever the provider's settings say.
    robots: NotRequired[bool]


class RaceNode(TypedDict):
    """Fetches the page through several providers at once; the first good answer wins. Edges that leave it: success,
    failure.
    """

    #: Unique among the nodes; without control characters.
    id: str
    type: Literal["race"]
    config: RaceConfig
    #: Where an editor draws it; kept and never read.
    position: NotRequired[dict[str, Any]]


class RankingView(TypedDict):
    """In which order providers are asked at a domain."""

    #: Null is every domain without an order of its own.
    domain: str | None
    providerIds: list[str]


class ReceiptView(TypedDict):
    """That a query was saved."""

    cardId: str
    sourceQueryId: str
    #: Null since the saved query was deleted.
    savedQueryId: str | None
    toolCallId: str


class RechargeView(TypedDict):
    """A request for more credits."""

    id: str
    credits: int
    note: str | None
    status: RechargeStatus
    requestedBy: str
    createdAt: str
    decidedAt: str | None
    #: What the operator wrote.
    answer: str | None


class RechargeViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[RechargeView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class RecipientView(TypedDict):
    """A recipient as people see it."""

    address: str
    state: RecipientState
    #: Since when it stands so.
    since: str
    lastSentAt: str | None
    #: Letters in a row that the mail server refused; after 3 the address counts as one that bounces.
    refused: int
    lastError: str | None


class RecoverRequest(TypedDict):
    """From when on."""

    since: str


RecoverView = TypedDict(
    "RecoverView",
    {
        "outputId": "str",
        "from": "int",
        "to": "int",
        "isIncomplete": "bool",
    },
)
"""What is looked at anew."""

class RedirectView(TypedDict):
    """An answer that led elsewhere."""

    #: The URL that answered so.
    url: str
    httpStatus: int


class RefreshTokenRequest(TypedDict):
    refreshToken: str


class RegisterRequest(TypedDict):
    email: str
    #: 12 to 256 characters, not the email address, not a common password.
    password: str
    name: str
    #: From an invitation to this address; asked for where registration is by invitation.
    inviteToken: NotRequired[str | None]


class Registered(TypedDict):
    """What became of an upload."""

    #: New rows.
    created: int
    #: Known URLs that gained a tag, metadata, a page type or a workflow.
    updated: int
    #: Known URLs that did not change, and repetitions within the request.
    duplicates: int
    invalid: list[InvalidUrl]


class ResetPasswordRequest(TypedDict):
    #: From the message.
    token: str
    #: 12 to 256 characters, not the email address, not a common password.
    password: str


class ResolutionView(TypedDict):
    """How a card was answered."""

    cardId: str
    cardType: str
    actionId: str
    value: Any
    source: ResolutionSource
    sourceMessageId: str
    resolvedAt: str


ResultDeleteFilter = TypedDict(
    "ResultDeleteFilter",
    {
        "domain": "NotRequired[str | None]",
        "pageType": "NotRequired[PageType | None]",
        "urlId": "NotRequired[str | None]",
        "tag": "NotRequired[list[str] | None]",
        "from": "NotRequired[str | None]",
        "to": "NotRequired[str | None]",
    },
)

class ResultDiff(TypedDict):
    """How one result differs from another."""

    #: From the values of the result in the path to those of `with`.
    attributes: list[ChangedValue]
    #: From the main text of its page to that of the other one, by words.
    text: list[TextChange]
    #: Why there is no text, or what of it is not told; null where `text` says all.
    textNote: str | None


class ResultList(TypedDict):
    """A page of results."""

    items: list[FoundResult]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None
    #: Results that match, over all pages.
    total: int
    facets: FacetsView


class ResultMetadata(TypedDict):
    """What `GET /jobs/{id}/result` says of a result."""

    id: str
    jobId: str
    pageType: PageType | None
    quality: QualityView | None
    #: Bytes of the page as it was fetched.
    byteSize: int
    #: Bytes it takes in the blob store.
    storedSize: int
    contentType: str | None
    extractedAt: str
    indexedAt: str | None


class ResultPageView(TypedDict):
    """A page of rows."""

    rows: list[dict[str, Any]]
    page: int
    #: As asked for; fewer in the answer to a submission whose rows are very large.
    pageSize: int
    #: Rows of the whole result, 0 after a dry run; -1 when unknown.
    totalRows: int
    hasMore: bool
    #: Present when a structured aggregate left out readings whose columns are not filled yet.
    historyCoverage: NotRequired[CoverageView]
    exportEligibility: NotRequired[EligibilityView]


class ResultView(TypedDict):
    """A result."""

    id: str
    jobId: str
    urlId: str | None
    url: str
    #: Where redirects led.
    finalUrl: str
    #: The answers that led there, in their order; empty where there were none, or the provider does not tell them.
    redirects: list[RedirectView]
    #: The registrable domain of the URL.
    domain: str
    #: The host of the URL.
    host: str
    pageType: PageType | None
    #: The job's tags, then those that its URL had when the job ended.
    tags: list[str]
    schemaId: str | None
    schemaVersion: int | None
    #: The version of the organization's own attributes that were merged in; null where it had none for the page.
    attributesVersion: int | None
    #: By attribute; attributes without a value are absent. Empty when no schema was there for the page.
    values: dict[str, Any]
    #: Null when no schema was there for the page: nothing was measured.
    quality: QualityView | None
    #: One for every attribute without a value, and for those whose value is not trusted.
    attributeErrors: list[AttributeErrorView]
    provider: str
    httpStatus: int
    #: SHA-256 of the values found, or of the page's bytes when no schema was there.
    contentHash: str
    #: Attributes whose values differ from the URL's previous result; empty for its first.
    changed: list[str]
    scrapedAt: str
    extractedAt: str
    #: When it could first be found by search; null until then.
    indexedAt: str | None


class ResultsView(TypedDict):
    benchmarkId: str
    status: BenchmarkStatus
    skippedProviders: list[str]
    #: Over all domains, then domain by domain; the best provider first in each.
    results: list[Rollup]
    #: Probes that have ended, in the order in which they were made.
    probeDetails: list[ProbeDetail]


class Rollup(TypedDict):
    """How one provider did at one domain, or over all."""

    #: Null is over all domains.
    domain: str | None
    providerId: str
    providerName: str
    #: Probes that have ended.
    probes: int
    successes: int
    #: From 0 to 1.
    successRate: float
    #: Of the successful ones.
    p50Ms: int | None
    p95Ms: int | None
    #: Of the successful ones.
    avgCredits: float | None
    avgBytes: float | None
    #: From 0 to 1: success, latency and cost together, careful where probes are few.
    score: float
    #: 1 is the best.
    rank: int


class RouteRequest(TypedDict):
    #: `*` (every job), `domain:<domain>`, or null to clear it. Must be there.
    route: NotRequired[str | None]


class RouteView(TypedDict):
    workflowId: str
    route: str | None


class RunRequest(TypedDict):
    """How it is run."""

    #: Whether all documents are read, also those that are said not to have changed.
    full: NotRequired[bool]


class RunView(TypedDict):
    """What became of a tick."""

    id: str
    scheduleId: str
    trigger: Trigger
    #: The tick's own time, without jitter.
    scheduledFor: str
    status: RunStatus
    #: When it really began; null where it did not.
    firedAt: str | None
    #: When its last job had ended, or it was left out.
    finishedAt: str | None
    jobsCreated: int
    #: Of those, so far.
    succeeded: int
    failed: int
    canceled: int
    #: Whether more URLs matched than a run may have (`schedules.max_urls_per_run`): the first of them were submitted.
    truncated: bool
    #: Why it was left out, failed, or submitted less.
    message: str | None


class RunViewInput(TypedDict):
    """How a saved query is run."""

    #: Another statement to run in its place, in the same scope.
    sql: NotRequired[str | None]
    #: The values of the statement's parameters `$1`, `$2` …: texts, numbers, truth values or null.
    params: NotRequired[list[Any] | None]
    #: How long to wait for the end, in milliseconds; 2,000 unless given.
    waitMs: NotRequired[int | None]
    #: Cannot be chosen: only what the saved query has.
    scopeKind: NotRequired[ScopeKind | None]
    #: Cannot be chosen: only what the saved query has.
    scopeAgentId: NotRequired[str | None]


class RunViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[RunView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class S3OfFiles(TypedDict):
    """A bucket. It has no `Debug`: its secret is for nobody's eyes."""

    #: It must exist.
    bucket: NotRequired[str | None]
    #: Where the server is, as `https://host:port`; Amazon's own of the region when left out. Private addresses are
    #: refused unless `network.allow` opens them.
    endpoint: NotRequired[str | None]
    #: `us-east-1` unless said otherwise, which servers without regions take.
    region: NotRequired[str | None]
    #: What keys begin with, before `path`; without `/` at its ends.
    prefix: NotRequired[str | None]
    accessKeyId: NotRequired[str | None]
    #: It is sealed, and not shown again. Given again where `endpoint`, `region`, `bucket` or `accessKeyId` change.
    secretAccessKey: NotRequired[str | None]
    #: Whether the bucket is named in the path and not in the host; true where an endpoint is given and nothing is
    #: said.
    pathStyle: NotRequired[bool | None]
    #: Whether the storage keeps `If-None-Match: *`, which a Delta log needs to be written by several at once; true
    #: unless said otherwise. The box tries it before it believes it.
    conditionalPuts: NotRequired[bool | None]


class S3OfFilesView(TypedDict):
    """A bucket as it is shown."""

    bucket: str
    #: Null for Amazon's own.
    endpoint: str | None
    region: str
    prefix: str
    accessKeyId: str
    pathStyle: bool
    conditionalPuts: bool


class SampledPage(TypedDict):
    jobId: str
    url: str
    use: PageUse
    reason: LeftOutPage | None


class SaveOfferPayload(TypedDict):
    sourceQueryId: str
    proposedName: str
    proposedDescription: str | None
    scopeKind: Literal["agent"]
    scopeAgentId: str


class SaveOfferView(TypedDict):
    """An offer to keep a query. Only a click on its Save does."""

    id: str
    version: Literal[1]
    payload: SaveOfferPayload
    #: Save, and dismiss.
    actions: list[ActionView]


class SavedQueryChangeView(TypedDict):
    """What changes; what is left out stays."""

    name: NotRequired[str | None]
    #: An empty text removes it.
    description: NotRequired[str | None]
    sql: NotRequired[str | None]
    structured: NotRequired[StructuredInput | None]
    #: Cannot change: only what it is already.
    scopeKind: NotRequired[ScopeKind | None]
    #: Cannot change: only what it is already.
    scopeAgentId: NotRequired[str | None]


class SavedQueryView(TypedDict):
    """A saved query."""

    id: str
    name: str
    description: str | None
    #: Null for a structured query.
    sql: str | None
    #: Null for SQL.
    structured: Structured | None
    scopeKind: ScopeKind
    scopeAgentId: str | None
    #: The query that it was saved from.
    sourceQueryId: str | None
    createdBy: str
    createdAt: str
    updatedAt: str


class SavedQueryViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[SavedQueryView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class ScheduleView(TypedDict):
    """A standing order."""

    id: str
    name: str
    cron: str
    timezone: str
    workflowId: str | None
    tagFilters: list[str]
    urlIds: list[str] | None
    options: OptionsView
    isEnabled: bool
    #: Why the box switched it off: it could not be read any more.
    disabledReason: str | None
    overlap: Overlap
    misfire: Misfire
    catchUpSeconds: int
    jitterSeconds: int
    #: The next tick, without jitter; null while it is switched off.
    nextFireAt: str | None
    #: When a run last began.
    lastRunAt: str | None
    createdAt: str


class ScheduleViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[ScheduleView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class SchemaList(TypedDict):
    """Schemas, newest first."""

    items: list[SchemaView]


class SchemaView(TypedDict):
    """How pages of a kind are read at a domain. Shared by all organizations; an organization's own attributes are not in
    it.
    """

    id: str
    domain: str
    pageType: PageType
    version: int
    attributes: list[Attribute]
    confidence: float
    discoveredBy: DiscoveredBy
    sampleCount: int
    #: When a page last confirmed it, to the hour: its quality was at least half of the schema's confidence. Null
    #: while none has.
    lastValidatedAt: str | None
    #: Until when it counts as good unless another page confirms it: 90 days after the last one did, or after it was
    #: made. It is used beyond that, too; then somebody should look at it.
    expiresAt: str
    createdAt: str


class SessionView(TypedDict):
    """A login of a person."""

    id: str
    #: Whether it is the one that asks.
    isCurrent: bool
    #: Whether it came through the company's provider.
    isByProvider: bool
    createdAt: str
    #: When its tokens were last replaced. A browser's session keeps the one that it began with.
    refreshedAt: str
    #: When it ends unless it is refreshed.
    expiresAt: str


class SessionViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[SessionView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class SftpOfFiles(TypedDict):
    """A server. It has no `Debug`: its secrets are for nobody's eyes."""

    #: The server's name or address. Private addresses are refused unless `network.allow` opens them.
    host: NotRequired[str | None]
    #: 22 unless said otherwise.
    port: NotRequired[int | None]
    user: NotRequired[str | None]
    #: This or `privateKey`. It is sealed, and not shown again; one of the two is given again where `host`, `port`,
    #: `user` or `hostKey` change.
    password: NotRequired[str | None]
    #: A private key of OpenSSH or in PEM, Ed25519 or ECDSA, without a passphrase. It is sealed, and not shown again.
    privateKey: NotRequired[str | None]
    #: By what the server is known, which must be said: its public key (`ssh-ed25519 AAAA…`, what `ssh-keyscan -t
    #: ed25519 HOST` prints) or the fingerprint of it (`SHA256:…`). Nothing is sent to a server with another one.
    hostKey: NotRequired[str | None]
    #: Where `path` begins: absolute, or below the folder of the login, which it is unless something is said.
    folder: NotRequired[str | None]


class SftpOfFilesView(TypedDict):
    """A server as it is shown."""

    host: str
    port: int
    user: str
    hasPassword: bool
    hasPrivateKey: bool
    hostKey: str
    folder: str


class ShownColumnView(TypedDict):
    name: str
    type: str


class SiteSessionView(TypedDict):
    """A site session, without what it consists of."""

    id: str
    #: The registrable domain whose hosts it is sent to.
    domain: str
    name: str
    kind: SiteSessionKind
    #: Of its cookies or headers, in order.
    names: list[str]
    state: SiteSessionState
    #: When the first of its cookies is over; null where none has an end.
    expiresAt: str | None
    #: When a job was last sent with it; known when the job has ended.
    lastUsedAt: str | None
    createdAt: str
    #: Cookies that were not kept, being of other domains or over; in the answer to createSiteSession alone.
    leftOut: NotRequired[int]


class SiteSessionViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[SiteSessionView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class SplitConfig(TypedDict):
    #: By the id of the node that an edge leads to; one of them is not 0.
    weights: dict[str, int]
    #: A URL always goes the same way, or each job has a choice of its own. Default: "url".
    by: NotRequired[Literal["url", "job"]]


class SplitNode(TypedDict):
    """A choice by weight. Edges that leave it: always."""

    #: Unique among the nodes; without control characters.
    id: str
    type: Literal["split"]
    config: SplitConfig
    #: Where an editor draws it; kept and never read.
    position: NotRequired[dict[str, Any]]


class StartCliAuthRequest(TypedDict):
    #: The machine that the command line runs on; the key is named after it.
    hostname: str


class StartConfig(TypedDict):
    #: The agent whose conversations see what comes of these jobs.
    agentId: NotRequired[str]


class StartNode(TypedDict):
    """Where a job begins; a graph has one. Edges that leave it: always."""

    #: Unique among the nodes; without control characters.
    id: str
    type: Literal["start"]
    config: NotRequired[StartConfig]
    #: Where an editor draws it; kept and never read.
    position: NotRequired[dict[str, Any]]


class StartedCliAuthView(TypedDict):
    #: The command line's secret, to poll with.
    device_code: str
    #: What the person types: `BCDF-GHJK`.
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    #: Seconds until both codes end.
    expires_in: int
    #: Seconds between two polls, at least.
    interval: int


class StorageErrorView(TypedDict):
    """What is wrong with a storage."""

    bucket: str
    #: In a word: `no_such_bucket`, `bad_secret`, `slow_down` …
    fault: str
    message: str
    since: str


class StorageView(TypedDict):
    """Where the organization's pages lie."""

    kind: StorageKind
    bucket: str | None
    #: Null for Amazon's own.
    endpoint: str | None
    region: str | None
    prefix: str | None
    accessKeyId: str | None
    pathStyle: bool | None
    conditionalPuts: bool | None
    checksum: ChecksumKind | None
    updatedAt: str | None
    #: What lies in the box's own folder. New pages always come there first.
    local: PagesView
    #: What lies in storages of the organization's own.
    remote: PagesView
    move: MoveView


class StoredPageView(TypedDict):
    """Where the page of a result is to be had."""

    #: A link that needs no credential. It gives a file to save.
    url: str
    #: Until when; five minutes from now.
    expiresAt: str
    #: Bytes of the page as it was fetched.
    byteSize: int
    #: As the target named it; null where it named none.
    contentType: str | None


class StoredView(TypedDict):
    """What an organization stores, in the units of its plan's limits."""

    storageBytes: int
    #: Of those, bytes of pages on the disk.
    pageBytes: int
    rows: int
    urls: int
    workflowVersions: int
    schedules: int


class StrategyView(TypedDict):
    """How a smart workflow is kept."""

    strategy: Strategy
    mode: Mode


class Structured(TypedDict):
    """A query without SQL."""

    #: One of the console's tables.
    table: str
    #: What is computed; may be empty when there are dimensions.
    measures: list[Measure]
    #: What it is computed for: one row for each combination.
    dimensions: list[Dimension]
    #: Which rows count: those that pass all of them.
    filters: list[Filter]
    #: The order of the rows; by the dimensions unless given.
    orderBy: list[OrderBy]
    #: Most rows of the result.
    limit: int | None


class StructuredError(TypedDict):
    error: dict[str, Any]


class StructuredInput(TypedDict):
    """A query without SQL."""

    #: One of the console's tables.
    table: str
    #: What is computed; may be empty when there are dimensions.
    measures: NotRequired[list[MeasureInput]]
    #: What it is computed for: one row for each combination.
    dimensions: NotRequired[list[DimensionInput]]
    #: Which rows count: those that pass all of them.
    filters: NotRequired[list[FilterInput]]
    #: The order of the rows; by the dimensions unless given.
    orderBy: NotRequired[list[OrderByInput]]
    #: Most rows of the result.
    limit: NotRequired[int | None]


class StructuredQuotaError(TypedDict):
    error: dict[str, Any]
    #: The organization's plan.
    plan: str
    #: What can be reserved now; the refused request took nothing.
    remainingCredits: int
    isTrialExpired: bool
    #: What the request needs, where that is known.
    requiredCredits: NotRequired[int]


class SubjectView(TypedDict):
    """What it happened to."""

    #: `job`, `result`, `schedule` …: the part of the kind before the point.
    type: str
    id: str


class SubmittedJob(TypedDict):
    id: str
    url: str


class SubmittedJobs(TypedDict):
    #: Under which they are asked for together. Of jobs that were all submitted before (`externalId`) the batch of the
    #: first one then; null where that one was submitted alone.
    batchId: str | None
    jobs: list[SubmittedJob]


class SuggestionView(TypedDict):
    id: str
    workflowId: str
    status: SuggestionStatus
    currentRanking: list[RankingView]
    proposedRanking: list[RankingView]
    evidence: list[EvidenceView]
    #: How much better the first provider's score is, on average over the traffic.
    expectedGain: float
    createdAt: str
    resolvedAt: str | None


class SuggestionViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[SuggestionView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class TableCardView(TypedDict):
    """The first rows of an answer."""

    id: str
    version: Literal[1]
    payload: TablePayload
    actions: list[ActionView]


class TableItemView(TypedDict):
    """A table in the list."""

    name: str
    description: str
    #: Grows when the columns change.
    catalogVersion: int
    rowCount: int
    #: Upper bound in seconds on how stale the rows are.
    freshnessSec: int


class TableItemViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[TableItemView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class TablePayload(TypedDict):
    #: All rows: `GET /api/v1/bi/queries/{id}/results`.
    queryId: str
    columns: list[ShownColumnView]
    #: As many values as columns in each; long texts are cut and end in "…".
    rows: list[list[Any]]
    #: Rows of the whole answer, or null where nobody knows.
    totalRows: int | None


class TableView(TypedDict):
    """A table with its columns."""

    name: str
    description: str
    #: Grows when the columns change.
    catalogVersion: int
    rowCount: int
    #: Upper bound in seconds on how stale the rows are.
    freshnessSec: int
    columns: list[ColumnView]


class TermsView(TypedDict):
    """The terms on the wire; 0 is for good."""

    #: Days that pages are kept; their results stay.
    pagesDays: int
    #: Results of one URL that are kept: the newest ones.
    versionsPerUrl: int
    #: Days that jobs are kept once they have ended.
    jobsDays: int
    #: Days that results are kept, with their pages.
    resultsDays: int
    #: MiB that pages take, compressed; beyond it the oldest go.
    pagesMb: int


class TestMessageView(TypedDict):
    """What the endpoint answered to a message that tells nothing (`output.test`)."""

    isDelivered: bool
    webhookId: str
    status: int | None
    #: The beginning of the answer, or why there was none.
    told: str
    durationMs: int


class TestRequest(TypedDict):
    #: The page to fetch.
    url: str


class TestView(TypedDict):
    """How a test went. It is no job: nothing is kept and nothing is charged, though the vendor may bill it."""

    outcome: Outcome
    #: What is wrong with the account, when the outcome is provider_error.
    fault: Fault | None
    httpStatus: int | None
    durationMs: int
    bytes: int
    credits: int
    costSource: CostSource
    rule: str | None
    error: str | None
    finalUrl: str | None
    #: Bytes of the page.
    pageBytes: int | None


class TextChange(TypedDict):
    """A piece of text, and what became of it. What is equal or inserted makes up the new text, what is equal or deleted
    the old.
    """

    op: TextOp
    text: str
    #: Words of an equal text that stand behind this piece and are left out; 0 where nothing is.
    wordsLeftOut: int


class TileColumnView(TypedDict):
    """A column of a tile's rows."""

    name: str
    #: By PostgreSQL's name.
    type: str


class TilePosition(TypedDict):
    """Where a tile is: cells of a grid of 12 columns, counted from 0."""

    #: 0 to 11.
    x: int
    #: 0 to 1,000.
    y: int
    #: 1 to 12, and no further than the last column.
    w: int
    #: 1 to 24.
    h: int


class TileResultView(TypedDict):
    """What a tile showed last."""

    #: When the rows were asked for.
    refreshedAt: str
    #: How old the tables may have been then.
    freshnessSec: int
    columns: list[TileColumnView]
    rows: list[dict[str, Any]]
    #: How many rows the statement gave.
    totalRows: int
    #: Whether there are more than these.
    isTruncated: bool
    #: Why it could not be made anew the last time; the rows are from before then.
    error: str | None


class TileView(TypedDict):
    """A saved query on a dashboard."""

    id: int
    title: str | None
    savedQueryId: str
    params: list[Any]
    chart: Chart
    position: TilePosition
    #: What it showed last; null before it was made for the first time, and in lists.
    result: TileResultView | None


class TimeseriesView(TypedDict):
    metric: Metric
    interval: Interval
    period: PeriodView
    #: Every bucket that the period touches, oldest first.
    points: list[PointView]
    #: An upper bound on how old the table is that this was computed from.
    freshnessSec: int


class ToggleRequest(TypedDict):
    isEnabled: bool


class ToggleView(TypedDict):
    id: str
    isEnabled: bool


class TokensView(TypedDict):
    """The tokens of a login."""

    accessToken: str
    #: Good once: a refresh answers with the next one.
    refreshToken: str
    #: Seconds until the access token ends.
    expiresIn: int


class TotalsView(TypedDict):
    """What a period comes to."""

    #: Jobs that were submitted in it.
    jobs: int
    byStatus: ByStatusView
    #: Succeeded jobs, as a part of succeeded and failed ones; null where there is neither.
    successRate: float | None
    #: What these jobs were charged.
    credits: int
    #: Different URLs of these jobs.
    urls: int
    domains: int
    #: How long the succeeded ones took, from the beginning of their last run to its end; null where there are none.
    latencyP50Ms: float | None
    latencyP95Ms: float | None
    #: Results whose page was fetched in it; null beside a tag, as what follows.
    results: int | None
    #: Those in which a value differs from their URL's result before.
    changed: int | None
    #: Mean composite quality of these results, where they have one.
    quality: float | None
    #: Requests that went out.
    attempts: int | None
    #: Bytes that came in with them.
    bytes: int | None


class TransactionView(TypedDict):
    id: str
    at: str
    kind: TransactionKind
    #: Positive into the balance, negative out of it.
    amount: int
    balanceAfter: int
    jobId: str | None
    note: str | None


class TransactionViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[TransactionView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class TriggerView(TypedDict):
    jobsCreated: int
    #: Left out when no URL matched.
    scheduleRunId: NotRequired[str]
    #: Only when no job was made: why.
    message: NotRequired[str]


class TroubleView(TypedDict):
    fault: Fault
    error: str
    since: str
    #: When it is tried again.
    until: str


class TurnView(TypedDict):
    """A message that was taken, and what the assistant says to it."""

    message: AgentMessageView
    replies: list[AgentMessageView]


class UpdateMemberRequest(TypedDict):
    role: Role


class UpdateOrgRequest(TypedDict):
    name: str


class UpdateWorkflowRequest(TypedDict):
    name: NotRequired[str | None]
    dag: NotRequired[Dag | None]


class UpdatedUrls(TypedDict):
    """What came of it."""

    #: URLs that are different now.
    updated: int
    #: URLs that were as asked already.
    unchanged: int
    #: URLs that could not be changed, and stay as they were.
    refused: int
    #: The first 100 of those, with the reason.
    refusals: list[UrlRefusal]
    #: Ids that are no URL of the organization; empty for a change by filter.
    missing: list[str]
    #: Hand it back as `cursor`, with the same filter, to go on; null when everything that matched is through.
    nextCursor: str | None


class Uploaded(TypedDict):
    """What became of an upload."""

    #: New rows.
    created: int
    #: Known URLs that gained a tag, metadata, a page type or a workflow.
    updated: int
    #: Known URLs that did not change, and repetitions within the upload.
    duplicates: int
    #: Lines, or records of CSV, that were read: those above and the invalid ones.
    lines: int
    #: How many lines are invalid.
    invalidTotal: int
    #: The first 1,000 of them.
    invalid: list[InvalidLine]
    #: The first line that was not registered for want of room; null when all were looked at. Go on there with
    #: fromLine.
    nextLine: int | None
    format: UploadFormat | None
    #: How the letters were read: utf-8, utf-16le, windows-1252 and so on.
    charset: str
    #: What separates the fields of a CSV file.
    delimiter: str | None
    #: Columns of a CSV file that became members of the metadata.
    metadataColumns: list[str]
    #: Members of NDJSON objects that mean nothing here (the first 20).
    ignoredMembers: list[str]
    #: What else is to be known of how the file was read, in words.
    notes: list[str]


class UrlHistoryEntry(TypedDict):
    """One visit of a URL, or the try of one."""

    jobId: str
    #: Where the job stands; `succeeded` where it is gone and its result is not.
    status: JobStatus
    #: When the job was submitted; where it is gone, when its page was fetched.
    at: str
    finishedAt: str | None
    #: Why the job failed.
    error: str | None
    scheduleRunId: str | None
    #: What follows is null or empty where there is no result.
    resultId: str | None
    scrapedAt: str | None
    httpStatus: int | None
    provider: str | None
    #: What differs from the URL's result before.
    changed: list[ChangedValue]


class UrlHistoryEntryPage(TypedDict):
    """A page of a list on the wire."""

    items: list[UrlHistoryEntry]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class UrlRefusal(TypedDict):
    """A URL that could not be changed."""

    id: str
    url: str
    reason: str


class UrlTag(TypedDict):
    tag: str
    #: URLs that have it.
    count: int


class UrlTagPage(TypedDict):
    """A page of a list on the wire."""

    items: list[UrlTag]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class UrlUpdate(TypedDict):
    """What is to be different. What is left out, or null, stays as it is."""

    #: All tags from now on; `[]` for none.
    tags: NotRequired[list[str] | None]
    #: The whole object from now on, at most 16 KiB of JSON; `{}` for none.
    metadata: NotRequired[dict[str, Any] | None]
    pageType: NotRequired[PageType | None]
    workflowId: NotRequired[str | None]
    #: A site session of the URL's domain: its jobs are sent with it, unless they name another one.
    siteSessionId: NotRequired[str | None]
    #: What the URL is to have none of from now on.
    clear: NotRequired[list[ClearableOfUrl] | None]


class UrlView(TypedDict):
    """A registered URL on the wire."""

    id: str
    url: str
    #: The registrable domain.
    domain: str
    host: str
    tags: list[str]
    metadata: dict[str, Any]
    pageType: PageType | None
    workflowId: str | None
    #: The site session that its jobs are sent with which name none themselves.
    siteSessionId: str | None
    lastJobId: str | None
    #: When the page of its newest result was fetched: that result's scrapedAt.
    lastScrapedAt: str | None
    lastStatus: JobStatus | None
    createdAt: str


class UrlViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[UrlView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class UrlsChosenBy(TypedDict):
    """Every URL that matches all that is given, as in listUrls."""

    #: Part of the normalized URL; the letters A to Z in any case.
    q: NotRequired[str | None]
    #: All must be there.
    tag: NotRequired[list[str] | None]
    domain: NotRequired[str | None]
    pageType: NotRequired[PageType | None]
    lastStatus: NotRequired[JobStatus | None]


class UrlsUpdate(TypedDict):
    """What is to be different of which URLs. What is left out stays as it is."""

    #: 1 to 10,000 URLs. Either this or `filter`.
    ids: NotRequired[list[str] | None]
    #: Every URL that matches all that is given, as in listUrls; at least one member.
    filter: NotRequired[UrlsChosenBy | None]
    #: The `nextCursor` of the same change by the same filter that was not through.
    cursor: NotRequired[str | None]
    #: Tags that each has from now on, beside its own.
    addTags: NotRequired[list[str] | None]
    #: Tags that none has any longer.
    removeTags: NotRequired[list[str] | None]
    pageType: NotRequired[PageType | None]
    workflowId: NotRequired[str | None]
    #: What they are to have none of from now on.
    clear: NotRequired[list[ClearableOfUrl] | None]


class UserView(TypedDict):
    """What a person sees of their account."""

    id: str
    email: str
    name: str
    emailVerifiedAt: str | None
    #: Null before the person has made or joined an organization.
    orgId: str | None
    orgName: str | None


class Validation(TypedDict):
    """Lengths are in characters and, like `pattern`, are asked of texts (of every member of a list); `min` and `max` of
    numbers.
    """

    minLength: NotRequired[int]
    maxLength: NotRequired[int]
    min: NotRequired[float]
    max: NotRequired[float]
    #: A regular expression that must match somewhere; a number is matched as JSON prints it.
    pattern: NotRequired[str]


class ValidationInput(TypedDict):
    """Lengths are in characters and, like `pattern`, are asked of texts (of every member of a list); `min` and `max` of
    numbers.
    """

    minLength: NotRequired[int | None]
    maxLength: NotRequired[int | None]
    min: NotRequired[float | None]
    max: NotRequired[float | None]
    #: A regular expression that must match somewhere; a number is matched as JSON prints it.
    pattern: NotRequired[str | None]


class ValidationRequest(TypedDict):
    dag: Dag


class ValidationView(TypedDict):
    """What was found in a graph."""

    #: Whether it could be published as it is.
    valid: bool
    errors: list[ProblemView]
    warnings: list[ProblemView]
    #: The most that one job could be charged, whatever it asks for; null for a graph that cannot be read.
    maxCredits: int | None
    #: The providers that a job can come to.
    providerIds: list[str]


class VerifyEmailRequest(TypedDict):
    token: str


class WaitConfig(TypedDict):
    ms: int


class WaitNode(TypedDict):
    """Waits, and holds no worker. Edges that leave it: always."""

    #: Unique among the nodes; without control characters.
    id: str
    type: Literal["wait"]
    config: WaitConfig
    #: Where an editor draws it; kept and never read.
    position: NotRequired[dict[str, Any]]


class WaitingView(TypedDict):
    """Until when a job waits at least, and why."""

    #: Null where nobody can say.
    until: str | None
    reason: WaitingReason
    #: The host that asked for the pause; null where nobody did.
    askedBy: str | None


class WishedPage(TypedDict):
    jobId: str
    url: str
    #: What each proposal gives there, in their order; null for nothing.
    values: list[Any]


class WorkflowView(TypedDict):
    """A workflow, or one version of it."""

    #: The version's own id: another one after every edit. No operation takes it, all take `workflowId`; jobs name it
    #: as `workflowVersionId`.
    id: str
    #: The workflow's id, the same for all its versions: the `{id}` of every path, and what jobs name.
    workflowId: str
    version: int
    name: str
    #: Of a version that is not the newest: archived.
    status: WorkflowStatus
    dag: Dag
    smart: NotRequired[StrategyView]
    route: str | None
    #: When this version was written; that of version 1 is when the workflow was made.
    createdAt: str
    updatedAt: str
    #: Who wrote this version; null for one that the optimization worker wrote.
    createdBy: str | None
    publishedAt: str | None


class WorkflowViewPage(TypedDict):
    """A page of a list on the wire."""

    items: list[WorkflowView]
    #: Hand it back as `cursor` for the next page; null on the last.
    nextCursor: str | None


class XpathTest(TypedDict):
    #: A registrable domain, or one host of it.
    domain: str
    pageType: PageType
    #: At least one.
    attributes: list[AttributeInput]
    #: The job on whose page they are tried; else the newest one of the domain with a stored page. An answer that is
    #: JSON is taken where there is no other, or none of the attributes has XPaths.
    jobId: NotRequired[str | None]


class XpathTestView(TypedDict):
    """What the attributes find on the page."""

    #: By attribute; attributes without a value are absent.
    values: dict[str, Any]
    qualityScore: QualityView
    jobId: str
    #: The URL that was asked for.
    url: str
    #: One for every attribute without a value, and for those whose value is not trusted.
    attributeErrors: list[AttributeErrorView]
    #: What became of each XPath, in the order of the request.
    attributes: list[AttributeTrialView]
    #: How many outlines (`first`) are left out because the answer would be too long.
    outlinesOmitted: int


class XpathTrialView(TypedDict):
    #: Why it gives no value; null where it gives one, also where an earlier one was taken.
    reason: AttributeErrorReason | None
    detail: str | None
    #: How many nodes it selects; null where it comes to a text, a number or a truth value, or to nothing.
    nodes: int | None
    #: The first thing that it selects.
    first: OutlineView | None


class XpathWish(TypedDict):
    #: A registrable domain, or one host of it.
    domain: str
    #: The type of the other pages; those of no known type count as well.
    pageType: PageType
    #: The job that fetched the page.
    jobId: str
    #: An XPath that leads to the element, such as `/html/body/div[2]/p[1]`. The first node that it selects is meant.
    element: str
    #: The element's text. Where the path leads to another one, because a browser has changed the page, the element is
    #: found by it.
    text: NotRequired[str | None]
    #: The element's attribute that is to be read, such as `href`; null for its text.
    attribute: NotRequired[str | None]
    #: Whether all that is like it is wanted, as a list.
    list: NotRequired[bool | None]


class XpathWishView(TypedDict):
    """Expressions for an element, and what they give."""

    #: What stands there.
    text: str
    #: What an attribute of it would be.
    type: AttributeType
    #: The most robust first; each hangs on something else of the page, so one change of the site does not break them
    #: all. Empty where a list is wanted and nothing on the page is like the element.
    proposals: list[ProposedXpath]
    #: The page itself, and behind it the newest other stored pages of the domain.
    pages: list[WishedPage]
    #: Limits that were reached, so that there may be more to propose.
    notes: list[str]


ActorType = Literal["user", "api_key", "operator", "system", "anonymous"]
"""Who acted.

- `system`: The box itself.
- `anonymous`: Somebody without a credential.
"""

AgentChartKind = Literal["bar", "line"]
"""- `line`: Over time."""

AttributeErrorReason = Literal["not_a_number", "not_a_url", "not_found", "anti_pattern", "invalid", "too_large", "budget", "unreadable"]
"""The kind of reason, which programs read. What went wrong in detail stands beside it, for people.

- `not_found`: No XPath found a text.
- `anti_pattern`: What was found matches an antiPattern.
- `invalid`: There is a value, and it fails its validation.
- `too_large`: The value takes more room than a result has.
- `budget`: The page asks for more work than is allowed; a value that is there may not be the best one.
- `unreadable`: The whole body is not what it says it is, such as JSON that breaks off: nothing can be said of any
  attribute.
"""

AttributeType = Literal["text", "number", "url", "boolean", "text[]", "url[]"]

AuthMethodView = Literal["jwt", "api_key"]

BackfillRowStatus = Literal["error", "updated", "skipped_no_blob", "skipped_too_large"]
"""- `updated`: It was read again; the row says what the page says by the schema as it is now.
- `skipped_no_blob`: Its page is not kept, or no more.
- `skipped_too_large`: Its page is larger than 5 MB.
"""

BatchSource = Literal["api", "schedule", "crawl", "upload", "input"]
"""Where the jobs of a batch come from.

- `api`: One request that submitted them.
- `schedule`: A schedule's run.
- `crawl`: A crawl.
- `upload`: An upload of URLs.
- `input`: An input: a webhook's message, or a run.
"""

BenchmarkStatus = Literal["running", "completed", "canceled", "pending", "failed"]
"""Where a benchmark stands.

- `pending`: No probe has begun.
- `failed`: No probe succeeded, or it could not go on.
"""

Bucket = Literal["hour", "day", "week", "month", "year"]
"""A span of time, in UTC; a week begins on Monday."""

ChartKind = Literal["table", "line", "bar", "scatter", "number"]
"""How a tile is drawn.

- `number`: One number.
"""

ChatProduct = Literal["mattermost", "discord", "slack", "teams"]
"""Whose messages a chat takes; a file of `data/outputs` each.

- `slack`: Slack, and what takes the same messages.
- `teams`: Microsoft Teams (Workflows).
"""

ChecksumKind = Literal["sha256", "none", "crc64nvme"]
"""A checksum that is sent with each object beside its signature.

- `none`: No further one: the signature covers the bytes.
- `crc64nvme`: CRC-64/NVME, which Amazon's own clients send.
"""

ClearableOfDashboard = Literal["refresh"]
"""What null would mean if it did not mean that it is left out."""

ClearableOfInput = Literal["pageType", "workflowId", "cron", "signingSecret"]
"""What null would mean if it did not mean that it is left out."""

ClearableOfOutput = Literal["domain", "condition"]
"""What null would mean if it did not mean that it is left out."""

ClearableOfUrl = Literal["pageType", "workflowId", "siteSessionId"]
"""What null would mean if it did not mean that it is left out."""

ContentFormat = Literal["markdown", "text", "html"]
"""How the content is written.

- `markdown`: CommonMark with GitHub's tables.
- `text`: Without marks, links and images.
- `html`: A few plain elements, without scripts, styles and attributes but addresses.
"""

CostSource = Literal["reported", "table"]
"""Where an attempt's cost comes from.

- `reported`: The provider said it.
- `table`: The provider's credit matrix says it.
"""

CreditsBy = Literal["day", "week", "month", "provider", "domain"]
"""What credits are told apart by: time, as the ledger has them; or what ended jobs were charged, by whom or what for.
"""

DeliveryState = Literal["pending", "delivered", "failed"]
"""What became of a delivery.

- `pending`: It is tried, or tried again.
- `delivered`: The endpoint has taken it.
- `failed`: The last try has failed.
"""

Direction = Literal["asc", "desc"]

DisabledReason = Literal["gone", "failing", "no_recipients", "restored"]
"""Why the box switched an output off.

- `gone`: The endpoint answered 410.
- `failing`: Nothing was delivered for five days.
- `no_recipients`: Everybody whom it wrote to has unsubscribed, or their addresses bounce.
- `restored`: The organization came back from a backup: what was sent since would be sent again.
"""

DiscoveredBy = Literal["llm", "llm_multi_sample", "manual", "reverse_engineered"]
"""Who proposed a schema: a language model from one page or from several, the operator, or the box from what pages of the
kind have in common.
"""

DiscoveryStatus = Literal["pending", "running", "succeeded", "failed"]
"""Where a discovery stands.

- `succeeded`: The pages have taught something. Whether it became a schema says `schema`, and why not `notSaved`.
- `failed`: The pages have taught nothing; `error` says why.
"""

DomainSort = Literal["jobs", "failed", "successRate", "latencyP95", "credits", "results", "quality", "domain"]
"""By what domains are sorted."""

DriftState = Literal["ok", "drifting", "broken", "outage", "blocked", "absent", "repairing", "repaired"]
"""How an attribute does beside its own past.

- `drifting`: It is found on fewer pages than it was; nobody has looked why yet.
- `broken`: The pages still show its values, and its expressions do not find them.
- `outage`: Most fetches of the domain failed lately, so nothing can be said of the attribute.
- `blocked`: The site turns visitors away, or answers with pages that are something else.
- `absent`: The pages do not show it any more.
- `repairing`: It is being found again on stored pages.
- `repaired`: It has new expressions, and has not been seen on enough pages since.
"""

DryVerdict = Literal["delivered", "other", "no", "unknown"]
"""What an output says of an event.

- `delivered`: It would be delivered.
- `other`: It is of another kind, or of other pages.
- `no`: The condition does not hold.
- `unknown`: A value that the condition needs is missing, or of another sort.
"""

EmailWhen = Literal["immediately", "hourly", "daily"]
"""When letters go out.

- `immediately`: At once; what happens within a minute of a letter comes together in the next one.
- `hourly`: An hour after the first event that waits.
- `daily`: At an hour of the day.
"""

ExportFormat = Literal["csv", "jsonl", "parquet", "arrow", "xlsx"]
"""The formats of exports."""

ExportStatus = Literal["queued", "running", "success", "failed"]
"""Where an export stands."""

ExportStatusView = Literal["queued", "running", "success", "failed"]

Fault = Literal["bad_key", "no_credits", "throttled", "down", "unsupported"]
"""What is wrong with an account or its provider; always beside the outcome `provider_error`.

- `bad_key`: The credentials are not accepted.
- `no_credits`: The plan is used up, or not paid.
- `throttled`: More requests at once, or in a while, than the plan allows.
- `down`: The provider cannot be reached, or fails by itself.
- `unsupported`: The provider does not do what this request asks for; others it does.
"""

FeedFormat = Literal["rss", "atom"]
"""How a feed is written.

- `rss`: RSS 2.0.
- `atom`: Atom (RFC 4287).
"""

FileFormat = Literal["jsonl", "csv", "parquet"]
"""The formats of files."""

FilterOp = Literal["eq", "ne", "lt", "lte", "gt", "gte", "in", "not_in", "contains", "starts_with", "between", "is_null", "not_null"]
"""How a value is compared."""

InputKind = Literal["webhook", "sitemap", "feed", "csv", "crawl"]
"""Where an input's URLs come from.

- `webhook`: Somebody sends them.
- `sitemap`: A site's sitemap, or an index of several.
- `feed`: An RSS, Atom or JSON feed.
- `csv`: A CSV file behind a URL.
- `crawl`: The links of a site.
"""

InputRunStatus = Literal["running", "completed", "unchanged", "failed", "skipped_overlap", "skipped_misfire"]
"""Where a run stands.

- `completed`: Something was new or had changed.
- `unchanged`: Nothing was.
- `failed`: It came to nothing, or not to its end: `message` says why.
- `skipped_overlap`: The run before had not ended.
- `skipped_misfire`: The tick was missed.
"""

InputTrigger = Literal["cron", "manual"]
"""Who let a run begin."""

Interval = Literal["minute", "hour", "day", "week", "month"]
"""How long a bucket is, by the calendar of the zone; weeks begin on Mondays."""

JobStatus = Literal["queued", "running", "succeeded", "failed", "canceled"]
"""Where a job stands: it waits, runs, or has ended in one of three ways for good."""

KeyKind = Literal["organization", "personal"]
"""Whose a key is.

- `organization`: The organization's: made, seen and ended by those who look after its keys.
- `personal`: A member's own: made by themselves, seen and ended by them and by those who look after keys.
"""

LeftOutPage = Literal["signed_in", "own_headers", "own_way", "job_gone", "other_site", "no_page", "too_large", "other_type", "no_answers"]
"""Why a page was left out.

- `signed_in`: It was fetched with a site session: what is private teaches nobody else.
- `own_headers`: It was fetched with headers of the caller's own.
- `own_way`: It came through proxies, or from a vendor's address, of the organization's own.
- `job_gone`: Its job is not kept any more, so nobody can say how it was fetched.
- `other_site`: It was redirected to another site.
- `no_page`: It is not kept any more, or is no page.
- `too_large`: It is too large, alone or with the others.
- `other_type`: It says that it is of another type than most.
- `no_answers`: It says nothing of itself that could be learned from.
"""

LeftOutReason = Literal["too_few_pages", "not_shown", "not_reproduced"]
"""Why an attribute was not kept.

- `too_few_pages`: Fewer than two of the pages have a value.
- `not_shown`: No expression gives the values: the pages do not show them, or each in another way.
- `not_reproduced`: Expressions were found, and less than half of the values on held-back pages came out right.
"""

MeasureFn = Literal["count", "count_distinct", "sum", "avg", "min", "max", "median", "p90", "p95"]
"""What is computed of the rows."""

MessageRole = Literal["user", "assistant"]
"""Who says something."""

Metric = Literal["jobs", "succeeded", "failed", "successRate", "credits", "latencyP50", "latencyP95", "results", "changed", "quality", "attempts", "blocked", "bytes"]
"""What a time series shows.

- `jobs`: Jobs that were submitted.
- `succeeded`: Those of them that have succeeded by now.
- `failed`: Those of them that have failed by now.
- `successRate`: Succeeded jobs, as a part of succeeded and failed ones.
- `credits`: What they were charged.
- `latencyP50`: Half of the succeeded jobs took at most so many milliseconds.
- `latencyP95`: 95 of 100 of the succeeded jobs took at most so many milliseconds.
- `results`: Results, by when their page was fetched.
- `changed`: Results in which a value differs from their URL's result before.
- `quality`: The mean composite quality of results.
- `attempts`: Requests that went out, by when they began.
- `blocked`: Those of them that were taken for a robot's.
- `bytes`: Bytes that came in.
"""

Misfire = Literal["run_once", "skip"]
"""What happens to ticks that were missed: the box was off, or its clock was set forward.

- `run_once`: One run makes up for all of them.
- `skip`: They are left out.
"""

Mode = Literal["auto", "suggest"]
"""Who decides about a new ranking.

- `auto`: The worker writes a new version.
- `suggest`: The worker writes a suggestion, and somebody applies it.
"""

MonitorOperator = Literal["eq", "ne", "lt", "lte", "gt", "gte"]
"""How a value is compared."""

MonitorState = Literal["ok", "firing", "no_data", "error"]
"""What a monitor found out.

- `ok`: The condition does not hold.
- `firing`: The condition holds.
- `no_data`: The statement gave no value.
- `error`: The statement could not be run: `reason` says why.
"""

MoveState = Literal["done", "moving", "failing", "no_room"]
"""How pages get to where they are to lie.

- `done`: All of them lie there, but for those that have just come.
- `moving`: Some are on their way.
- `failing`: A storage does not work; it is asked again and again.
- `no_room`: The box's disk has no room for pages that are to come back.
"""

NotSaved = Literal["same", "not_better", "manual", "too_little", "too_often", "overtaken"]
"""Why a discovery made no new version of a schema.

- `same`: The schema that holds says the same.
- `not_better`: The schema that holds reads the held-back pages as well or better.
- `manual`: The schema that holds was imported by the operator.
- `too_little`: Fewer pages than it takes to replace a schema, or fewer attributes than tell a page of the type from
  others.
- `too_often`: Too many versions were made within a day.
- `overtaken`: The schema changed each time while the pages were read.
"""

Outcome = Literal["success", "target_error", "blocked", "timeout", "network_error", "provider_error", "low_quality", "canceled"]
"""What became of an attempt, as far as the dispatcher's next step depends on it.

- `success`: The page arrived.
- `target_error`: The target's own answer. One such as 404 is final: no other provider is tried. With 425 or 5xx the
  target says that it is in trouble for the moment: the next provider is tried.
- `blocked`: The target took the visitor for a robot.
- `timeout`: The time was used up.
- `network_error`: The way to the target did not work: no answer came.
- `provider_error`: The provider itself failed (a bad key, no credits, down), or does not do what is asked for: the
  next provider is tried. So is a page of more than 5 MB (5,000,000 bytes), on the wire or once decompressed, which
  nobody takes here.
- `low_quality`: The page arrived, and an extract node found too little in it.
- `canceled`: Another provider of the race was quicker, or the job was canceled, so the answer was not waited for.
"""

OutputHealth = Literal["ok", "failing", "throttled", "disabled"]
"""How an output stands.

- `ok`: Nothing is wrong with it, as far as is known.
- `failing`: The last tries have failed.
- `throttled`: Its endpoint asked for a pause.
- `disabled`: It is switched off.
"""

OutputKind = Literal["webhook", "postgres", "files", "chat", "feed", "email"]
"""By which way events leave.

- `webhook`: A signed request to an endpoint (Standard Webhooks).
- `postgres`: Rows of results, in batches, into a table of a PostgreSQL server.
- `files`: Rows of results, in batches, as files: in a folder of the box, in S3-compatible storage, or over SFTP.
- `chat`: A message to a channel of a chat.
- `feed`: A private address at which the newest events are read, as RSS or Atom.
- `email`: Letters to people, at once or as digests.
"""

Overlap = Literal["skip", "queue"]
"""What happens to a tick whose schedule's run before has not ended.

- `skip`: It is left out.
- `queue`: It waits.
"""

PageType = str
"""What kind of page it is, and so which extraction schema of its domain is for it: product, product_list, serp, article,
job_posting, bestseller, or one of the organization's own, which begins with an attribute of its own for pages of that
type.
"""

PageUse = Literal["taught", "held_back", "left_out"]
"""What a page was taken for.

- `taught`: It was learned from, and held back from what the others have taught.
- `held_back`: It was only checked on.
- `left_out`: It was not looked at; `reason` says why.
"""

ProbeStep = Literal["put", "get", "list", "delete", "put_if_absent"]
"""A step of a test.

- `put_if_absent`: A second put of the same key under the condition that there is none; where `conditionalPuts` is on.
"""

QualityBy = Literal["domain", "pageType", "attribute"]
"""What quality is told apart by; a domain's page types each have a row of their own."""

QueryStatus = Literal["queued", "running", "success", "failed", "canceled"]
"""Where a submitted statement stands: it waits, runs, or has ended in one of three ways for good."""

RechargeStatus = Literal["approved", "denied", "pending"]
"""Where a request for credits stands.

- `pending`: The operator has not decided.
"""

RecipientState = Literal["pending", "active", "unsubscribed", "bounced"]
"""How a recipient stands.

- `pending`: Was asked, and has not agreed yet: nothing is sent.
- `active`: Gets letters.
- `unsubscribed`: Wants no more.
- `bounced`: The mail server refused letters to this address again and again.
"""

RepairResult = Literal["repaired", "refused", "right", "absent", "other_page"]
"""What came of looking at an attribute.

- `repaired`: It has new expressions.
- `refused`: It is broken, and nothing was found that could be trusted; `reason` says why.
- `right`: Its expressions give what the newest pages show.
- `absent`: The pages do not show its last known values.
- `other_page`: The pages are something else.
"""

ResolutionSource = Literal["click", "typed", "legacy"]
"""How a card was answered.

- `click`: One of its actions was clicked; nothing else authorizes a save.
- `typed`: A text named one of its actions.
- `legacy`: By a release that did not tell the two apart.
"""

Role = Literal["owner", "admin", "editor", "analyst", "viewer"]
"""What a member is in an organization."""

RunStatus = Literal["queued", "running", "completed", "no_urls", "skipped_overlap", "skipped_misfire", "failed"]
"""Where a run stands.

- `queued`: It waits for the run before it to end.
- `running`: Jobs are submitted, or have not ended.
- `completed`: All its jobs have ended, however.
- `no_urls`: No URL matched.
- `skipped_overlap`: The run before had not ended.
- `skipped_misfire`: The tick was missed.
- `failed`: Not every job could be submitted: `message` says why.
"""

ScopeKind = Literal["org", "agent"]
"""Whose rows a statement sees: the organization's, or those that belong to one agent."""

SemanticType = Literal["brand_name", "review_count", "product_id", "product_image", "star_rating", "availability_status"]

SignatureScheme = Literal["v1", "v1a"]
"""How a key signs.

- `v1`: HMAC-SHA256 with a key that both sides hold.
- `v1a`: ed25519; who verifies holds the public key alone.
"""

SiteSessionKind = Literal["cookies", "headers"]
"""What a session consists of."""

SiteSessionState = Literal["unknown", "ok", "expired"]
"""What the site's last answer to it says.

- `unknown`: It was not sent yet, or no answer said anything of it.
- `ok`: A page came, and no login was asked for.
- `expired`: The site asked for a login (401, 403, its login page), or the last cookie is over.
"""

SortBy = Literal["newest", "relevance"]
"""The order of a list of results.

- `relevance`: By how well they match `q`; without `q` by age.
"""

SortOrder = Literal["asc", "desc"]
"""Which end of a sorted list comes first."""

SslMode = Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
"""How far a connection is secured: the words of libpq's `sslmode`.

- `disable`: Never.
- `allow`: Only if the server insists.
- `prefer`: If the server can.
- `require`: Always; with a certificate authority given, as `verify-ca`.
- `verify-ca`: Always, with a certificate of a trusted authority.
- `verify-full`: Always, with a certificate of a trusted authority for this very host.
"""

State = Literal["pending", "approved", "expired", "consumed"]
"""Where a code stands."""

StorageKind = Literal["local", "s3"]
"""Where pages lie.

- `local`: In the box's own folder.
- `s3`: In S3-compatible storage of the organization's own.
"""

Strategy = Literal["success_rate", "latency", "cost", "balanced"]
"""What a smart workflow ranks providers by."""

SuggestionStatus = Literal["open", "applied", "dismissed", "superseded"]
"""Where a suggestion stands; only an open one can be applied or dismissed.

- `superseded`: A newer one took its place.
"""

TextOp = Literal["equal", "insert", "delete"]
"""What became of a piece of text."""

TransactionKind = Literal["grant", "reserve", "settle", "refund", "recharge", "adjust"]
"""Why the balance changed.

- `grant`: The plan's credits of a period.
- `reserve`: The most that a submitted job could charge.
- `settle`: What a delivered job did not use of its reserve.
- `refund`: The whole reserve of a job that charged nothing.
- `recharge`: Credits an operator added.
- `adjust`: Credits that lapsed with their period, and an operator's corrections.
"""

Trigger = Literal["cron", "manual"]
"""Who let a run begin."""

UploadFormat = Literal["csv", "ndjson"]
"""What an upload is."""

WaitingReason = Literal["retry_after", "crawl_delay", "run_at", "no_room", "domain_busy", "browser_place"]
"""- `retry_after`: The host answered with Retry-After.
- `crawl_delay`: The host's robots.txt names a Crawl-delay.
- `run_at`: Its workflow waits, or it is tried again then.
- `no_room`: The organization stores as much as its plan allows (`limits` of `GET /plans/current`); the job begins
  when there is room for what it brings.
- `domain_busy`: Jobs of the organization visit the domain already, as many as may at once
  (`dispatch.per_domain_concurrency`).
- `browser_place`: As many pages are open in the box's browser as may be; organizations take turns. It counts against
  no time limit.
"""

WorkflowStatus = Literal["draft", "published", "archived"]
"""Where a workflow stands: only a published one is given jobs, an archived one was deleted or replaced and can be read.
"""

WriteMode = Literal["append", "upsert"]
"""What becomes of a page that comes again.

- `append`: A row for each result.
- `upsert`: A row for each URL, with the newest result.
"""

CardView = Union[SaveOfferView, TableCardView, ChartCardView, QuestionCardView]
"""A card, by its type. Written by the server alone; never changes."""

DagNode = Union[StartNode, ConditionNode, ProviderNode, RaceNode, SplitNode, WaitNode, ExtractNode, OutputNode, EndNode]
"""A node as it was drawn."""

TextOrTexts = Union[str | list[str]]

UrlEntry = Union[str, NewUrl]
"""One entry of an upload."""
