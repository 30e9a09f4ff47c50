use super::*;

/// A tree in one line: `p(a"text"!comment!)`; namespaces as `svg:`, attributes as `[name=value]`, an implied tbody as `~`.
fn outline(doc: &Document) -> String {
    below(doc, NodeId(0))
}

fn below(doc: &Document, root: NodeId) -> String {
    let mut out = String::new();
    let mut open: Vec<NodeId> = Vec::new();
    for node in doc.descendants(root) {
        while open.last().is_some_and(|top| doc.subtree_end(*top) <= node) {
            open.pop();
            out.push(')');
        }
        match doc.kind(node) {
            NodeKind::Element => {
                let namespace = ["", "svg:", "math:"][doc.namespace(node) as usize];
                let implied = if doc.is_implied_tbody(node) { "~" } else { "" };
                let separator = if out.ends_with(|last: char| last.is_alphanumeric()) { " " } else { "" };
                out.push_str(&format!("{separator}{namespace}{}{implied}", doc.name(node)));
                for row in doc.attributes(node) {
                    out.push_str(&format!(
                        "[{}={}]",
                        doc.attr_name(AttrId(row)),
                        doc.attr_value(AttrId(row))
                    ));
                }
                if doc.first_child(node).is_some() {
                    out.push('(');
                    open.push(node);
                }
            }
            NodeKind::Text => out.push_str(&format!("{:?}", doc.text(node))),
            NodeKind::Comment => out.push_str(&format!("!{}!", doc.text(node))),
            NodeKind::Pi => out.push_str(&format!("?{} {}?", doc.name(node), doc.text(node))),
            NodeKind::Doctype => out.push_str(&format!("<{}>", doc.name(node))),
            NodeKind::Document => {}
        }
    }
    out.push_str(&")".repeat(open.len()));
    out
}

/// What a page's body holds.
pub(super) fn body(source: &str) -> String {
    let doc = Document::parse(source.to_owned());
    let body = doc.elements_named(names::BODY).next().expect("a body");
    below(&doc, body)
}

fn page(source: &str) -> String {
    outline(&Document::parse(source.to_owned()))
}

fn fragment(source: &str, context: &str) -> String {
    outline(&Document::parse_fragment(source.to_owned(), context, Namespace::Html))
}

#[test]
fn a_document_can_be_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Document>();
}

#[test]
fn the_skeleton_is_always_there() {
    assert_eq!(page(""), "html(head body)");
    assert_eq!(page("<!doctype html><title>x</title>y"), "<html>html(head(title(\"x\"))body(\"y\"))");
    assert_eq!(
        page("<html a=1><html b=2 a=3><body c=4><body d=5 c=6>"),
        "html[a=1][b=2](head body[c=4][d=5])"
    );
    assert_eq!(page("<!--a--><p>x</p></body><!--b--></html><!--c-->"), "!a!html(head body(p(\"x\"))!b!)!c!");
    assert_eq!(page("</head> <link><p>"), "html(head(link)\" \"body(p))");
    assert_eq!(page("<noscript><link><p>x"), "html(head(noscript(link))body(p(\"x\")))");
    assert_eq!(page("<frameset> x<frame></frameset>"), "html(head frameset(\" \"frame))");
    assert_eq!(page("<p><frameset><frame>"), "html(head frameset(frame))", "an empty body gives way");
}

#[test]
fn paragraphs_and_items_close_themselves() {
    assert_eq!(body("<p>a<p>b<div>c</div></p>"), "p(\"a\")p(\"b\")div(\"c\")p");
    assert_eq!(
        body("<ul><li>a<li>b<ul><li>c</ul><li>d</ul>"),
        "ul(li(\"a\")li(\"b\"ul(li(\"c\")))li(\"d\"))"
    );
    assert_eq!(body("<dl><dt>a<dd>b<dt>c"), "dl(dt(\"a\")dd(\"b\")dt(\"c\"))");
    assert_eq!(body("<h1>a<h2>b</h3>c"), "h1(\"a\")h2(\"b\")\"c\"");
    assert_eq!(body("<p><button><p>x</button>y"), "p(button(p(\"x\"))\"y\")");
    assert_eq!(body("<pre>\n\nx</pre><textarea>\ny</textarea>"), "pre(\"\\nx\")textarea(\"y\")");
    assert_eq!(body("<form><form><p></form>x"), "form(p)\"x\"");
    assert_eq!(body("<image src=a></br>"), "img[src=a]br");
}

