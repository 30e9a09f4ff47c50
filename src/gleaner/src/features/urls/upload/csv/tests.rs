//! Records against Python's csv module, and against a writer that quotes at random.

use super::*;
use harness::random::Random;

/// Texts with their records as Python 3's `csv.reader` has them, rows without a field left out. The first seven are those of
/// RFC 4180, section 2.
const CASES: &[(&str, &[&[&str]])] = &[
    ("aaa,bbb,ccc\r\nzzz,yyy,xxx\r\n", &[&["aaa", "bbb", "ccc"], &["zzz", "yyy", "xxx"]]),
    ("aaa,bbb,ccc\r\nzzz,yyy,xxx", &[&["aaa", "bbb", "ccc"], &["zzz", "yyy", "xxx"]]),
    (
        "field_name,field_name,field_name\r\naaa,bbb,ccc\r\nzzz,yyy,xxx\r\n",
        &[&["field_name", "field_name", "field_name"], &["aaa", "bbb", "ccc"], &["zzz", "yyy", "xxx"]],
    ),
    ("aaa,bbb,ccc", &[&["aaa", "bbb", "ccc"]]),
    ("\"aaa\",\"bbb\",\"ccc\"\r\nzzz,yyy,xxx", &[&["aaa", "bbb", "ccc"], &["zzz", "yyy", "xxx"]]),
    ("\"aaa\",\"b\r\nbb\",\"ccc\"\r\nzzz,yyy,xxx", &[&["aaa", "b\r\nbb", "ccc"], &["zzz", "yyy", "xxx"]]),
    ("\"aaa\",\"b\"\"bb\",\"ccc\"", &[&["aaa", "b\"bb", "ccc"]]),
    ("a,\"b,c\",d\r\n", &[&["a", "b,c", "d"]]),
    ("a,\"\",b\r\n", &[&["a", "", "b"]]),
    ("a,,b\r\n", &[&["a", "", "b"]]),
    (",,\r\n", &[&["", "", ""]]),
    ("\"\",\"\"\r\n", &[&["", ""]]),
    ("a,\"\"\"\",b\r\n", &[&["a", "\"", "b"]]),
    ("\"\"\"a\"\"\"\r\n", &[&["\"a\""]]),
    ("a,\"b\nc\",d\ne,f,g\n", &[&["a", "b\nc", "d"], &["e", "f", "g"]]),
    ("a,b\nc,d\n", &[&["a", "b"], &["c", "d"]]),
    ("a,b\rc,d\r", &[&["a", "b"], &["c", "d"]]),
    ("a;b;c\n", &[&["a;b;c"]]),
    (" a , b \n", &[&[" a ", " b "]]),
    ("a,\"b\" \n", &[&["a", "b "]]),
    ("a\"b,c\n", &[&["a\"b", "c"]]),
    ("a\"\"b,c\n", &[&["a\"\"b", "c"]]),
    ("\"a\r\n\r\nb\",c\r\n", &[&["a\r\n\r\nb", "c"]]),
    ("\"a\tb\",c\r\n", &[&["a\tb", "c"]]),
    ("\u{e4},\u{20ac},\u{1f600}\r\n", &[&["\u{e4}", "\u{20ac}", "\u{1f600}"]]),
    ("\"\u{4f60}\u{597d}\",\"\u{3053}\"\n", &[&["\u{4f60}\u{597d}", "\u{3053}"]]),
    ("a\n", &[&["a"]]),
    ("\"a\"\n", &[&["a"]]),
    ("a,b,\n", &[&["a", "b", ""]]),
    (",a\n", &[&["", "a"]]),
    ("\"a,b\",\"c;d\",\"e\tf\"\n", &[&["a,b", "c;d", "e\tf"]]),
    ("\"line1\nline2\nline3\",x\ny,z\n", &[&["line1\nline2\nline3", "x"], &["y", "z"]]),
    ("\"\"\"\",\"\"\"\"\n", &[&["\"", "\""]]),
    ("\"a\"\"b\"\"c\"\n", &[&["a\"b\"c"]]),
    ("x,\"y\r\nz\r\n\"\r\nq,r\r\n", &[&["x", "y\r\nz\r\n"], &["q", "r"]]),
    ("'a','b'\n", &[&["'a'", "'b'"]]),
    ("a\\,b\n", &[&["a\\", "b"]]),
    ("# a,b\n", &[&["# a", "b"]]),
];

