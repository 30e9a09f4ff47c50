//! Pages for people: the reference, read from the OpenAPI document, the guides, and a page for every error code. Plain HTML without
//! scripts, so that they work in any browser and where there is no network. The pages that mailed links lead to have one
//! script, ours, which uses the link.

mod markdown;
pub(crate) mod pages;

use base::Code;
use base::escape::html as escape;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use markdown::render;
use pages::Guide;
use serde_json::Value;
use std::fmt::Write;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;\
background:#fff}code,pre{font-family:ui-monospace,monospace;background:#f4f4f4}pre{padding:.75rem;overflow:auto}\
table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.25rem .6rem;text-align:left;vertical-align:top}\
details{border-top:1px solid #ddd;padding:.4rem 0}summary{cursor:pointer}.m{display:inline-block;min-width:4.5rem;\
font-weight:600}.d{color:#555}@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}code,pre{\
background:#262626}a{color:#8bf}.d{color:#aaa}}";

fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>{}</title><style>{STYLE}</style></head>\
         <body>{body}</body></html>\n",
        escape(title)
    )
}

/// What a browser is shown at the box's address: where to go on. `prefix` is the path under which people reach the box,
/// here and below.
pub fn home(prefix: &str) -> String {
    let text = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/pages/home.html"));
    page("Gleaner", &text.replace("{prefix}", &escape(prefix)))
}

/// A page of a slice's.
pub fn page_of_slice(prefix: &str, title: &str, text: &str) -> String {
    page(title, &format!("<p>{}</p>{}", link(prefix, "/docs", "Reference"), render(text)))
}

/// A link to a place on the box.
fn link(prefix: &str, path: &str, label: &str) -> String {
    format!("<a href=\"{}{}\">{}</a>", escape(prefix), escape(path), escape(label))
}

const LINK_STYLE: &str = "<style>form{max-width:26rem}label{display:block;margin:.75rem 0}label[hidden]{display:none}\
input:not([type=radio]){display:block;width:100%;box-sizing:border-box;font:inherit;padding:.4rem}button{font:inherit;\
padding:.4rem 1.2rem}.bad{color:#b00020}.good{color:#14532d}@media(prefers-color-scheme:dark){.bad{color:#ff8a80}\
.good{color:#9be7a9}}</style>";

