//! Analytics: what an organization's jobs, pages and credits come to, for charts and dashboards.
//!
//! Each answer is one statement over the console's tables (`statements.rs`), so an analyst who asks the console gets the
//! same numbers. Nothing is kept here.

mod parameters;
mod period;
mod rows;
mod statements;
mod wire;

use super::Feature;
use super::bi::{Computed, Queries};
use super::urls;
use base::page::{PageRequest, decode_cursor, encode_cursor};
use base::terms::PageType;
use base::web::Domain;
use base::{Code, Error, Result};
use parameters::{
    CreditsBy, CreditsQuery, DomainSort, DomainsQuery, Metric, OverviewQuery, PeriodQuery, ProvidersQuery,
    QualityBy, QualityQuery, SortOrder, TimeseriesQuery,
};
use period::{Interval, Period};
use rows::Row;
use server::permit::AnalyticsRead;
use server::{Body, Handler, Need, Org, OrgContext, Query, Route};
use statements::{Filter, Values};
use wire::{
    BalanceView, ChangeView, CreditsBucketView, CreditsView, DomainsView, OverviewView, PointView,
    ProvidersView, QualityFiguresView, TimeseriesView, TotalsView,
};

/// Providers, charges, and rows of quality of one answer.
const ROWS_MAX: usize = 200;
/// Attributes of one answer.
const ATTRIBUTES_MAX: usize = 500;
/// Rows that a statement may give: a bucket has one for each kind of change of the balance.
const STATEMENT_ROWS_MAX: u64 = 5 * period::BUCKETS_MAX as u64;
/// Characters of a tag or domain to look for.
const TEXT_CHARS_MAX: usize = 512;
/// Domains before a page of them.
const OFFSET_MAX: u64 = 1_000_000;
const DOMAINS: &str = "analytics_domains";

pub static FEATURE: Feature = Feature {
    name: "analytics",
    uses: &["bi", "urls"],
    routes: &[
        Route::get("/api/v1/analytics/overview", "getAnalyticsOverview", &Handler::new(overview))
            .about("What a period comes to (jobs, results, credits, latency), beside the one before.")
            .fails(UNAVAILABLE),
        Route::get("/api/v1/analytics/timeseries", "getAnalyticsTimeseries", &Handler::new(timeseries))
            .about("One metric over time, in buckets of a zone's clocks and calendar; at most 1,000 of them.")
            .fails(UNAVAILABLE),
        Route::get("/api/v1/analytics/providers", "getAnalyticsProviders", &Handler::new(providers))
            .about("How each provider did: attempts, success, blocks, latency, cost.")
            .fails(UNAVAILABLE),
        Route::get("/api/v1/analytics/domains", "getAnalyticsDomains", &Handler::new(domains))
            .about("The same by domain, sorted, in pages.")
            .fails(UNAVAILABLE),
        Route::get("/api/v1/analytics/credits", "getAnalyticsCredits", &Handler::new(credits))
            .about("Credits by time, as the ledger has them, or by provider or domain.")
            .fails(UNAVAILABLE),
        Route::get("/api/v1/analytics/quality", "getAnalyticsQuality", &Handler::new(quality))
            .about("Quality of results by domain and page type, and coverage of attributes.")
            .fails(UNAVAILABLE),
    ],
    needs: &[Need::of::<Queries>()],
    ..Feature::NONE
};

/// One organization may ask for a few answers at a time, and what SQL cannot answer now nothing answers.
const UNAVAILABLE: &[Code] = &[Code::RateLimited, Code::ServiceUnavailable];

fn bounded(field: &str, text: Option<String>) -> Result<Option<String>> {
    match text {
        Some(text) if text.chars().count() > TEXT_CHARS_MAX => {
            Err(Error::invalid(field, format!("must be at most {TEXT_CHARS_MAX} characters")))
        }
        Some(text) if text.contains('\0') => Err(Error::invalid(field, "must not contain a zero byte")),
        text => Ok(text),
    }
}

fn domain(text: Option<String>) -> Result<Option<String>> {
    Ok(bounded("domain", text)?.map(Domain::of_filter))
}

/// A page type that nobody has heard of is a mistake and no filter.
fn page_type(org: &OrgContext, named: Option<PageType>) -> Result<Option<PageType>> {
    org.read(|tx| urls::check_page_type(tx, "pageType", named))?;
    Ok(named)
}

