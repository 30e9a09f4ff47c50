use super::*;

/// `<a id=x class="p q p">one<b/>two</a><c class=q><!--no--></c>` by hand.
fn sample() -> Document {
    let source = "xp q ponetwonoq".to_owned();
    let mut builder = Builder::new(source.len());
    let (a, b, c) = (builder.names.intern("a"), builder.names.intern("b"), builder.names.intern("my-c"));
    builder.push_attribute(AttributeRow { name: names::ID, start: 0, end: 1 });
    builder.push_attribute(AttributeRow { name: names::CLASS, start: 1, end: 6 });
    let first = builder.create_element(a, Namespace::Html, 0..2);
    let second = builder.create_element(b, Namespace::Html, 2..2);
    builder.push_attribute(AttributeRow { name: names::CLASS, start: 14, end: 15 });
    let third = builder.create_element(c, Namespace::Svg, 2..3);
    // Appended out of order on purpose: document order is not creation order.
    builder.append(0, third);
    builder.insert_before(third, first);
    builder.append_text(first, 6, 9);
    builder.append(first, second);
    builder.append_text(first, 9, 10);
    builder.append_text(first, 10, 12);
    let comment = builder.create_comment(12, 14);
    builder.append(third, comment);
    builder.finish(source, 0)
}

#[test]
fn columns_follow_document_order() {
    let doc = sample();
    let kinds: Vec<NodeKind> = (0..doc.node_count() as u32).map(|n| doc.kind(NodeId(n))).collect();
    use NodeKind::{Comment, Element, Text};
    assert_eq!(kinds, [NodeKind::Document, Element, Text, Element, Text, Element, Comment]);
    assert_eq!(doc.subtree_end(NodeId(1)), NodeId(5));
    assert_eq!(doc.next_sibling(NodeId(1)), Some(NodeId(5)));
    assert_eq!(doc.prev_sibling(NodeId(5)), Some(NodeId(1)));
    assert_eq!(doc.last_child(NodeId(1)), Some(NodeId(4)));
    assert_eq!(doc.last_child(NodeId(0)), Some(NodeId(5)));
    assert_eq!(doc.first_child(NodeId(3)), None);
    assert_eq!(doc.parent(NodeId(6)), Some(NodeId(5)));
    assert_eq!(doc.next_sibling(NodeId(0)), None);
    assert_eq!(doc.children(NodeId(1)).count(), 3);
    assert_eq!(doc.text(NodeId(4)), "two", "adjacent text is one node");
    assert_eq!(doc.string_value(NodeId(0)), "onetwo");
    assert_eq!(doc.string_value(NodeId(1)), "onetwo");
    assert_eq!(doc.string_value(NodeId(5)), "", "comments are no string value");
}

#[test]
fn names_attributes_and_indexes() {
    let doc = sample();
    let class = doc.lookup_name("class").expect("class is used");
    assert_eq!(doc.attribute(NodeId(1), class), Some("p q p"));
    assert_eq!(doc.attribute_named(NodeId(5), "class"), Some("q"));
    assert_eq!(doc.attribute_named(NodeId(5), "nothing"), None);
    assert_eq!(doc.attr_owner(AttrId(2)), NodeId(5));
    assert_eq!(doc.namespace(NodeId(5)), Namespace::Svg);
    assert_eq!(doc.elements_with_class("q"), [NodeId(1), NodeId(5)]);
    assert_eq!(doc.elements_with_class("p"), [NodeId(1)]);
    assert_eq!(doc.elements_with_class("absent"), []);
    assert_eq!(doc.elements_with_id("x"), [NodeId(1)]);
    let own = doc.lookup_name("my-c").expect("interned");
    assert_eq!(doc.elements_named(own).collect::<Vec<_>>(), [NodeId(5)]);
    assert_eq!(doc.attribute_postings(class), [1, 2]);
}

#[test]
fn text_in_pieces_is_joined_in_order() {
    let source = "a1b2c3".to_owned();
    let mut builder = Builder::new(source.len());
    let name = builder.names.intern("x");
    let (first, second) = (
        builder.create_element(name, Namespace::Html, 0..0),
        builder.create_element(name, Namespace::Html, 0..0),
    );
    builder.append(0, first);
    builder.append(0, second);
    for at in 0..6 {
        builder.append_text(if at % 2 == 0 { first } else { second }, at, at + 1);
    }
    let doc = builder.finish(source, 0);
    assert_eq!(doc.string_value(NodeId(1)), "abc");
    assert_eq!(doc.string_value(NodeId(3)), "123");
}
