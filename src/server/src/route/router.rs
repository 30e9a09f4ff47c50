//! Finds the route of a path: a trie of segments, walked without allocating.
//!
//! A literal segment beats a variable; where the literal leads nowhere, the variable is tried. The table is checked
//! when it is built, so a wrong one never serves: a duplicate route or operation id, two names for one variable, or a
//! handler whose inputs do not fit its path panic at start.

use crate::metrics::{Metrics, RouteMetrics};
use crate::route::table::{Route, RouteGroup, mounted};
use crate::spec::captures::{Captures, VARIABLES_MAX, decode};
use crate::spec::mount::{self, Mount};
use crate::spec::route::Verb;
use http::{HeaderValue, Method};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A route found, with what the request needs of it.
pub struct MatchedRoute {
    pub(crate) route: &'static Route,
    pub(crate) mount: &'static Mount,
    pub(crate) captures: Captures,
    pub(crate) metrics: Arc<RouteMetrics>,
}

/// What became of a look-up.
pub enum RouteLookup<'a> {
    Route(MatchedRoute),
    /// The path is known, the method is not its.
    OtherMethod {
        allow: &'a HeaderValue,
    },
    Nothing,
}

#[derive(Default)]
struct TrieNode {
    literals: Vec<(&'static str, usize)>,
    variable: Option<usize>,
    leaf: Option<TrieLeaf>,
}

struct TrieLeaf {
    entries: [Option<RouteEntry>; Verb::ALL.len()],
    allow: HeaderValue,
}

struct RouteEntry {
    route: &'static Route,
    mount: &'static Mount,
    metrics: Arc<RouteMetrics>,
}

/// The route table, ready to be asked.
pub struct Router {
    nodes: Vec<TrieNode>,
    mounts: Vec<&'static Mount>,
}

impl Router {
    /// Builds and checks the table.
    ///
    /// # Panics
    /// On a table that contradicts itself; see the module's page.
    pub fn build(groups: &[RouteGroup], metrics: &Metrics) -> Router {
        let mounts = groups.iter().filter_map(|group| group.mount).collect();
        let mut router = Router { nodes: vec![TrieNode::default()], mounts };
        let mut ids = BTreeSet::new();
        let mut shapes = BTreeMap::new();
        for (_, route, mount) in mounted(groups) {
            assert!(ids.insert(route.id()), "operation id {} is used twice", route.id());
            assert!(route.path().starts_with('/'), "{} does not begin with a slash", route.path());
            let names: Vec<_> = route.variables().collect();
            assert!(names.len() <= VARIABLES_MAX, "{} has too many variables", route.path());
            let shape: Vec<_> =
                route.path().split('/').map(|s| if s.starts_with('{') { "{}" } else { s }).collect();
            let first = shapes.entry(shape).or_insert(route.path());
            assert!(*first == route.path(), "{} and {first} are one path with two namings", route.path());
            router.insert(route, mount, metrics.route(route.method(), route.path()));
        }
        router
    }

    /// The mount of any path, routed or not.
    pub fn mount(&self, path: &str) -> &'static Mount {
        mount::of(path, self.mounts.iter().copied())
    }

    fn insert(&mut self, route: &'static Route, mount: &'static Mount, metrics: Arc<RouteMetrics>) {
        let mut at = 0;
        for segment in route.path().trim_start_matches('/').split('/').filter(|segment| !segment.is_empty()) {
            let next = self.nodes.len();
            let node = &mut self.nodes[at];
            at = if segment.starts_with('{') {
                *node.variable.get_or_insert(next)
            } else if let Some((_, child)) = node.literals.iter().find(|(text, _)| *text == segment) {
                *child
            } else {
                node.literals.push((segment, next));
                next
            };
            if at == next {
                self.nodes.push(TrieNode::default());
            }
        }
        let leaf = self.nodes[at].leaf.get_or_insert_with(|| TrieLeaf {
            entries: Default::default(),
            allow: HeaderValue::from_static(""),
        });
        let slot = &mut leaf.entries[route.verb() as usize];
        assert!(slot.is_none(), "{} {} is routed twice", route.method(), route.path());
        *slot = Some(RouteEntry { route, mount, metrics });
        let mut allow: Vec<_> = leaf.entries.iter().flatten().map(|entry| entry.route.method()).collect();
        if leaf.entries[Verb::Get as usize].is_some() {
            allow.push("HEAD");
        }
        allow.push("OPTIONS");
        leaf.allow = HeaderValue::from_str(&allow.join(", ")).expect("method names are header text");
    }

