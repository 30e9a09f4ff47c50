//! Documents that mean harm: none makes the reader panic, take more than linear time, or keep more than its limits allow.

use std::io::{Read, Write as _};
use std::time::Duration;

use base::web::WebUrl;
use feeds::{Document, FeedError, Limits, Note, Problem, read};
use page_oracle::clock::least_time;
use page_oracle::soup::Random;

/// Of a debug build on a busy machine. What is not linear takes minutes.
const HOSTILE_MAX: Duration = Duration::from_secs(if cfg!(debug_assertions) { 20 } else { 2 });
const SHARE: usize = if cfg!(debug_assertions) { 10 } else { 1 };

fn document() -> WebUrl {
    WebUrl::parse("https://feeds.example.org/all.xml").unwrap()
}

fn timed(name: &str, bytes: &[u8]) -> Result<Document, FeedError> {
    let (took, result) = least_time(HOSTILE_MAX, || read(bytes, &document(), None, &Limits::default()));
    assert!(took < HOSTILE_MAX, "{name} took {took:?} for {} bytes", bytes.len());
    if let Ok(found) = &result {
        assert!(found.notes.len() <= 100, "{name} has {} notes", found.notes.len());
    }
    result
}

/// An RSS feed with one item around whatever stands in the item, and one behind.
fn around(inner: &str) -> String {
    format!(
        "<rss version=\"2.0\"><channel><item><link>http://a.example/1</link>{inner}</item>\
         <item><link>http://a.example/2</link></item></channel></rss>"
    )
}

fn problems(document: &Document) -> Vec<&Problem> {
    document.notes.iter().map(|note| &note.problem).collect()
}

#[test]
fn entities_are_never_expanded() {
    // A billion laughs: ten times ten times ten …
    let mut laughs = String::from("<!DOCTYPE lolz [<!ENTITY lol \"lol\">");
    for level in 1..10 {
        let before = if level == 1 { "&lol;".to_owned() } else { format!("&lol{};", level - 1) };
        laughs.push_str(&format!("<!ENTITY lol{level} \"{}\">", before.repeat(10)));
    }
    let text = format!("{laughs}]>{}", around("<title>&lol9;</title>"));
    let found = timed("a billion laughs", text.as_bytes()).unwrap();
    assert_eq!(found.entries[0].title.as_deref(), Some("&lol9;"));
    assert_eq!(problems(&found), [&Problem::UnknownReference { name: "lol9".into() }]);
    assert_eq!(found.entries.len(), 2);

    // Quadratic blow-up: one long entity, named often.
    let declared = format!("<!DOCTYPE x [<!ENTITY a \"{}\">]>", "a".repeat(1_000_000 / SHARE));
    let text = declared + &around(&format!("<title>{}</title>", "&a;".repeat(300_000 / SHARE)));
    let found = timed("quadratic blow-up", text.as_bytes()).unwrap();
    assert_eq!(found.entries[0].title.as_ref().map(String::len), Some(Limits::default().text_bytes));

    // Files and addresses of others stay where they are.
    let text = "<!DOCTYPE x [<!ENTITY f SYSTEM \"file:///etc/passwd\"><!ENTITY % p SYSTEM \"http://evil.example/\">%p;]>"
        .to_owned()
        + &around("<title>&f;%p;</title>");
    assert_eq!(timed("external", text.as_bytes()).unwrap().entries[0].title.as_deref(), Some("&f;%p;"));
}