/// What a page may do that a mailed link leads to: run its own script, which may call this box, and nothing else.
pub fn link_policy(script: &str) -> HeaderValue {
    let hash = STANDARD.encode(ring::digest::digest(&ring::digest::SHA256, script.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; connect-src 'self'; \
         form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).expect("a policy is visible ASCII")
}

/// A page where the token of a mailed link is used, with its style and its script.
pub fn link_page(title: &str, content: &str, script: &str) -> String {
    page(title, &format!("{LINK_STYLE}{content}<script>{script}</script>"))
}

/// The page of one error code, or of several.
pub fn error_page(prefix: &str, code: &str, text: &str) -> String {
    let (reference, errors) = (link(prefix, "/docs", "Reference"), link(prefix, "/docs/errors", "Errors"));
    page(code, &format!("<p>{reference} · {errors}</p>{}", render(text)))
}

/// All error codes with their statuses and sentences.
pub fn error_index(prefix: &str) -> String {
    let mut body = format!("<p>{}</p><h1>Errors</h1><table>", link(prefix, "/docs", "Reference"));
    body.push_str("<tr><th>Status</th><th>Code</th><th>Meaning</th></tr>");
    for code in Code::ALL {
        let (status, name, sentence) = (code.status(), code.name(), escape(code.sentence()));
        let linked = format!("<a href=\"{}/docs/errors/{name}\"><code>{name}</code></a>", escape(prefix));
        let _ = write!(body, "<tr><td>{status}</td><td>{linked}</td><td>{sentence}</td></tr>");
    }
    body.push_str("</table>");
    page("Errors", &body)
}

/// A guide. Its links to other guides are by their files' names, so that they also lead there in a checkout.
pub fn guide(prefix: &str, guide: &Guide) -> String {
    let mut text = guide.text.to_owned();
    for Guide { name, .. } in pages::GUIDES {
        text = text.replace(&format!("]({name}.md"), &format!("]({prefix}/docs/{name}"));
    }
    page(guide.title(), &format!("<p>{}</p>{}", link(prefix, "/docs", "Reference"), render(&text)))
}

/// The guides in a list.
fn guides(prefix: &str) -> String {
    let mut list = String::from("<h2>Guides</h2><ul>");
    for guide in pages::GUIDES {
        let title = link(prefix, &format!("/docs/{}", guide.name), guide.title());
        let _ = write!(list, "<li>{title}: {}</li>", escape(guide.about));
    }
    list.push_str("</ul>");
    list
}

/// The guides and the list of operations.
pub fn reference(prefix: &str, document: &Value) -> String {
    let (json, errors) =
        (link(prefix, "/api/v1/openapi.json", "openapi.json"), link(prefix, "/docs/errors", "Errors"));
    let mut body = format!("<h1>Gleaner API</h1><p>{json} · {errors}</p>{}", guides(prefix));
    for tag in document["tags"].as_array().into_iter().flatten().filter_map(|tag| tag["name"].as_str()) {
        let _ = write!(body, "<h2>{}</h2>", escape(tag));
        for (path, methods) in document["paths"].as_object().into_iter().flatten() {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                if operation["tags"][0] == tag {
                    write_operation(&mut body, path, method, operation);
                }
            }
        }
    }
    body.push_str("<h2>Schemas</h2>");
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        let text = serde_json::to_string_pretty(schema).unwrap_or_default();
        let name = escape(name);
        let text = escape(&text);
        let _ = write!(
            body,
            "<details id=\"{name}\"><summary><code>{name}</code></summary><pre><code>{text}</code></pre></details>"
        );
    }
    page("Gleaner API", &body)
}

fn write_operation(body: &mut String, path: &str, method: &str, operation: &Value) {
    let text = |value: &Value| escape(value.as_str().unwrap_or_default());
    let _ = write!(
        body,
        "<details id=\"{id}\"><summary><span class=\"m\">{method}</span> <code>{path}</code> \
         <span class=\"d\">{summary}</span></summary><p>{description}</p>",
        id = text(&operation["operationId"]),
        method = escape(&method.to_uppercase()),
        path = escape(path),
        summary = text(&operation["summary"]),
        description = text(&operation["description"]),
    );
    if let Some(parameters) = operation["parameters"].as_array() {
        body.push_str("<table><tr><th>Parameter</th><th>In</th><th>Type</th><th></th></tr>");
        for parameter in parameters {
            let _ = write!(
                body,
                "<tr><td><code>{}</code></td><td>{}</td><td>{}</td><td>{}</td></tr>",
                text(&parameter["name"]),
                text(&parameter["in"]),
                kind(&parameter["schema"]),
                text(&parameter["description"])
            );
        }
        body.push_str("</table>");
    }
    if let Some(content) = operation["requestBody"]["content"].as_object() {
        for (media, content) in content {
            let _ = write!(body, "<p>Body: {} <code>{}</code></p>", kind(&content["schema"]), escape(media));
        }
    }
    body.push_str("<table><tr><th>Status</th><th>Body</th><th></th></tr>");
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let schema = response["content"].as_object().and_then(|content| content.values().next());
        let shape = schema.map(|content| kind(&content["schema"])).unwrap_or_default();
        let about = render(response["description"].as_str().unwrap_or_default());
        let _ = write!(body, "<tr><td>{}</td><td>{shape}</td><td>{about}</td></tr>", escape(status));
    }
    body.push_str("</table></details>");
}

/// A schema in a word, linked when it has a name.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        let name = escape(name);
        return format!("<a href=\"#{name}\">{name}</a>");
    }
    let format = schema["format"].as_str().map(|format| format!(" ({format})")).unwrap_or_default();
    let kind = match &schema["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ => String::new(),
    };
    escape(&format!("{kind}{format}"))
}