#[test]
fn formatting_is_reopened_and_adopted() {
    assert_eq!(body("<p><b>a<p>b"), "p(b(\"a\"))p(b(\"b\"))");
    assert_eq!(body("<b>1<p>2</b>3</p>"), "b(\"1\")p(b(\"2\")\"3\")");
    assert_eq!(body("<a href=1>x<a href=2>y"), "a[href=1](\"x\")a[href=2](\"y\")");
    assert_eq!(body("<a>1<div>2<div>3</a>4"), "a(\"1\")div(a(\"2\")div(a(\"3\")\"4\"))");
    let ark = body("<p><b><b><b><b><b></p>x");
    assert_eq!(ark, "p(b(b(b(b(b)))))b(b(b(\"x\")))", "at most three alike are reopened");
    let unlike = body("<p><b i=1><b i=2><b i=3><b i=4></p>x");
    assert!(unlike.ends_with("b[i=1](b[i=2](b[i=3](b[i=4](\"x\"))))"), "{unlike}");
}

#[test]
fn tables_imply_and_foster() {
    assert_eq!(body("<table><tr><td>x</table>"), "table(tbody~(tr(td(\"x\"))))");
    assert_eq!(body("<table><tbody><tr><td>x"), "table(tbody(tr(td(\"x\"))))");
    assert_eq!(body("<table>a<tr>b<td>c</table>"), "\"ab\"table(tbody~(tr(td(\"c\"))))");
    assert_eq!(body("<table> <tr> </table>"), "table(\" \"tbody~(tr(\" \")))");
    assert_eq!(body("<table><p>x<caption>y</caption><col>"), "p(\"x\")table(caption(\"y\")colgroup(col))");
    assert_eq!(body("<table><input type=hidden><input>"), "input table(input[type=hidden])");
    assert_eq!(body("<!doctype html><p><table>"), "p table");
    assert_eq!(body("<p><table>"), "p(table)", "in quirks mode a table may stand in a paragraph");
    let doc = Document::parse("<table><tr><tbody><tr>".to_owned());
    let bodies: Vec<bool> = doc.elements_named(names::TBODY).map(|node| doc.is_implied_tbody(node)).collect();
    assert_eq!(bodies, [true, false]);
}

#[test]
fn foreign_content_has_its_own_names() {
    assert_eq!(
        body("<svg viewbox=0 xlink:href=y><foreignobject><p>x</p></foreignobject></svg>z"),
        "svg:svg[viewBox=0][xlink:href=y](svg:foreignObject(p(\"x\")))\"z\""
    );
    assert_eq!(body("<svg><title><b>x</b></title><path/></svg>"), "svg:svg(svg:title(b(\"x\"))svg:path)");
    assert_eq!(body("<math definitionurl=a><mi>x<p>y"), "math:math[definitionURL=a](math:mi(\"x\"p(\"y\")))");
    assert_eq!(body("<svg><![CDATA[a<b]]></svg><![CDATA[c]]>"), "svg:svg(\"a<b\")![CDATA[c]]!");
    assert_eq!(body("<svg><g><div>x"), "svg:svg(svg:g)div(\"x\")");
    assert_eq!(body("<svg>a\0b"), "svg:svg(\"a\u{FFFD}b\")");
    let annotated = body("<math><annotation-xml encoding=text/html><p>x");
    assert!(annotated.ends_with("(p(\"x\")))"), "{annotated}");
}

#[test]
fn templates_and_selects() {
    assert_eq!(page("<template><tr><td>x</template>"), "html(head(template(tr(td(\"x\"))))body)");
    assert_eq!(body("<p><template><td>x</template>y"), "p(template(td(\"x\"))\"y\")");
    assert_eq!(page("<template><p>"), "html(head(template(p))body)");
    assert_eq!(
        body("<select><option>a<option>b<optgroup><option>c"),
        "select(option(\"a\")option(\"b\")optgroup(option(\"c\")))"
    );
    assert_eq!(body("<select><div><b>x</b></div></select>y"), "select(div(b(\"x\")))\"y\"");
    assert_eq!(body("<select><p>x<input>y"), "select(p(\"x\"))input\"y\"");
}