#[test]
fn what_is_huge_is_cut() {
    let limits = Limits::default();
    let long = "x".repeat(1_000_000);
    for (name, inner) in [
        ("attribute", format!("<a b=\"{long}\"/>")),
        ("attribute of a reference each", format!("<a b=\"{}\"/>", "&amp;".repeat(200_000))),
        ("name of an element", format!("<{long}/>")),
        ("name of an attribute", format!("<a {long}=''/>")),
        ("comment", format!("<!--{long}-->")),
        ("comment of dashes", format!("<!--{}-->", "- -".repeat(300_000))),
        ("instruction", format!("<?{long}?>")),
        ("white space", " ".repeat(1_000_000)),
        ("blank tag", format!("<a{}/>", " ".repeat(1_000_000))),
    ] {
        let found = timed(name, around(&inner).as_bytes()).unwrap();
        assert_eq!(found.entries.len(), 2, "{name}: {:?}", found.notes);
        assert!(found.complete, "{name}");
    }
    let found = timed("title", around(&format!("<title>{long}</title>")).as_bytes()).unwrap();
    assert_eq!(found.entries[0].title.as_ref().map(String::len), Some(limits.text_bytes));
    let found = timed("CDATA", around(&format!("<title><![CDATA[{long}]]></title>")).as_bytes()).unwrap();
    assert_eq!(found.entries[0].title.as_ref().map(String::len), Some(limits.text_bytes));
    let found = timed("link", around(&format!("<link>http://a.example/{long}</link>")).as_bytes()).unwrap();
    assert_eq!(found.entries[0].url.as_str(), "http://a.example/1");
    let many: String = (0..10_000).map(|n| format!("<category>c{n}</category>")).collect();
    let found = timed("categories", around(&many).as_bytes()).unwrap();
    assert_eq!(found.entries[0].categories.len(), limits.categories);
}

#[test]
fn many_of_anything_takes_linear_time() {
    let many = 1_000_000 / SHARE;
    let attributes: String = (0..many).map(|n| format!(" a{n}='{n}'")).collect();
    let found = timed("attributes", around(&format!("<a{attributes}/>")).as_bytes()).unwrap();
    assert_eq!((found.entries.len(), problems(&found)), (2, vec![&Problem::Crowded]));
    let names: String = (0..many).map(|n| format!(" xmlns:a{n}='{n}'")).collect();
    assert_eq!(timed("namespaces", around(&format!("<a{names}/>")).as_bytes()).unwrap().entries.len(), 2);
    let each = "<a xmlns:b='urn:b' xml:base='x/'><b:c/></a>".repeat(many / 10);
    assert_eq!(timed("namespaces of each", around(&each).as_bytes()).unwrap().entries.len(), 2);
    for (name, piece) in [
        ("ampersands", "&"),
        ("unknown references", "&lol;"),
        ("references", "&#x41;&nbsp;"),
        ("less-thans", "< "),
        ("less-thans alone", "<"),
        ("ends", "</x>"),
        ("unclosed quotes", "<a b=\"'"),
        ("open comments", "<!--"),
        ("open CDATA", "<![CDATA["),
        ("brackets", "]]"),
        ("declarations", "<!DOCTYPE a ["),
        ("instructions", "<?"),
        ("undeclared prefixes", "<q:r/>"),
        ("NULs", "\0"),
        ("open tags", "<a <b <c "),
        ("empty attributes", "<a ====/>"),
    ] {
        let text = around(&piece.repeat(many));
        let found = timed(name, text.as_bytes()).unwrap();
        assert!(found.entries.len() <= 2, "{name}");
        timed(name, format!("<rss><channel><item><title>{}", piece.repeat(many)).as_bytes()).unwrap();
        timed(name, piece.repeat(many).as_bytes()).unwrap_err();
    }
}

