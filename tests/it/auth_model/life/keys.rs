//! What people do with keys in a life: made in the browser and by other keys, used, deleted.

use super::*;

impl Life {
    pub(super) async fn use_key(&mut self) {
        let at = self.random.below(self.model.keys.len());
        let verdict = self.model.key(at, self.way.clock.now());
        if verdict == Verdict::Unclear {
            return;
        }
        let client = self.bearer(&self.model.keys[at].text);
        let may = self.model.key_permissions(at).contains(Permission::OrgRead);
        let (current, members) =
            if verdict == Verdict::Dead { (401, 401) } else { (200, if may { 200 } else { 403 }) };
        let reply = client.get(CURRENT).await.unwrap();
        self.expect(reply, current, &format!("key {at} at {CURRENT}"));
        let reply = client.get(MEMBERS).await.unwrap();
        self.expect(reply, members, &format!("key {at} at {MEMBERS}"));
    }

    /// A new key by somebody's access token.
    pub(super) async fn make_key_in_browser(&mut self) {
        let at = self.some_access();
        let Some((client, person, what)) = self.access(at) else { return };
        let alive = self.model.access(at, self.way.clock.now()) == Verdict::Alive;
        let status = self.status(alive, person, Some(Permission::OrgWrite), 201);
        if status == 201 {
            self.make_key(&client, person, None, self.model.permissions(person)).await;
        } else {
            let reply = self.post(&client, KEYS, json!({ "name": "never" })).await;
            self.expect(reply, status, &format!("{what} makes a key"));
        }
    }

    /// A new key by a key, which allows no more than that one does.
    pub(super) async fn make_key_by_key(&mut self) {
        let at = self.random.below(self.model.keys.len());
        let maker = self.model.keys[at].maker;
        let allowed = self.model.key_permissions(at);
        let client = self.bearer(&self.model.keys[at].text);
        match self.model.key(at, self.way.clock.now()) {
            Verdict::Unclear => {}
            Verdict::Alive if allowed.contains(Permission::OrgWrite) => {
                self.make_key(&client, maker, Some(at), allowed).await;
            }
            verdict => {
                let reply = self.post(&client, KEYS, json!({ "name": "never" })).await;
                let status = if verdict == Verdict::Alive { 403 } else { 401 };
                self.expect(reply, status, &format!("key {at} makes a key"));
            }
        }
    }

    /// Makes a key with some of the permissions that its maker `held`, and perhaps an end.
    pub(super) async fn make_key(
        &mut self,
        client: &Client,
        maker: usize,
        by: Option<usize>,
        held: Permissions,
    ) {
        let mut body = json!({ "name": "made" });
        let mut allowed = held;
        let is_root = self.model.keys.is_empty();
        if !is_root && self.random.below(2) == 0 {
            let some: Vec<_> = held.iter().filter(|_| self.random.below(3) > 0).collect();
            if !some.is_empty() {
                allowed = Permissions::of(some);
                body["permissions"] = json!(allowed.names());
            }
        }
        let ends = [None, None, Some(600), Some(5_400), Some(200_000)];
        let end = if is_root { None } else { ends[self.random.below(ends.len())] };
        let end = end.map(|secs| self.way.clock.now().after(Duration::from_secs(secs)));
        if let Some(end) = end {
            body["expiresAt"] = json!(end.to_string());
        }
        let reply = self.post(client, KEYS, body).await;
        let made = self.expect(reply, 201, &format!("person {maker} makes a key by {by:?}"));
        let (id, secret) = (text(&made["apiKey"], "id").to_owned(), text(&made, "secret").to_owned());
        self.add_key(maker, id, secret, allowed, end);
    }

    pub(super) fn add_key(
        &mut self,
        maker: usize,
        id: String,
        text: String,
        allowed: Permissions,
        end: Option<Timestamp>,
    ) {
        self.model.keys.push(crate::auth_model::model::ApiKey { maker, id, text, allowed, end, kept: true });
    }

    pub(super) async fn delete_key(&mut self) {
        let at = self.random.below(self.model.keys.len());
        if at == ROOT {
            return;
        }
        let path = format!("{KEYS}/{}", self.model.keys[at].id);
        let reply = self.root().delete(&path).await.unwrap();
        self.expect(reply, if self.model.keys[at].kept { 204 } else { 404 }, &format!("key {at} is deleted"));
        self.model.keys[at].kept = false;
        self.look();
    }

    pub(super) fn living_keys(&self, person: usize) -> usize {
        let now = self.way.clock.now();
        let of = |at: &usize| self.model.keys[*at].maker == person;
        (0..self.model.keys.len()).filter(of).filter(|at| self.model.key(*at, now) == Verdict::Alive).count()
    }
}