    /// The route of a path as it stands in the request line, still percent-encoded.
    pub fn find(&self, method: &Method, path: &str) -> RouteLookup<'_> {
        let mut captures = Captures::default();
        let Some(leaf) = path.strip_prefix('/').and_then(|_| self.walk(0, path, 1, &mut captures)) else {
            return RouteLookup::Nothing;
        };
        match Verb::of(method).and_then(|verb| leaf.entries[verb as usize].as_ref()) {
            Some(entry) => {
                let (route, mount, metrics) = (entry.route, entry.mount, Arc::clone(&entry.metrics));
                RouteLookup::Route(MatchedRoute { route, mount, captures, metrics })
            }
            None => RouteLookup::OtherMethod { allow: &leaf.allow },
        }
    }

    /// Walks from node `at` on; `start` is where the next segment begins.
    fn walk(&self, at: usize, path: &str, start: usize, captures: &mut Captures) -> Option<&TrieLeaf> {
        let node = &self.nodes[at];
        if start > path.len() || (at == 0 && path.len() == 1) {
            return node.leaf.as_ref();
        }
        let rest = &path[start..];
        let end = start + rest.find('/').unwrap_or(rest.len());
        let segment = decode(&path[start..end])?;
        if segment.is_empty() {
            return None;
        }
        if let Some((_, child)) = node.literals.iter().find(|(text, _)| *text == segment)
            && let Some(leaf) = self.walk(*child, path, end + 1, captures)
        {
            return Some(leaf);
        }
        let child = node.variable?;
        let before = captures.len();
        captures.push(start, end)?;
        let leaf = self.walk(child, path, end + 1, captures);
        if leaf.is_none() {
            captures.truncate(before);
        }
        leaf
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::gate::Anonymous;
    use crate::route::output::NoContent;
    use crate::route::table::Handler;
    use base::Result;

    async fn nothing(_: Anonymous) -> Result<NoContent> {
        Ok(NoContent)
    }

    static TABLE: &[Route] = &[
        Route::get("/", "root", &Handler::new(nothing)),
        Route::get("/a/runs", "runs", &Handler::new(nothing)),
        Route::get("/a/{id}", "get", &Handler::new(nothing)),
        Route::put("/a/{id}", "put", &Handler::new(nothing)),
        Route::get("/a/{id}/preview", "preview", &Handler::new(nothing)),
        Route::get("/a/{id}/b/{other}", "pair", &Handler::new(nothing)),
    ];

    fn id_of(method: &Method, path: &str) -> String {
        match Router::build(&[RouteGroup::new("t", TABLE)], &Metrics::new()).find(method, path) {
            RouteLookup::Route(matched) => {
                let values: Vec<_> =
                    (0..VARIABLES_MAX).map_while(|i| matched.captures.get(path, i)).collect();
                format!("{} {}", matched.route.id(), values.join(","))
            }
            RouteLookup::OtherMethod { allow } => allow.to_str().unwrap().to_owned(),
            RouteLookup::Nothing => "-".to_owned(),
        }
    }

    #[test]
    fn a_literal_beats_a_variable_and_gives_way_where_it_leads_nowhere() {
        assert_eq!(id_of(&Method::GET, "/"), "root ");
        assert_eq!(id_of(&Method::GET, "/a/runs"), "runs ");
        assert_eq!(id_of(&Method::GET, "/a/r%75ns"), "runs ");
        assert_eq!(id_of(&Method::GET, "/a/x%2Fy"), "get x/y");
        assert_eq!(id_of(&Method::GET, "/a/runs/preview"), "preview runs");
        assert_eq!(id_of(&Method::GET, "/a/1/b/2"), "pair 1,2");
        assert_eq!(id_of(&Method::POST, "/a/1"), "GET, PUT, HEAD, OPTIONS");
        assert_eq!(id_of(&Method::HEAD, "/a/1"), "get 1");
    }

    #[test]
    fn broken_paths_are_not_found() {
        for path in
            ["/a", "/a/", "//a/1", "/a//preview", "/a/1/", "/a/%zz", "/a/%f", "/a/%ff", "*", "", "/a/1/b/2/c"]
        {
            assert_eq!(id_of(&Method::GET, path), "-", "{path}");
        }
    }

    #[test]
    #[should_panic(expected = "routed twice")]
    fn a_duplicate_route_does_not_start() {
        static TWICE: &[Route] = &[
            Route::get("/a", "one", &Handler::new(nothing)),
            Route::get("/a", "two", &Handler::new(nothing)),
        ];
        Router::build(&[RouteGroup::new("t", TWICE)], &Metrics::new());
    }

    #[test]
    #[should_panic(expected = "two namings")]
    fn a_variable_has_one_name() {
        static NAMES: &[Route] = &[
            Route::get("/a/{id}", "one", &Handler::new(nothing)),
            Route::put("/a/{key}", "two", &Handler::new(nothing)),
        ];
        Router::build(&[RouteGroup::new("t", NAMES)], &Metrics::new());
    }
}