#[test]
fn depth_is_bounded_and_said() {
    let text = around(&"<x>".repeat(1_000_000));
    let found = timed("a million nested", text.as_bytes()).unwrap();
    let limit = Limits::default().depth;
    assert_eq!(problems(&found), [&Problem::TooDeep { limit }]);
    assert!(!found.complete);
    let json = format!(
        "{{\"version\":\"https://jsonfeed.org/version/1\",\"items\":[{{\"url\":\"http://a.example/1\"}},{}",
        "[".repeat(1_000_000)
    );
    let found = timed("JSON nested", json.as_bytes()).unwrap();
    assert_eq!((found.entries.len(), found.complete), (1, false));
    let json = format!(
        "{{\"x\":{}1{}, \"version\":\"jsonfeed.org/version/1\"}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    let _ = timed("JSON nested where nobody looks", json.as_bytes());
}

#[test]
fn entries_are_counted_beyond_the_limit() {
    let limits = Limits { entries: 3, ..Limits::default() };
    let of = |text: &str| read(text.as_bytes(), &document(), None, &limits).unwrap();
    let urls: String = (0..10).map(|n| format!("<url><loc>/{n}</loc></url>")).collect();
    let found = of(&format!("<urlset>{urls}</urlset>"));
    assert_eq!((found.entries.len(), found.truncated, found.refused), (3, 7, 0));
    let lines: String = (0..10).map(|n| format!("http://a.example/{n}\n")).collect();
    assert_eq!(of(&lines).truncated, 7);
    let items: Vec<_> = (0..10).map(|n| format!("{{\"url\":\"/{n}\"}}")).collect();
    let json = format!("{{\"version\":\"https://jsonfeed.org/version/1\",\"items\":[{}]}}", items.join(","));
    assert_eq!(of(&json).truncated, 7);
    let items: String = (0..10).map(|n| format!("<item><link>/{n}</link></item>")).collect();
    assert_eq!(of(&format!("<rss><channel>{items}</channel></rss>")).truncated, 7);
    // Those without an address are named up to a bound, and counted.
    let found = of(&format!("<rss><channel>{}</channel></rss>", "<item/>".repeat(100)));
    assert_eq!((found.refused, found.notes.len(), found.notes_left_out), (100, 20, 80));
}

#[test]
fn the_unpacked_size_is_bounded() {
    let pack = |bytes: &mut dyn Read| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::copy(bytes, &mut gzip).unwrap();
        gzip.finish().unwrap()
    };
    let limits = Limits { bytes: 2_000_000, ..Limits::default() };
    let begin = "<urlset><url><loc>http://a.example/1</loc></url>";
    let mut endless = begin.as_bytes().chain(std::io::repeat(b' ').take(100_000_000));
    let bomb = pack(&mut endless);
    assert!(bomb.len() < 1_000_000);
    let found = read(bomb.as_slice(), &document(), None, &limits).unwrap();
    assert_eq!((found.entries.len(), found.complete), (1, false));
    assert!(problems(&found).contains(&&Problem::TooLong { limit: 2_000_000 }));
    let zeros = pack(&mut std::io::repeat(0).take(100_000_000));
    let error = timed("a bomb of zeros", &zeros).unwrap_err();
    assert_eq!(error, FeedError::NotAFeed { what: "binary data".into() });
    let twice = pack(&mut pack(&mut begin.as_bytes()).as_slice());
    assert_eq!(timed("twice", &twice).unwrap_err(), FeedError::NotAFeed { what: "gzip in gzip".into() });
    // To the byte.
    let whole = format!("{begin}</urlset>");
    let exact = Limits { bytes: whole.len() as u64, ..Limits::default() };
    assert!(read(whole.as_bytes(), &document(), None, &exact).unwrap().complete);
    let less = Limits { bytes: whole.len() as u64 - 1, ..Limits::default() };
    assert!(!read(whole.as_bytes(), &document(), None, &less).unwrap().complete);
    // Damage in the middle: what came out before is kept.
    let entries: String = (0..5000).map(|n| format!("<url><loc>/{}</loc></url>", n * n)).collect();
    let mut damaged = pack(&mut format!("<urlset>{entries}</urlset>").as_bytes());
    let middle = damaged.len() / 2;
    damaged[middle..middle + 20].fill(0xFF);
    let found = timed("damage", &damaged).unwrap();
    assert!(!found.complete && found.entries.len() < 5000);
}

#[test]
fn a_reader_that_fails_ends_the_document() {
    struct Fails;
    impl Read for Fails {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("connection reset"))
        }
    }
    let begin = b"<urlset><url><loc>http://a.example/1</loc></url>";
    let found = read(begin.chain(Fails), &document(), None, &Limits::default()).unwrap();
    assert_eq!((found.entries.len(), found.complete), (1, false));
    assert!(problems(&found).contains(&&Problem::Cut { reason: "connection reset".into() }));
    let error = read(Fails, &document(), None, &Limits::default()).unwrap_err();
    let problem = Problem::Cut { reason: "connection reset".into() };
    assert_eq!(error, FeedError::Broken(Note { line: 1, column: 1, problem }));
}

