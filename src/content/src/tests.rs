//! What comes out of small pages, and what hostile ones cost.

use std::time::{Duration, Instant};

use super::*;

const PROSE: &str = "The river rose by two metres in one night, and nobody in the village had seen such a thing. \
                     By the morning, the bridge was gone, and with it the only road to the town, the school, the doctor.";

fn at(html: &str) -> (Document, Url) {
    let url = Url::parse("https://www.example.org/news/river.html?page=1").expect("an address");
    (Document::parse(html.to_owned()), url)
}

fn markdown(html: &str) -> String {
    let (document, url) = at(html);
    Content::of(&document, Some(&url)).markdown(CONTENT_BYTES_MAX).text
}

fn text(html: &str) -> String {
    let (document, url) = at(html);
    Content::of(&document, Some(&url)).text(CONTENT_BYTES_MAX).text
}

/// An article with a body, between prose so that it is one.
fn article(body: &str) -> String {
    format!("<body><article><p>{PROSE}</p>{body}<p>{PROSE}</p></article></body>")
}

/// What stands between the prose of [`article`].
fn between(written: &str) -> String {
    let rest = written.strip_prefix(PROSE).expect("prose before");
    rest.trim_end().strip_suffix(PROSE).expect("prose behind").trim_matches('\n').to_owned()
}

fn written(body: &str) -> String {
    between(&markdown(&article(body)))
}

fn plain(body: &str) -> String {
    between(&text(&article(body)))
}

#[test]
fn boilerplate_is_taken_off_and_the_title_stands_beside() {
    let html = format!(
        "<html lang=en-GB><head><title>The river rose | Example News</title></head><body>\
         <nav><a href=/>Home</a> <a href=/news>News, all of it, every day, and more than that, as it comes.</a></nav>\
         <div class=cookie-banner><p>We use cookies, as everybody does, to know who you are and what you read here.</p></div>\
         <div id=main><h1>The river rose</h1><p class=byline>By Ada Smith, reporter for many years, of the North.</p>\
         <p>{PROSE}</p><div class='related-posts'><ul><li><a href=/a>Another story</a><li><a href=/b>And one more</a></ul></div>\
         <h2>What comes next</h2><p>{PROSE}</p><h2>Read more</h2><ul><li><a href=/c>A third story</a></ul></div>\
         <section id=comments><p>I knew it, said somebody who had not known it, at length, and with many commas.</p></section>\
         <footer><p>Example News is a company, with an address, a number, and a telephone. All rights reserved.</p></footer>"
    );
    let (document, url) = at(&html);
    let content = Content::of(&document, Some(&url));
    assert_eq!(content.title(), Some("The river rose"));
    assert_eq!(content.language().as_deref(), Some("en-GB"));
    let expected = format!("{PROSE}\n\n## What comes next\n\n{PROSE}\n");
    assert_eq!(content.markdown(CONTENT_BYTES_MAX).text, expected);
    assert_eq!(content.text(CONTENT_BYTES_MAX).text, expected.replace("## ", ""));
}

#[test]
fn a_name_does_not_take_off_what_the_page_is_about() {
    let html = format!("<body><div class=sidebar><h1>News</h1><p>{PROSE}</p><p>{PROSE}</p></div></body>");
    assert_eq!(markdown(&html), format!("{PROSE}\n\n{PROSE}\n"), "its title is its heading");
    let comments = format!("<body><div id=comments><p>{PROSE}</p><p>{PROSE}</p></div></body>");
    assert_eq!(markdown(&comments), format!("{PROSE}\n\n{PROSE}\n"));
}

#[test]
fn marks_of_a_line() {
    assert_eq!(
        written("<p>a <b>bold</b>, <i>slanted</i> and <del>struck</del> word"),
        "a **bold**, *slanted* and ~~struck~~ word"
    );
    assert_eq!(written("<p>x<b> spaced </b>y <b></b>z"), "x **spaced** y z");
    assert_eq!(written("<p><b>one</b><b>two</b> <strong><b>three</b></strong>"), "**onetwo** **three**");
    assert_eq!(
        written("<p>a<b>(b)</b>c and <b>d.</b>e"),
        "a(b)c and d.e",
        "where it would not be read as a mark"
    );
    assert_eq!(written("<p>use <code>a|b `c`</code> here"), "use `` a|b `c` `` here");
    assert_eq!(written("<p>one<br>two<br><br>three"), "one\\\ntwo\n\nthree");
    assert_eq!(written("<b><p>one</p><p>two</p></b>"), "**one**\n\n**two**");
}