#[test]
fn fragments_depend_on_their_context() {
    assert_eq!(fragment("<td>x", "tr"), "td(\"x\")");
    assert_eq!(fragment("<td>x", "div"), "\"x\"");
    assert_eq!(fragment("a<b>c</title>", "title"), "\"a<b>c</title>\"");
    assert_eq!(fragment("<tr><td>x", "template"), "tr(td(\"x\"))");
    assert_eq!(fragment("<form>x", "form"), "\"x\"");
    let path = Document::parse_fragment("<g/><p>x".to_owned(), "svg", Namespace::Svg);
    assert_eq!(outline(&path), "svg:g p(\"x\")");
}

#[test]
fn newlines_are_normalized_in_place() {
    for (given, wanted) in [
        ("a\r\nb\rc\n\r\r\nd", "a\nb\nc\n\n\nd"),
        ("\r", "\n"),
        ("x", "x"),
        ("\r\n\r\n", "\n\n"),
        ("é\r\nü\r", "é\nü\n"),
    ] {
        assert_eq!(normalize_newlines(given.to_owned()), wanted, "{given:?}");
    }
    assert_eq!(body("<p title='a\r\nb'>\r\nc&#13;"), "p[title=a\nb](\"\\nc\\r\")");
}

#[test]
fn what_a_page_says_about_itself() {
    let doc = Document::parse(
        "<base target=x><base href=a/><base href=b><title> A \n <b>&amp; B</title><svg><base href=s><title>C"
            .to_owned(),
    );
    assert_eq!(doc.title().as_deref(), Some("A <b>& B"));
    assert_eq!(doc.base_href(), Some("a/"));
    assert_eq!(Document::parse("<title> </title>".to_owned()).title(), None);
    assert_eq!(
        Document::parse("<svg><title>x".to_owned()).title(),
        None,
        "an image's title is not the page's"
    );
    let doc = Document::parse(
        "<p>a<script>b</script><noscript>c</noscript><i>d</i><template>e</template>".to_owned(),
    );
    assert_eq!(doc.visible_text(NodeId(0)), "ad");
    assert_eq!(doc.string_value(NodeId(0)), "abcde");
}

#[test]
fn bytes_are_decoded_and_a_mark_is_no_text() {
    let doc = Document::parse_bytes(b"<meta charset=latin1><p>\xE9", None);
    assert_eq!(doc.string_value(NodeId(0)), "é");
    assert_eq!(page("\u{FEFF}<!doctype html>"), "<html>html(head body)");
    let doc = Document::parse_bytes(b"\xFF\xFE<\0p\0>\0x\0y", Some("text/html"));
    assert_eq!(doc.string_value(NodeId(0)), "x\u{FFFD}", "half a UTF-16 unit");
}

#[test]
fn budgets_end_parsing_and_are_told() {
    let doc = Document::parse_limited("<p>ab".to_owned(), 4);
    assert_eq!((doc.truncated(), doc.string_value(NodeId(0))), (Some(Budget::SourceBytes), "a"));
    let formats: String = (0..500).map(|n| format!("<b id={n}>")).collect();
    let doc = Document::parse(format!("<p>{formats}{}", "<p>x".repeat(2_000)));
    assert_eq!(doc.truncated(), Some(Budget::Formatting));
    assert!(doc.node_count() < 60_000);
    assert_eq!(doc.string_value(NodeId(0)).len(), 2_000, "the page is read to its end");
    assert_eq!(Document::parse("<p>".repeat(1_000)).truncated(), None);
}

#[test]
fn texts_that_come_to_touch_are_one_node() {
    // The adoption agency takes the <a> from between two texts.
    for source in
        ["<table>a<b>b</b>c<tr>d", "<b>1<i>2<p>3</b>4", "<a>x<p>y<a>z", "<table><a>1<p>2</a>3<p>4</table>5"]
    {
        let doc = Document::parse(source.to_owned());
        for node in doc.descendants(NodeId(0)).filter(|node| doc.is_text(*node)) {
            let next = doc.next_sibling(node);
            assert!(!next.is_some_and(|next| doc.is_text(next)), "{source}: {}", outline(&doc));
        }
    }
}

/// What fuzzing found.
#[test]
fn white_space_after_a_frameset_page_reopens_formatting() {
    assert_eq!(page("<d><em><frameset></frameset></html> "), "html(head frameset em(\" \"))");
}
