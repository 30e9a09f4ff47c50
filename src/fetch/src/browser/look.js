(() => {
  // Writes the page out, unless it is larger than a page may be. What the page itself names cannot stand in the way: only
  // the prototypes of this world are asked.
  const max = BYTES_MAX;
  const { createTreeWalker } = Document.prototype;
  const { getAttribute, getAttributeNames } = Element.prototype;
  // How long it is at least, so that nothing of several times that length is made only to be thrown away.
  let least = 0;
  const nodes = createTreeWalker.call(document, document, NodeFilter.SHOW_ALL);
  for (let node = nodes.nextNode(); node && least <= max; node = nodes.nextNode()) {
    if (node instanceof Element) {
      least += 4;
      for (const name of getAttributeNames.call(node)) {
        least += name.length + getAttribute.call(node, name).length + 4;
      }
    } else {
      least += node.nodeValue?.length ?? 0;
    }
  }
  let html = null;
  if (least <= max) {
    const doctype = document.doctype ? new XMLSerializer().serializeToString(document.doctype) : '';
    html = doctype + (document.documentElement ? document.documentElement.outerHTML : '');
    const isTooLarge = html.length > max || (html.length * 3 > max && new TextEncoder().encode(html).length > max);
    // Half surrogates, which JSON cannot carry, are replaced.
    html = isTooLarge ? null : html.toWellFormed();
  }
  return { at: location.href, html };
})()