#[test]
fn links_and_images_lead_where_the_page_says() {
    let linked = "<p>It was in <a href='../a b?x=1&amp;copy;=2'>a paper</a>, and <a href='javascript:x()'>not here</a>, \
                  <a href=#top>nor there</a>, <a href='mailto:a@b.example'>mail</a>.";
    let expected = "It was in [a paper](https://www.example.org/a%20b?x=1\\&copy;=2), and not here, nor there, \
                    [mail](mailto:a@b.example).";
    assert_eq!(written(linked), expected);
    assert_eq!(plain(linked), "It was in a paper, and not here, nor there, mail.");
    let based = format!(
        "<head><base href='/en/'></head>{}",
        article("<p>A word and <a href='x(1)'>a link</a> in it.")
    );
    assert_eq!(between(&markdown(&based)), "A word and [a link](<https://www.example.org/en/x(1)>) in it.");
    let image = "<figure><img src=data:image/gif;base64,R0 data-src=/i.jpg alt='A [bridge]'><figcaption>The bridge, as it \
                 was.</figcaption></figure>";
    assert_eq!(written(image), "![A \\[bridge\\]](https://www.example.org/i.jpg)\n\nThe bridge, as it was.");
    assert_eq!(plain(image), "");
    assert_eq!(written("<img src=/dot.gif width=1 height=1>"), "");
}

#[test]
fn links_without_an_address_of_the_page() {
    let document = Document::parse(article(
        "<p>It says so in <a href=/x>this</a> and in <a href=https://a.example/>that</a>.",
    ));
    let content = Content::of(&document, None).markdown(CONTENT_BYTES_MAX);
    assert_eq!(between(&content.text), "It says so in this and in [that](https://a.example/).");
}

#[test]
fn lists_quotes_and_code() {
    let list = "<ul><li>one<ul><li>inner<li><p>first</p><p>second</p></ul><li>two</ul><ol start=9><li>nine<li>ten</ol>";
    let expected = "- one\n  - inner\n  - first\n\n    second\n- two\n\n9. nine\n10. ten";
    assert_eq!(written(list), expected);
    assert_eq!(plain(list), "one\ninner\nfirst\n\nsecond\ntwo\nnine\nten");
    assert_eq!(written("<ul><li>a</ul><ul><li>b</ul>"), "- a\n\n* b");
    assert_eq!(written("<blockquote><p>one</p><p>two</p></blockquote>"), "> one\n>\n> two");
    assert_eq!(written("<ul><li><blockquote>said</blockquote></ul>"), "- > said");
    let code = "<pre class='language-rust'><code>fn main() {\n    a ``` b\n}\n</code></pre>";
    assert_eq!(written(code), "````rust\nfn main() {\n    a ``` b\n}\n````");
    assert_eq!(plain(code), "fn main() {\n    a ``` b\n}");
    assert_eq!(written("<hr><p>and on"), "* * *\n\nand on");
}

#[test]
fn tables_of_data_and_of_layout() {
    let data = "<table><thead><tr><th>Name<th>Price</thead><tr><td>Kettle | pot<td><b>20</b><tr><td rowspan=2>Tea<td>3<tr><td>4\
                <tr><td colspan=2>all</table>";
    let expected =
        "| Name | Price |\n| --- | --- |\n| Kettle \\| pot | **20** |\n| Tea | 3 |\n| | 4 |\n| all | |";
    assert_eq!(written(data), expected);
    assert_eq!(plain(data), "Name\tPrice\nKettle | pot\t20\nTea\t3\n\t4\nall");
    let named = "<table><tr><th>Weight<td>1 kg<tr><th>Colour<td>blue</table>";
    assert_eq!(written(named), "| | |\n| --- | --- |\n| Weight | 1 kg |\n| Colour | blue |");
    let layout = format!("<body><table><tr><td><a href=/>Home</a><td><p>{PROSE}</p><p>{PROSE}</p></table>");
    assert_eq!(markdown(&layout), format!("{PROSE}\n\n{PROSE}\n"));
}