/// All records of a text that comes in parts of `size`, with the lines on which they begin; what is wrong as one field.
fn records(text: &[u8], delimiter: u8, size: usize) -> Vec<(usize, Vec<String>)> {
    let mut records = Records::new();
    records.separated_by(delimiter);
    records.url_stands_at(0);
    let (mut came, mut held, mut found) = (0, Vec::new(), Vec::new());
    loop {
        let is_last = came == text.len();
        let (used, step) = records.next(&held, is_last);
        held.drain(..used);
        match step {
            Found::Record(line) => {
                let fields = records.fields().map(|field| String::from_utf8(field.to_vec()).unwrap());
                found.push((line, fields.collect()));
            }
            Found::Wrong(line, reason) => found.push((line, vec![format!("! {reason}")])),
            Found::More if is_last => return found,
            Found::More => {
                let until = text.len().min(came + size);
                held.extend_from_slice(&text[came..until]);
                came = until;
            }
        }
    }
}

#[test]
fn records_are_those_of_another_implementation() {
    for (text, expected) in CASES {
        for size in [1, 2, 3, 7, 1_000] {
            let found: Vec<_> =
                records(text.as_bytes(), b',', size).into_iter().map(|(_, fields)| fields).collect();
            let expected: Vec<Vec<String>> =
                expected.iter().map(|row| row.iter().map(|field| (*field).to_owned()).collect()).collect();
            assert_eq!(found, expected, "{text:?} by {size}");
        }
    }
}

/// Fields of all that is delicate, written as RFC 4180 has it, quoted where they must be and at random.
#[test]
fn what_a_writer_wrote_is_read_again() {
    let mut random = Random(7);
    for round in 0..400 {
        let delimiter = DELIMITERS[random.below(3)];
        let end = ["\n", "\r\n", "\r"][random.below(3)];
        let pieces = ["a", "\"", ",", ";", "\t", "\n", "\r\n", "é", " ", "x y", "'"];
        let (mut text, mut expected, mut line) = (String::new(), Vec::new(), 1);
        for _ in 0..1 + random.below(6) {
            let mut fields = Vec::new();
            let begun = line;
            for place in 0..2 + random.below(4) {
                let field: String =
                    (0..random.below(5)).map(|_| pieces[random.below(pieces.len())]).collect();
                if place > 0 {
                    text.push(char::from(delimiter));
                }
                let special = |c: char| matches!(c, '"' | '\n' | '\r') || c == char::from(delimiter);
                if field.contains(special) || random.below(3) == 0 {
                    text.push_str(&format!("\"{}\"", field.replace('"', "\"\"")));
                } else {
                    text.push_str(&field);
                }
                line += field.matches('\n').count();
                fields.push(field);
            }
            text.push_str(end);
            line += 1;
            expected.push((begun, fields));
        }
        for size in [1, 2, 5, 1_000] {
            assert_eq!(
                records(text.as_bytes(), delimiter, size),
                expected,
                "round {round} by {size}: {text:?}"
            );
        }
    }
}

#[test]
fn a_record_that_never_ends_costs_a_bounded_memory() {
    let long = format!("a,b\n{},c\nd,e\n", "x".repeat(300_000));
    let many = format!("a,b\n{}\nd,e\n", ",".repeat(1_000));
    for (text, reason) in [(long, "! is longer than 64 KiB"), (many, "! has more than 256 fields")] {
        for size in [1_000, 10_000, 1_000_000] {
            let found = records(text.as_bytes(), b',', size);
            let lines: Vec<_> = found.iter().map(|(line, fields)| (*line, fields[0].as_str())).collect();
            assert_eq!(lines, [(1, "a"), (2, reason), (3, "d")]);
        }
    }
    let open = format!("a,b\nc,\"{}", "x\n".repeat(100_000));
    let found = records(open.as_bytes(), b',', 1_000);
    assert_eq!(found[1], (2, vec!["! begins a quoted field that does not end".to_owned()]));
    assert_eq!(found.len(), 2);
}