/// Has a statement run.
async fn compute(org: &OrgContext, statement: &str, values: &Values) -> Result<Computed> {
    org.service::<Queries>().compute(org.store(), statement, &values.0, STATEMENT_ROWS_MAX).await
}

async fn overview(
    org: Org<AnalyticsRead>,
    Query(within): Query<PeriodQuery>,
    Query(asked): Query<OverviewQuery>,
) -> Result<Body<OverviewView>> {
    let period = within.period(org.look().date)?;
    let filter = Filter {
        domain: domain(asked.domain)?,
        page_type: page_type(&org, asked.page_type)?,
        tag: bounded("tag", asked.tag)?,
        provider_id: None,
    };
    let mut values = Values::default();
    let statement = statements::overview(&mut values, &period, &filter);
    let computed = compute(&org, &statement, &values).await?;
    let (mut totals, mut previous) = (TotalsView::default(), TotalsView::default());
    for row in &computed.rows {
        let row = Row(row);
        if row.int("part") == 0 { totals.add(&row) } else { previous.add(&row) }
    }
    Ok(Body(OverviewView {
        period: (&period).into(),
        change: ChangeView::between(&totals, &previous),
        totals,
        previous_period: (&period.before()).into(),
        previous,
        freshness_sec: computed.freshness_sec,
    }))
}

async fn timeseries(
    org: Org<AnalyticsRead>,
    Query(within): Query<PeriodQuery>,
    Query(asked): Query<TimeseriesQuery>,
) -> Result<Body<TimeseriesView>> {
    let period = within.period(org.look().date)?;
    let (metric, interval) = (asked.metric.unwrap_or(Metric::Jobs), asked.interval.unwrap_or(Interval::Day));
    let filter = Filter {
        domain: domain(asked.domain)?,
        page_type: page_type(&org, asked.page_type)?,
        tag: bounded("tag", asked.tag)?,
        provider_id: asked.provider_id,
    };
    let buckets = period.buckets(interval)?;
    let mut values = Values::default();
    let statement = statements::timeseries(&mut values, metric, &period, &buckets, &filter)?;
    let computed = compute(&org, &statement, &values).await?;
    let nothing = metric.is_sum().then_some(0.0);
    let point = |(at, ends_at)| PointView { at, ends_at, value: nothing, count: 0 };
    let mut points: Vec<PointView> = buckets.spans().map(point).collect();
    for row in &computed.rows {
        let row = Row(row);
        if let Some(point) = usize::try_from(row.int("bucket")).ok().and_then(|place| points.get_mut(place)) {
            (point.count, point.value) = (row.count("n"), row.float("value").or(nothing));
        }
    }
    let freshness_sec = computed.freshness_sec;
    Ok(Body(TimeseriesView { metric, interval, period: (&period).into(), points, freshness_sec }))
}

async fn providers(
    org: Org<AnalyticsRead>,
    Query(within): Query<PeriodQuery>,
    Query(asked): Query<ProvidersQuery>,
) -> Result<Body<ProvidersView>> {
    let period = within.period(org.look().date)?;
    let filter = Filter {
        domain: domain(asked.domain)?,
        page_type: page_type(&org, asked.page_type)?,
        ..Filter::default()
    };
    let mut values = Values::default();
    let statement = statements::providers(&mut values, &period, &filter, ROWS_MAX);
    let computed = compute(&org, &statement, &values).await?;
    let items = computed.rows.iter().map(Into::into).collect();
    Ok(Body(ProvidersView { period: (&period).into(), items, freshness_sec: computed.freshness_sec }))
}

/// Where a page of domains begins, and the period of its list, which stays as the first page had it.
fn place(page: &PageRequest, period: Period) -> Result<(u64, Period)> {
    let Some(cursor) = &page.cursor else { return Ok((0, period)) };
    let damaged = || Error::invalid("cursor", "is damaged or belongs to another list");
    let position = decode_cursor(DOMAINS, cursor)?;
    let (offset, from, to): (u64, i64, i64) = serde_json::from_slice(&position).map_err(|_| damaged())?;
    if offset > OFFSET_MAX {
        return Err(damaged());
    }
    let period = period.with_ends(base::clock::Timestamp(from), base::clock::Timestamp(to));
    Ok((offset, period.map_err(|_| damaged())?))
}