#[test]
fn clean_html() {
    let html = article(
        "<h2 class=x onclick=y>A &lt; B</h2><p style=z>one <a href=/l?a=1&amp;b=2 target=t><b>two</b></a><br>three</p>\
         <ul><li>a<li><p>b</p><p>c</p></ul><ol start=3><li>d</ol><pre>x &amp; y\n  z</pre><blockquote>q</blockquote>\
         <table><tr><th>n<th>m<tr><td colspan=2>1</table><img src=/i.png alt='\"i\"'><script>bad()</script>",
    );
    let (document, url) = at(&html);
    let clean = Content::of(&document, Some(&url)).html(CONTENT_BYTES_MAX).text;
    let expected = format!(
        "<p>{PROSE}</p>\n<h2>A &lt; B</h2>\n<p>one <a href=\"https://www.example.org/l?a=1&amp;b=2\"><strong>two</strong></a>\
         <br>three</p>\n<ul>\n<li>a</li>\n<li>b<p>c</p>\n</li>\n</ul>\n<ol start=\"3\">\n<li>d</li>\n</ol>\n\
         <pre><code>x &amp; y\n  z</code></pre>\n<blockquote>\n<p>q</p>\n</blockquote>\n<table>\n<tr><th>n</th><th>m</th></tr>\n\
         <tr><td colspan=\"2\">1</td></tr>\n</table>\n<p><img src=\"https://www.example.org/i.png\" alt=\"&quot;i&quot;\"></p>\n\
         <p>{PROSE}</p>\n"
    );
    assert_eq!(clean, expected);
    let (document, _) =
        at(&article(&format!("<ul><li><a href=https://a.example/>{PROSE}</a> {PROSE}</ul>").repeat(100)));
    let cut = Content::of(&document, None).html(10_000);
    assert!(
        cut.is_truncated && cut.text.len() <= 10_000 && cut.text.trim_end().ends_with("</ul>"),
        "{}",
        cut.text.len()
    );
}

#[test]
fn what_looks_like_a_mark_is_escaped() {
    let escaped = [
        ("# no heading", "\\# no heading"),
        ("1. no item", "1\\. no item"),
        ("- no item", "\\- no item"),
        ("&gt; no quote", "\\> no quote"),
        ("a *b* _c_ snake_case `d` [e](f) ~g~", "a \\*b\\* \\_c\\_ snake_case \\`d\\` \\[e\\](f) \\~g\\~"),
        ("&lt;script&gt;alert(1)&lt;/script&gt;", "\\<script>alert(1)\\</script>"),
        ("AT&amp;T &amp;amp; co", "AT&T \\&amp; co"),
        ("--- and more", "\\--- and more"),
        ("|---|---|", "\\|---|---|"),
        ("1.5 is a number, #tag too", "1.5 is a number, #tag too"),
    ];
    for (html, expected) in escaped {
        assert_eq!(
            written(&format!("<p>{html}, said somebody.</p>")),
            format!("{expected}, said somebody."),
            "{html}"
        );
    }
    assert_eq!(written("<h2>C#</h2><p>text, in short.</p>"), "## C\\#\n\ntext, in short.");
}

#[test]
fn pages_without_prose_keep_what_they_have() {
    let product = "<head><title>Kettle 2000 - Shop</title><meta property=og:type content=product></head><body>\
                   <nav><a href=/>Shop</a></nav><main><h1>Kettle 2000</h1><p>Boils fast.</p><table><tr><th>Power<td>2 kW\
                   <tr><th>Weight<td>1 kg</table></main><footer>Shop, a company of some size, in a town.</footer></body>";
    let expected = "Boils fast.\n\n| | |\n| --- | --- |\n| Power | 2 kW |\n| Weight | 1 kg |\n";
    assert_eq!(markdown(product), expected);
    let list = "<body><header><a href=/>Shop</a></header><main><ul><li><a href=/1>Kettle</a> 20 €<li><a href=/2>Pot</a> 9 €</ul></main>";
    let expected = "- [Kettle](https://www.example.org/1) 20 €\n- [Pot](https://www.example.org/2) 9 €\n";
    assert_eq!(markdown(list), expected);
    assert_eq!(markdown("<body><nav>Only this</nav></body>"), "Only this\n");
    assert_eq!(markdown("just words"), "just words\n");
    assert_eq!(markdown(""), "");
    assert_eq!(
        markdown("<script>var a = 'words, and more words, and more of them than one would think';</script>"),
        ""
    );
}