#[test]
fn bytes_of_any_kind_are_read_or_refused() {
    let text = around("<title>Müsli 🍵</title>");
    let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let marked: Vec<u8> = [b"\xFF\xFE", wide.as_slice()].concat();
    for end in 0..marked.len() {
        let _ = timed("UTF-16 cut", &marked[..end]);
    }
    assert!(!timed("half a unit", &marked[..marked.len() - 1]).unwrap().notes.is_empty());
    for charset in
        ["utf-16le", "utf-16be", "iso-2022-jp", "gb18030", "shift_jis", "x-user-defined", "utf-7", "\u{0}"]
    {
        for bytes in [text.as_bytes(), &marked, &wide] {
            let _ = read(bytes, &document(), Some(charset), &Limits::default());
        }
    }
    for byte in [0, 0xFF, 0x80, b'<', b'&', b'{', b'"'] {
        let same = vec![byte; 1_000_000 / SHARE];
        timed("the same byte", &same).unwrap_err();
        timed("in a feed", &[b"<rss><channel><title>".as_slice(), &same].concat()).unwrap();
    }
    for mark in ["\u{FEFF}", ""] {
        let longer = format!("{mark}{text}");
        let little: Vec<u8> = longer.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
        let big: Vec<u8> = longer.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect();
        for bytes in [little, big] {
            assert_eq!(
                timed("UTF-32", &bytes).unwrap_err(),
                FeedError::NotAFeed { what: "text in UTF-32".into() }
            );
        }
    }
    let mut nul = around("<ti\0tle>a\0b</ti\0tle><title>c\0d</title>").into_bytes();
    nul.insert(0, b'\n');
    let found = timed("NUL", &nul).unwrap();
    assert_eq!(found.entries[0].title.as_deref(), Some("c d"));
}

const PIECES: [&str; 44] = [
    "<",
    ">",
    "</",
    "/>",
    "&",
    ";",
    "\"",
    "'",
    "=",
    " ",
    "\n",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<?xml",
    "?>",
    "<!DOCTYPE",
    "[",
    "]",
    "<rss>",
    "<channel>",
    "</channel>",
    "<item>",
    "</item>",
    "<link>",
    "</link>",
    "http://a.example/",
    "<title>",
    "</title>",
    "<urlset>",
    "<url>",
    "</url>",
    "<loc>",
    "</loc>",
    "<feed xmlns='http://www.w3.org/2005/Atom'>",
    "<entry>",
    "</entry>",
    "<link href='x'/>",
    "xmlns:a='b'",
    "xml:base='/c/'",
    "{\"version\":\"https://jsonfeed.org/version/1\",",
    "&amp;",
    "ü",
];

#[test]
fn random_documents_do_no_harm() {
    let mut random = Random(20_041_123);
    for number in 0..20_000 / SHARE {
        let mut bytes = Vec::new();
        let starts = ["<rss><channel>", "<urlset>", "<feed>", "{\"items\":[", "", "http://", "\u{FEFF}"];
        bytes.extend_from_slice(random.pick(&starts).as_bytes());
        for _ in 0..random.below(200) {
            match random.below(12) {
                0 => bytes.push(random.number() as u8),
                _ => bytes.extend_from_slice(random.pick(&PIECES).as_bytes()),
            }
        }
        if random.below(20) == 0 {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(&bytes).unwrap();
            bytes = gzip.finish().unwrap();
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        let small = Limits { bytes: 300, entries: 2, text_bytes: 8, categories: 1, depth: 4, attributes: 2 };
        for limits in [Limits::default(), small] {
            if let Ok(found) = read(bytes.as_slice(), &document(), None, &limits) {
                assert!(found.entries.len() <= limits.entries, "case {number}");
                assert!(
                    found.entries.iter().all(|entry| entry.categories.len() <= limits.categories),
                    "case {number}"
                );
            }
        }
    }
    for length in 0..3000 / SHARE {
        let bytes: Vec<u8> = (0..length).map(|_| random.number() as u8).collect();
        let _ = read(bytes.as_slice(), &document(), None, &Limits::default());
    }
}