#[test]
fn the_separator_is_found_by_the_header() {
    for (line, expected) in [
        ("url,tags\n", b','),
        ("url;tags\n", b';'),
        ("url\ttags\n", b'\t'),
        ("name, with comma;url\n", b';'),
        ("\"a;b\";\"URL\";c,d,e,f\n", b';'),
        ("\"x\ny\",url\n", b','),
        ("url\n", b','),
        // A URL is no header, but a column beside `url` may be called as it likes.
        ("https://a.example/1,2;x;y\n", NO_DELIMITER),
        (" \"HTTP://a.example/\"\n", NO_DELIMITER),
        ("https://a.example/;url\n", b';'),
        ("httpstatus\n", b','),
    ] {
        assert_eq!(delimiter(line.as_bytes(), false), Some(expected), "{line:?}");
    }
    assert_eq!(delimiter(b"url,tags", false), None);
    assert_eq!(delimiter(b"url;tags", true), Some(b';'));
}

/// Where the first field is the URL: quotes that hold lines together are told, and notes over many lines are not.
#[test]
fn quotes_that_hold_records_together_are_told_and_notes_over_lines_are_read() {
    let u = "http://a.example";
    let held = |from, to| format!("! has a quote that is not closed: it holds lines {from} to {to} together");
    let behind =
        |column, line| format!("! has text behind the closing quote of column {column}, on line {line}");
    let cases = [
        // Two stray quotes; one, and a mark of inches that closes it; an escaped quote between.
        (format!("{u}/1,\"5 pipe\n{u}/2,\"6 pipe\n{u}/3,x\n"), vec![(1, held(1, 2)), (3, format!("{u}/3"))]),
        (format!("{u}/1,\"5 pipe\r\n{u}/2,x\r\n HTTPS://a.example/3,6\"\r\n"), vec![(1, held(1, 3))]),
        (format!("{u}/1,\"5 \"\" pipe\n{u}/2,\"\"x\n"), vec![(1, held(1, 2))]),
        (format!("{u}/1,\"5 pipe\r{u}/2,x"), vec![(1, held(1, 2))]),
        (format!("{u}/1,\"5 pipe\n{}", format!("{u}/2,x\n").repeat(9_000)), vec![(1, held(1, 9_001))]),
        // Text behind a closing quote, RFC 4180 has none.
        ("\"a\"b,c\nd,e\n".to_owned(), vec![(1, behind(1, 1)), (2, "d".to_owned())]),
        (format!("{u}/1,\"two\r\nlines\" x\r\n{u}/2,\r\n"), vec![(1, behind(2, 2)), (3, format!("{u}/2"))]),
        ("a,\"b\"\"\"c\n".to_owned(), vec![(1, behind(2, 1))]),
        // A URL on a line of its own, one with a comma behind the quote, one in the middle of a line; spaces.
        (format!("{u}/1,\"see\r\n{u}/2\r\n{u}/3\",x\r\n"), vec![(1, format!("{u}/1"))]),
        (format!("{u}/1,\"see {u}/2,\nor, {u}/3,x\"\n"), vec![(1, format!("{u}/1"))]),
        ("a,\"b\" \t,\"c\" \n".to_owned(), vec![(1, "a".to_owned())]),
        ("a,b\"c\"d,e \"f\"g\n".to_owned(), vec![(1, "a".to_owned())]),
    ];
    for (text, expected) in cases {
        for size in [1, 2, 3, 1_000] {
            let found = records(text.as_bytes(), b',', size);
            let found: Vec<_> =
                found.into_iter().map(|(line, mut fields)| (line, fields.remove(0))).collect();
            let shown: String = text.chars().take(100).collect();
            assert_eq!(found, expected, "by {size}: {shown:?}");
        }
    }
}
