use crate::html::tests::body;

#[test]
fn attributes_in_every_notation() {
    assert_eq!(body("<p a b=1 c='2' d=\"3\" e = 4 F=G a=5>"), "p[a=][b=1][c=2][d=3][e=4][f=G]");
    assert_eq!(body("<p a=&amp;&lt b='&copy=1' c=\"x&amp;y\">"), "p[a=&<][b=&copy=1][c=x&y]");
    assert_eq!(body("<p =x a=1 =y=2>"), "p[=x=][a=1][=y=2]");
    assert_eq!(body("<p a=b/><i/x>"), "p[a=b/](i[x=])");
    assert_eq!(body("<p a=''b='c'>"), "p[a=][b=c]");
    assert_eq!(body("<p a=>x"), "p[a=](\"x\")");
    assert_eq!(body("<p \0=\0>"), "p[\u{FFFD}=\u{FFFD}]");
    assert_eq!(body("<p a='x"), "", "a tag that never ends is dropped");
    assert_eq!(body("x</p a='>'>y"), "\"x\"p\"y\"");
}

#[test]
fn text_keeps_what_is_no_markup() {
    assert_eq!(body("a < b <3 </ >&<"), "\"a < b <3 \"! !\"&<\"");
    assert_eq!(body("1 &lt; 2 &&amp; &x; &#65"), "\"1 < 2 && &x; A\"");
    assert_eq!(body("a\0b"), "\"ab\"");
    assert_eq!(body("a</>b"), "\"ab\"");
    assert_eq!(body("x</"), "\"x</\"");
}

#[test]
fn comments_end_as_browsers_end_them() {
    for (source, wanted) in [
        ("<!--a-->b", "!a!\"b\""),
        ("<!-->b", "!!\"b\""),
        ("<!--->b", "!!\"b\""),
        ("<!--a--!>b", "!a!\"b\""),
        ("<!--a--b-->c", "!a--b!\"c\""),
        ("<!--a---->c", "!a--!\"c\""),
        ("<!--a", "!a!"),
        ("<!--a-", "!a!"),
        ("<!--a--", "!a!"),
        ("<!--a--!", "!a!"),
        ("<!--\0-->", "!\u{FFFD}!"),
        ("<!x>y", "!x!\"y\""),
        ("</?x>y", "!?x!\"y\""),
    ] {
        assert_eq!(body(&format!("<p>{source}")), format!("p({wanted})"), "{source}");
    }
}

#[test]
fn processing_instructions_since_june_2026() {
    for (source, wanted) in [
        ("<?a>", "?a ?"),
        ("<?a?>", "?a ?"),
        ("<?a   b c?>", "?a b c?"),
        ("<?a?b>", "?a ?b?"),
        ("<?a b??>", "?a b??"),
        ("<?A_b-1 x>y", "?A_b-1 x?\"y\""),
        ("<?xml version='1.0'?>", "!?xml version='1.0'?!"),
        ("<?XML-stylesheet>", "!?XML-stylesheet!"),
        ("<?xmlx>", "?xmlx ?"),
        ("<?1>", "!?1!"),
        ("<?a$b>", "!?a$b!"),
        ("<?é>", "!?é!"),
        ("x<?a", "\"x\""),
        ("x<?a b?", "\"x\""),
        ("x<?", "\"x\""),
        ("<? ", "!? !"),
    ] {
        assert_eq!(body(&format!("<p>{source}")), format!("p({wanted})"), "{source}");
    }
}

#[test]
fn scripts_end_where_they_should() {
    for (source, wanted) in [
        ("a</script>b", "script(\"a\")\"b\""),
        ("a</SCRIPT x>b", "script(\"a\")\"b\""),
        ("a</scripty></script>b", "script(\"a</scripty>\")\"b\""),
        ("<!--<script></script>--></script>b", "script(\"<!--<script></script>-->\")\"b\""),
        ("<!--<script></script></script>b", "script(\"<!--<script></script>\")\"b\""),
        ("<!--x</script>b", "script(\"<!--x\")\"b\""),
        ("<!--><script></script>b", "script(\"<!--><script>\")\"b\""),
        ("<script></script>b", "script(\"<script>\")\"b\""),
        ("&amp;</script>b", "script(\"&amp;\")\"b\""),
        ("a</script", "script(\"a</script\")"),
        ("a</script x", "script(\"a\")"),
    ] {
        assert_eq!(body(&format!("<p><script>{source}")), format!("p({wanted})"), "{source}");
    }
}

#[test]
fn raw_text_and_rcdata() {
    assert_eq!(body("<p><style>a&amp;<b></style>c"), "p(style(\"a&amp;<b>\")\"c\")");
    assert_eq!(body("<textarea>a&amp;<b></textarea>c"), "textarea(\"a&<b>\")\"c\"");
    assert_eq!(body("<xmp>\0</xmp>"), "xmp(\"\u{FFFD}\")");
    assert_eq!(body("<plaintext>a</plaintext>"), "plaintext(\"a</plaintext>\")");
    assert_eq!(body("<iframe><p></iframe>x"), "iframe(\"<p>\")\"x\"");
}
