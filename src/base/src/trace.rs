//! Traces: what one request, or one piece of background work, causes in the box, as spans that a collector puts together.
//!
//! A [`Tracer`] begins traces; without somebody who takes spans (a [`SpanSink`]) it begins none, and all of this costs a look at an
//! empty place. Inside of a trace, [`child`] makes the spans of what the same task goes on to do, whatever layer does it: where the
//! trace stands goes with the task, and with what is spawned under [`carried`]. Handing over a span never waits.

use parking_lot::Mutex;
use std::borrow::Cow;
use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// Characters of an attribute's or a failure's text.
const TEXT_CHARS_MAX: usize = 512;
/// Traces a second that are taken because their callers sample them, beyond those that the ratio takes. Callers are strangers, and
/// a flood of theirs must not push everybody's spans out.
const ASKED_FOR_PER_SEC: u32 = 20;
/// The parts of which a ratio is given.
pub const RATIO_PARTS: u32 = 1_000;
/// The random bits of an id of a trace by which is sampled (W3C Trace Context, level 2: the last seven bytes).
const RANDOM_BITS: u32 = 56;

/// What a trace is known by everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(NonZeroU128);

/// What a span is known by within its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(NonZeroU64);

impl TraceId {
    fn random() -> TraceId {
        // A version 4 has its fixed bits outside of the last seven bytes, and is never zero.
        TraceId(NonZeroU128::new(Uuid::new_v4().as_u128()).unwrap_or(NonZeroU128::MIN))
    }

    pub fn bytes(self) -> [u8; 16] {
        self.0.get().to_be_bytes()
    }

    /// Whether a trace of this id is among so many of a thousand; every box says the same of it.
    fn is_sampled(self, parts: u32) -> bool {
        let random = self.0.get() & ((1 << RANDOM_BITS) - 1);
        random * u128::from(RATIO_PARTS) < u128::from(parts) << RANDOM_BITS
    }
}

impl SpanId {
    fn random() -> SpanId {
        let (high, low) = Uuid::new_v4().as_u64_pair();
        // The fixed bits of the one lie where the other has none.
        SpanId(NonZeroU64::new(high ^ low.rotate_left(32)).unwrap_or(NonZeroU64::MIN))
    }

    pub fn bytes(self) -> [u8; 8] {
        self.0.get().to_be_bytes()
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Where a caller's trace stands: its header `traceparent` (W3C Trace Context).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    pub trace: TraceId,
    pub span: SpanId,
    pub is_sampled: bool,
}

impl TraceParent {
    /// The header's name.
    pub const HEADER: &str = "traceparent";

    /// What the header says; none where it is not one.
    pub fn parse(text: &str) -> Option<TraceParent> {
        let (version, rest) = (text.get(..2)?, text.get(2..)?);
        let is_hex = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        let mut parts = rest.strip_prefix('-')?.splitn(4, '-');
        let (trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?);
        // A later version may say more behind; this one may not.
        let has_more = parts.next().is_some();
        if !is_hex(version) || version == "ff" || (version == "00" && has_more) {
            return None;
        }
        if (trace.len(), span.len(), flags.len()) != (32, 16, 2)
            || ![trace, span, flags].into_iter().all(is_hex)
        {
            return None;
        }
        let trace = TraceId(NonZeroU128::new(u128::from_str_radix(trace, 16).ok()?)?);
        let span = SpanId(NonZeroU64::new(u64::from_str_radix(span, 16).ok()?)?);
        Some(TraceParent { trace, span, is_sampled: u8::from_str_radix(flags, 16).ok()? & 1 == 1 })
    }
}

/// What a span is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work of the box's own.
    Internal,
    /// The answer to a request.
    Server,
    /// A request to somebody else.
    Client,
}

/// What is said of a span.
#[derive(Clone, Debug, PartialEq)]
pub enum SpanValue {
    Text(String),
    Number(i64),
}

impl From<&str> for SpanValue {
    fn from(text: &str) -> SpanValue {
        SpanValue::Text(bounded(text))
    }
}

impl From<String> for SpanValue {
    fn from(text: String) -> SpanValue {
        SpanValue::from(text.as_str())
    }
}

impl From<i64> for SpanValue {
    fn from(number: i64) -> SpanValue {
        SpanValue::Number(number)
    }
}