async fn domains(
    org: Org<AnalyticsRead>,
    Query(within): Query<PeriodQuery>,
    Query(asked): Query<DomainsQuery>,
    page: PageRequest,
) -> Result<Body<DomainsView>> {
    let period = within.period(org.look().date)?;
    let (offset, period) = place(&page, period)?;
    let filter = Filter {
        page_type: page_type(&org, asked.page_type)?,
        tag: bounded("tag", asked.tag)?,
        ..Filter::default()
    };
    let order = (asked.sort.unwrap_or(DomainSort::Jobs), asked.order.unwrap_or(SortOrder::Desc));
    let mut values = Values::default();
    let statement = statements::domains(&mut values, &period, &filter, order, (offset, page.limit));
    let computed = compute(&org, &statement, &values).await?;
    let total = computed.rows.first().map_or(0, |row| Row(row).count("total"));
    let end = offset + computed.rows.len() as u64;
    let next_cursor = (end < total && end <= OFFSET_MAX).then(|| {
        let position = serde_json::json!([end, period.from.millis(), period.to.millis()]).to_string();
        encode_cursor(DOMAINS, position.as_bytes())
    });
    Ok(Body(DomainsView {
        period: (&period).into(),
        items: computed.rows.iter().map(Into::into).collect(),
        next_cursor,
        total,
        freshness_sec: computed.freshness_sec,
    }))
}

async fn credits(
    org: Org<AnalyticsRead>,
    Query(within): Query<PeriodQuery>,
    Query(asked): Query<CreditsQuery>,
) -> Result<Body<CreditsView>> {
    let period = within.period(org.look().date)?;
    let group_by = asked.group_by.unwrap_or(CreditsBy::Day);
    // The ledger's sums are of the whole period however it is cut; by months there are few of them.
    let buckets = period.buckets(group_by.interval().unwrap_or(Interval::Month))?;
    let mut values = Values::default();
    let statement = statements::ledger(&mut values, &period, &buckets);
    let ledger = compute(&org, &statement, &values).await?;
    let (mut totals, mut freshness_sec) = (BalanceView::default(), ledger.freshness_sec);
    let bucket = |(at, ends_at)| CreditsBucketView { at, ends_at, balance: BalanceView::default() };
    let mut of_time: Vec<CreditsBucketView> = buckets.spans().map(bucket).collect();
    for row in &ledger.rows {
        let row = Row(row);
        totals.add(&row);
        if let Some(bucket) = usize::try_from(row.int("bucket")).ok().and_then(|place| of_time.get_mut(place))
        {
            bucket.balance.add(&row);
        }
    }
    let mut items = Vec::new();
    if group_by.interval().is_none() {
        of_time.clear();
        let column = if group_by == CreditsBy::Provider { "provider_id" } else { "domain" };
        let mut values = Values::default();
        let statement = statements::charges(&mut values, &period, column, ROWS_MAX);
        let charges = compute(&org, &statement, &values).await?;
        freshness_sec = freshness_sec.max(charges.freshness_sec);
        items = charges.rows.iter().map(Into::into).collect();
    }
    let period = (&period).into();
    Ok(Body(CreditsView { period, group_by, totals, buckets: of_time, items, freshness_sec }))
}

async fn quality(
    org: Org<AnalyticsRead>,
    Query(within): Query<PeriodQuery>,
    Query(asked): Query<QualityQuery>,
) -> Result<Body<QualityFiguresView>> {
    let period = within.period(org.look().date)?;
    let filter = Filter {
        domain: domain(asked.domain)?,
        page_type: page_type(&org, asked.page_type)?,
        ..Filter::default()
    };
    let group_by = asked.group_by.unwrap_or(QualityBy::Domain);
    let mut values = Values::default();
    let statement = match group_by {
        QualityBy::Attribute => statements::coverage(&mut values, &period, &filter, ATTRIBUTES_MAX),
        by => statements::quality(&mut values, &period, &filter, by == QualityBy::Domain, ROWS_MAX),
    };
    let Computed { rows, freshness_sec } = compute(&org, &statement, &values).await?;
    let (mut items, mut attributes) = (Vec::new(), Vec::new());
    match group_by {
        QualityBy::Attribute => attributes = rows.iter().map(Into::into).collect(),
        _ => items = rows.iter().map(Into::into).collect(),
    }
    Ok(Body(QualityFiguresView { period: (&period).into(), group_by, items, attributes, freshness_sec }))
}