#[test]
fn titles() {
    let title = |html: &str| Content::of(&Document::parse(html.to_owned()), None).title().map(str::to_owned);
    assert_eq!(title("<title>Story - Site</title><h1>Site</h1><h1>Story</h1>").as_deref(), Some("Story"));
    assert_eq!(title("<title>A long story - Site</title><h1>Menu</h1>").as_deref(), Some("A long story"));
    let social = "<meta property=og:title content='Story - Site'><meta property=og:site_name content=Site><title>x</title>";
    assert_eq!(title(social).as_deref(), Some("Story"));
    assert_eq!(title("<h1> Only \n this </h1>").as_deref(), Some("Only this"));
    assert_eq!(title("<p>nothing"), None);
}

#[test]
fn the_same_page_gives_the_same_bytes() {
    let html = article("<h2>One</h2><ul><li>a<li>b</ul><table><tr><th>a<th>b<tr><td>1<td>2</table>");
    assert_eq!(markdown(&html), markdown(&html));
}

#[test]
fn what_is_written_is_bounded_and_says_so() {
    let html = article(&format!("<p>{PROSE}</p>").repeat(1_000));
    let (document, url) = at(&html);
    let content = Content::of(&document, Some(&url));
    for written in [content.markdown(10_000), content.text(10_000)] {
        assert!(written.is_truncated);
        assert!((9_000..=10_000).contains(&written.text.len()), "{}", written.text.len());
    }
    assert!(!content.markdown(CONTENT_BYTES_MAX).is_truncated);
    // A long base makes no link as long.
    let base = format!("<base href='https://a.example/{}/'>", "x".repeat(100_000));
    let html =
        format!("{base}{}", article(&"<p>Some words, <a href=y>a link</a>, and others.</p>".repeat(10_000)));
    assert!(!markdown(&html).contains("xxx"));
}

/// Debug builds of the tests are some thirty times slower than what ships; what counts is that nothing is quadratic.
#[test]
fn hostile_pages_end_in_time() {
    let many = 5 * 1024 * 1024;
    let fill = |piece: &str| piece.repeat(many / piece.len());
    let around = |open: &str, close: &str| {
        let depth = many / (open.len() + close.len());
        format!("{}text{}", open.repeat(depth), close.repeat(depth))
    };
    let pages = [
        ("divisions", around("<div>", "</div>")),
        ("spans", around("<span>", "</span>")),
        ("quotes", around("<blockquote><p>a", "</blockquote>")),
        ("lists", around("<ul><li>a", "</ul>")),
        ("items", around("<li><section>a", "</section></li>")),
        ("tables", around("<table><tr><td>a", "</table>")),
        ("bold", fill("<p><b>a, b.")),
        ("links", fill("<p><a href=x>a, b.")),
        ("unopened marks", fill("a<b>.</b>a<i>(</i>")),
        ("attributes", format!("<div {}>text</div>", fill("a1=b class='sidebar nav' "))),
        ("a class", format!("<div class='{}'>text</div>", fill("sidebar "))),
        ("a heading", format!("<h1>{}</h1>", fill("word "))),
        ("headings", fill("<h1>word</h1>")),
        ("entities", fill("&amp;&lt;&nbsp;")),
        ("breaks", fill("a<br>")),
        ("cells", format!("<table><tr>{}</table>", fill("<td colspan=64 rowspan=64>a"))),
        ("rows", format!("<table>{}</table>", fill("<tr><td>a<td>b"))),
        ("backticks", format!("<p><code>{}</code>", fill("` a "))),
        ("code", format!("<pre>{}</pre>", fill("`\n"))),
        ("images", fill("<img src=x alt='*'>")),
        ("linked data", format!("<script type=application/ld+json>{}</script>", fill("\"@type\""))),
        (
            "teasers",
            fill(
                "<div><a href=x>a</a></div><div>Words that go on for a while, and on, and on, and on, and on, and on.</div>",
            ),
        ),
        ("one word", "a".repeat(many)),
    ];
    for (name, html) in pages {
        let document = Document::parse(html);
        let begun = Instant::now();
        let content = Content::of(&document, None);
        let markdown = content.markdown(CONTENT_BYTES_MAX);
        let text = content.text(CONTENT_BYTES_MAX);
        let clean = content.html(CONTENT_BYTES_MAX);
        assert!(clean.text.len() <= 2 * CONTENT_BYTES_MAX, "{name}");
        assert!(markdown.text.len() <= CONTENT_BYTES_MAX && text.text.len() <= CONTENT_BYTES_MAX, "{name}");
        let spent = begun.elapsed();
        eprintln!("{name}: {spent:?}, {} bytes", markdown.text.len());
        assert!(spent < Duration::from_secs(30), "{name} took {spent:?}");
    }
}