fn bounded(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

/// A span that has ended. Times are nanoseconds of the machine's clock since 1970.
#[derive(Clone, Debug)]
pub struct EndedSpan {
    pub trace: TraceId,
    pub id: SpanId,
    pub parent: Option<SpanId>,
    pub name: Cow<'static, str>,
    pub kind: SpanKind,
    pub began_ns: u64,
    pub ended_ns: u64,
    pub attributes: Vec<(&'static str, SpanValue)>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// Takes spans that have ended. Must not wait.
pub trait SpanSink: Send + Sync {
    fn take(&self, span: EndedSpan);
}

/// Begins traces; clones are the same one.
#[derive(Clone, Default)]
pub struct Tracer(Arc<OnceLock<Wired>>);

struct Wired {
    sink: Arc<dyn SpanSink>,
    /// Of a thousand traces so many are taken.
    ratio: u32,
    asked_for: Mutex<AskedFor>,
}

/// Traces that callers had sampled in the second that runs.
struct AskedFor {
    since: Instant,
    taken: u32,
}

impl Tracer {
    /// Hands spans of so many of a thousand traces to `sink` from now on. The first one counts.
    pub fn wire(&self, sink: Arc<dyn SpanSink>, ratio: u32) {
        let asked_for = Mutex::new(AskedFor { since: Instant::now(), taken: 0 });
        self.0.get_or_init(|| Wired { sink, ratio, asked_for });
    }

    /// The first span of the box's own in a trace: of the caller's, or of a new one. It is none where the trace is not taken.
    pub fn begin(
        &self,
        name: impl Into<Cow<'static, str>>,
        kind: SpanKind,
        from: Option<TraceParent>,
    ) -> Span {
        let Some(wired) = self.0.get() else { return Span(None) };
        let trace = from.map_or_else(TraceId::random, |from| from.trace);
        let is_taken = match from {
            Some(from) if !from.is_sampled => false,
            Some(_) => trace.is_sampled(wired.ratio) || wired.takes_asked_for(),
            None => trace.is_sampled(wired.ratio),
        };
        if !is_taken {
            return Span(None);
        }
        Span::open(name.into(), kind, trace, from.map(|from| from.span), Arc::clone(&wired.sink))
    }
}

impl Wired {
    /// Whether one more trace is taken because its caller samples it.
    fn takes_asked_for(&self) -> bool {
        if self.ratio == 0 {
            return false;
        }
        let mut asked_for = self.asked_for.lock();
        if asked_for.since.elapsed() >= Duration::from_secs(1) {
            *asked_for = AskedFor { since: Instant::now(), taken: 0 };
        }
        asked_for.taken += 1;
        asked_for.taken <= ASKED_FOR_PER_SEC
    }
}

/// A span under way; it ends when it is dropped. Most are none: of traces that are not taken.
#[must_use = "a span ends when it is dropped"]
pub struct Span(Option<Box<OpenSpan>>);

struct OpenSpan {
    span: EndedSpan,
    begun: Instant,
    sink: Arc<dyn SpanSink>,
}

impl Span {
    fn open(
        name: Cow<'static, str>,
        kind: SpanKind,
        trace: TraceId,
        parent: Option<SpanId>,
        sink: Arc<dyn SpanSink>,
    ) -> Span {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let began_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let span = EndedSpan {
            trace,
            id: SpanId::random(),
            parent,
            name,
            kind,
            began_ns,
            ended_ns: began_ns,
            attributes: Vec::new(),
            failure: None,
        };
        Span(Some(Box::new(OpenSpan { span, begun: Instant::now(), sink })))
    }

    /// The trace that it is of; none where it is none.
    pub fn trace(&self) -> Option<TraceId> {
        self.0.as_ref().map(|open| open.span.trace)
    }

    /// Gives it another name.
    pub fn rename(&mut self, name: impl FnOnce() -> String) {
        if let Some(open) = &mut self.0 {
            open.span.name = bounded(&name()).into();
        }
    }

    /// Says something of it.
    pub fn set(&mut self, name: &'static str, value: impl Into<SpanValue>) {
        self.set_with(name, || value);
    }

    /// The same, of what is made for it only.
    pub fn set_with<V: Into<SpanValue>>(&mut self, name: &'static str, value: impl FnOnce() -> V) {
        if let Some(open) = &mut self.0 {
            open.span.attributes.push((name, value().into()));
        }
    }

    /// It has failed.
    pub fn fail(&mut self, reason: impl fmt::Display) {
        if let Some(open) = &mut self.0 {
            open.span.failure = Some(bounded(&reason.to_string()));
        }
    }

    /// Runs `future`; what it does is within this span.
    pub fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        let here = self.0.as_ref().map(|open| Here {
            trace: open.span.trace,
            span: open.span.id,
            sink: Arc::clone(&open.sink),
        });
        CURRENT.scope(here, future)
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(open) = self.0.take() {
            let OpenSpan { mut span, begun, sink } = *open;
            let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            span.ended_ns = span.began_ns.saturating_add(took);
            sink.take(span);
        }
    }
}

/// Where a task stands.
#[derive(Clone)]
struct Here {
    trace: TraceId,
    span: SpanId,
    sink: Arc<dyn SpanSink>,
}

tokio::task_local! {
    static CURRENT: Option<Here>;
}

fn here() -> Option<Here> {
    CURRENT.try_with(Clone::clone).ok().flatten()
}

/// A span within the one that this task stands in; none where it stands in none.
pub fn child(name: impl Into<Cow<'static, str>>, kind: SpanKind) -> Span {
    match here() {
        Some(here) => Span::open(name.into(), kind, here.trace, Some(here.span), here.sink),
        None => Span(None),
    }
}

/// The future, to be spawned: it stands where this task stands now.
pub fn carried<F: Future>(future: F) -> impl Future<Output = F::Output> + use<F> {
    CURRENT.scope(here(), future)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Kept(Mutex<Vec<EndedSpan>>);

    impl SpanSink for Kept {
        fn take(&self, span: EndedSpan) {
            self.0.lock().push(span);
        }
    }

    fn tracer(ratio: u32) -> (Tracer, Arc<Kept>) {
        let (tracer, kept) = (Tracer::default(), Arc::<Kept>::default());
        tracer.wire(kept.clone(), ratio);
        (tracer, kept)
    }

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_header_is_read_as_the_standard_has_it() {
        let given = TraceParent::parse(GIVEN).unwrap();
        assert_eq!(given.trace.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(given.span.to_string(), "00f067aa0ba902b7");
        assert!(given.is_sampled);
        assert!(!TraceParent::parse(&GIVEN.replace("-01", "-00")).unwrap().is_sampled);
        assert!(TraceParent::parse(&GIVEN.replace("-01", "-09")).unwrap().is_sampled, "unknown flags");
        let later = format!("{}-what-a-later-version-says", GIVEN.replacen("00", "cc", 1));
        assert_eq!(TraceParent::parse(&later), Some(given));
        for wrong in [
            "",
            "00",
            "é0-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e47360-0f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceParent::parse(wrong), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn spans_of_one_task_and_of_what_it_spawns_are_one_trace() {
        let (tracer, kept) = tracer(RATIO_PARTS);
        let mut root = tracer.begin("root", SpanKind::Server, TraceParent::parse(GIVEN));
        root.set("kind", "test");
        root.scope(async {
            let inner = child("inner", SpanKind::Internal);
            let spawned = inner.scope(async {
                let task = async { child("spawned", SpanKind::Client).fail("it is a test") };
                tokio::spawn(carried(task)).await.unwrap();
            });
            spawned.await;
            tokio::spawn(async { assert!(child("outside", SpanKind::Internal).trace().is_none()) })
                .await
                .unwrap();
        })
        .await;
        drop(root);
        let spans = kept.0.lock();
        let [spawned, inner, root] = &spans[..] else { panic!("{spans:?}") };
        let names = [spawned, inner, root].map(|span| span.name.as_ref());
        assert_eq!(names, ["spawned", "inner", "root"]);
        assert_eq!((spawned.parent, inner.parent), (Some(inner.id), Some(root.id)));
        assert_eq!(root.parent.unwrap().to_string(), "00f067aa0ba902b7");
        assert!(spans.iter().all(|span| span.trace == root.trace && span.ended_ns >= span.began_ns));
        assert_eq!(spawned.failure.as_deref(), Some("it is a test"));
        assert_eq!(root.attributes, [("kind", SpanValue::Text("test".to_owned()))]);
    }

    #[test]
    fn a_ratio_takes_its_part_and_callers_take_a_bounded_one() {
        let (tracer, kept) = tracer(250);
        for _ in 0..4_000 {
            drop(tracer.begin("new", SpanKind::Internal, None));
        }
        let taken = kept.0.lock().len();
        assert!((800..1_200).contains(&taken), "{taken}");
        // Of an id that the ratio does not take, all sampled by their caller: some are taken.
        let given = TraceParent::parse(&GIVEN.replace("ce929d0e0e4736", "ffffffffffff36")).unwrap();
        let asked = || tracer.begin("asked", SpanKind::Server, Some(given)).trace().is_some();
        let of_caller = (0..1_000).filter(|_| asked()).count();
        assert!((1..500).contains(&of_caller), "{of_caller}");
        let unsampled = TraceParent { is_sampled: false, ..given };
        assert!(tracer.begin("not", SpanKind::Server, Some(unsampled)).trace().is_none());
        let off = Tracer::default();
        assert!(off.begin("off", SpanKind::Server, Some(given)).trace().is_none());
    }
}
