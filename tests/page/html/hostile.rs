//! Hostile pages against the clock, and the budgets that end them.

use std::time::Duration;

use page::html::{Budget, Document, NodeId};

use page_oracle::clock::least_time;

/// What the issue allows in a release build, in time computed. Debug builds are some twenty times
/// slower: a tenth of the page there, and a generous limit. Anything that is not linear would take minutes in both.
const HOSTILE_MAX: Duration = Duration::from_millis(if cfg!(debug_assertions) { 10_000 } else { 500 });
const SHARE: usize = if cfg!(debug_assertions) { 10 } else { 1 };
fn timed(name: &str, text: String) -> Document {
    timed_as(name, text.len(), || Document::parse(text.clone()))
}

fn timed_as(name: &str, bytes: usize, parse: impl Fn() -> Document) -> Document {
    let (took, doc) = least_time(HOSTILE_MAX, parse);
    println!("{name}: {bytes} bytes, {} nodes, {took:?}, {:?}", doc.node_count(), doc.truncated());
    assert!(took < HOSTILE_MAX, "{name} took {took:?}");
    doc
}

#[test]
fn hostile_pages_take_linear_time() {
    let doc = timed("a million nested", "<x>".repeat(1_000_000 / SHARE));
    assert_eq!(doc.node_count(), 1_000_000 / SHARE + 4);
    assert_eq!(doc.string_value(NodeId(0)), "");
    let attributes: String = (0..500_000 / SHARE).map(|n| format!(" a{n}")).collect();
    let doc = timed("attributes", format!("<p{attributes}>"));
    assert_eq!(doc.attribute_count(), 500_000 / SHARE);
    timed("divs in a button", "<p><button>".to_owned() + &"<div>".repeat(900_000 / SHARE));
    timed("entities", "&notit;&amp".repeat(450_000 / SHARE));
    timed("ampersands", "&".repeat(5_000_000 / SHARE));
    timed("references", "&#x1F600;&#0;&CounterClockwiseContourIntegral;&nGt;".repeat(100_000 / SHARE));
    timed("references in attributes", format!("<p a='{}'>", "&amp;&lt=&notit;".repeat(300_000 / SHARE)));
    timed("NULs", "\0".repeat(5_000_000 / SHARE));
    timed("NULs apart", "\0a".repeat(2_500_000 / SHARE));
    let formats: String = (0..200_000 / SHARE).map(|n| format!("<b id={n}>")).collect();
    let doc = timed("formatting", "<p>".to_owned() + &formats + &"<p>x".repeat(400_000 / SHARE));
    assert_eq!(doc.truncated(), Some(Budget::Formatting));
    assert!(doc.string_value(NodeId(0)).len() == 400_000 / SHARE, "the page is read to its end");
    let wide: String = (0..100_000 / SHARE).map(|n| format!(" a{n}=1")).collect();
    let doc = timed("copied attributes", format!("<p><b{wide}>") + &"<p>x".repeat(100_000 / SHARE));
    assert_eq!(doc.truncated(), Some(Budget::Attributes));
    timed("fostered", "<table>".to_owned() + &"x<tr><td>&amp;</td></tr>".repeat(150_000 / SHARE));
    timed("bodies", (0..300_000 / SHARE).map(|n| format!("<body a{n}>")).collect());
    timed("tables", "<table>".repeat(600_000 / SHARE));
    timed("tables in cells", "<table><td>".repeat(400_000 / SHARE));
    timed("adoption", "<a><div>".repeat(300_000 / SHARE) + &"</a>".repeat(300_000 / SHARE));
    timed(
        "adoption of many",
        "<b>".to_owned() + &"<span>".repeat(400_000 / SHARE) + "<div>" + &"</b>".repeat(400_000 / SHARE),
    );
    timed("templates", "<template>".repeat(400_000 / SHARE) + &"</template>".repeat(100_000 / SHARE));
    timed("comments", "<!--".to_owned() + &"-".repeat(4_000_000 / SHARE));
    timed("open comments", "<!--x".repeat(900_000 / SHARE));
    timed("scripts", "<script><!--<script>".repeat(200_000 / SHARE));
    timed("list items", "<ul><li>".repeat(500_000 / SHARE));
    timed("svg", "<svg><g>".repeat(500_000 / SHARE) + &"</x>".repeat(100_000 / SHARE));
    timed("svg in html", "<svg><desc><p>".repeat(300_000 / SHARE) + &"</svg>".repeat(100_000 / SHARE));
    timed("names", (0..400_000 / SHARE).map(|n| format!("<x{n}>")).collect());
    timed("angles", "<".repeat(5_000_000 / SHARE));
    timed("ends", "</p>".repeat(1_000_000 / SHARE));
    timed("selects", "<select><option><optgroup>".repeat(150_000 / SHARE));
    timed("nobr", "<nobr>".repeat(700_000 / SHARE));
    timed("frames", "<frameset>".repeat(400_000 / SHARE));
    timed("doctype", "<!doctype".repeat(500_000 / SHARE));
}

#[test]
fn hostile_bytes_take_linear_time() {
    let parse = |bytes: &[u8], charset: Option<&str>| Document::parse_bytes(bytes, charset);
    let cut_unit: Vec<u8> =
        "<p>\u{e4}\u{1f600}".repeat(300_000 / SHARE).encode_utf16().flat_map(u16::to_le_bytes).collect();
    // An odd number of bytes, and it ends within a surrogate pair.
    let half = &cut_unit[..cut_unit.len() - 3];
    for charset in [None, Some("text/html; charset=utf-16le"), Some("text/html; charset=utf-16be")] {
        timed_as("half a UTF-16 stream", half.len(), || parse(half, charset));
    }
    let mut marked = b"\xFF\xFE".to_vec();
    marked.extend_from_slice(half);
    let doc = timed_as("half a UTF-16 stream with its mark", marked.len(), || parse(&marked, None));
    assert!(doc.string_value(NodeId(0)).ends_with('\u{FFFD}'));
    let zeros = vec![0_u8; 5_000_000 / SHARE];
    timed_as("bytes of zero", zeros.len(), || parse(&zeros, None));
    let high = vec![0xFF_u8; 5_000_000 / SHARE];
    timed_as("bytes of 255", high.len(), || parse(&high, None));
    timed_as("bytes of 255 as UTF-8", high.len(), || parse(&high, Some("text/html; charset=utf-8")));
    let escapes = b"\x1b$B\x1b(J".repeat(800_000 / SHARE);
    for charset in ["iso-2022-jp", "gb18030", "shift_jis"] {
        let header = format!("text/html; charset={charset}");
        timed_as("escapes", escapes.len(), || parse(&escapes, Some(&header)));
    }
    let metas = "<meta charset=x>".repeat(300_000 / SHARE);
    timed_as("metas", metas.len(), || parse(metas.as_bytes(), None));
}

#[test]
fn a_long_page_is_cut_and_says_so() {
    let doc = Document::parse_limited("<p>äöü".repeat(100), 21);
    assert_eq!(doc.truncated(), Some(Budget::SourceBytes));
    assert_eq!(doc.string_value(NodeId(0)), "äöüäöü");
    let bytes = vec![b'a'; page::html::SOURCE_BYTES_MAX + 1];
    assert_eq!(Document::parse_bytes(&bytes, None).truncated(), Some(Budget::SourceBytes));
}
