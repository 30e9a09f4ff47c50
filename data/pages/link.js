// Uses the token behind the # of a link that was mailed. It is sent only when the person presses the button, so a program
// that opens links in mails uses nothing up.
(() => {
  const form = document.querySelector("form");
  const said = document.querySelector("[role=status]");
  const token = decodeURIComponent(location.hash.slice(1));
  const say = (text, bad) => {
    said.textContent = text;
    said.className = bad ? "bad" : "good";
  };
  const post = async (path, body, bearer) => {
    const headers = { "content-type": "application/json" };
    if (bearer) headers.authorization = "Bearer " + bearer;
    // Beside this page, which may stand below a path of a reverse proxy.
    const answer = await fetch("api/v1" + path, { method: "POST", headers, body: JSON.stringify(body) });
    const json = await answer.json();
    if (!answer.ok) throw new Error(json.message ? json.error + ": " + json.message : json.error);
    return json;
  };
  const uses = {
    "verify-email": async () => (await post("/auth/verify-email", { token })).message,
    "reset-password": async (field) => {
      if (field("password") !== field("again")) throw new Error("The two passwords are not the same.");
      return (await post("/auth/reset-password", { token, password: field("password") })).message;
    },
    invite: async (field) => {
      const person = { email: field("email"), password: field("password") };
      const login = field("account") === "new"
        ? await post("/auth/register", { ...person, name: field("name"), inviteToken: token })
        : await post("/auth/login", person);
      const joined = await post("/invites/accept", { token }, login.accessToken);
      return "You are a member of " + joined.organization.name + " now.";
    },
  };
  // Another link in the same tab changes nothing but what is behind the #.
  addEventListener("hashchange", () => location.reload());
  if (!token) {
    say("This page needs the whole link of the message, with everything behind the #.", true);
    return;
  }
  for (const choice of form.querySelectorAll("[name=account]")) {
    const follow = () => {
      const fresh = form.elements.account.value === "new";
      form.elements.name.required = fresh;
      form.elements.name.closest("label").hidden = !fresh;
      form.elements.password.autocomplete = fresh ? "new-password" : "current-password";
    };
    choice.addEventListener("change", follow);
    follow();
  }
  form.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    say("One moment …", false);
    try {
      const fields = new FormData(form);
      say(await uses[form.id]((name) => fields.get(name)), false);
      form.hidden = true;
    } catch (error) {
      say(error.message, true);
      button.disabled = false;
    }
  });
})();
