// A real provider (npm oidc-provider) on loopback, whose people come by without a form: who it is says POST /control.
import http from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const require = createRequire(join(process.cwd(), "package.json"));
const { Provider } = await import(pathToFileURL(require.resolve("oidc-provider")).href);
const { generateKeyPairSync } = await import("node:crypto");

const jwk = (id, use, kind, options) => ({ ...generateKeyPairSync(kind, options).privateKey.export({ format: "jwk" }), kid: id, use });
const jwks = {
  keys: [
    jwk("rsa", "sig", "rsa", { modulusLength: 2048 }),
    jwk("ec", "sig", "ec", { namedCurve: "P-256" }),
    jwk("ed", "sig", "ed25519", {}),
  ],
};

let account = { sub: "ada", groups: [] };
let provider;
let handle;

function build(issuer, { box, alg, auth }) {
  provider = new Provider(issuer, {
    jwks,
    clients: [
      {
        client_id: "gleaner",
        client_secret: "a secret: of the tests & more",
        token_endpoint_auth_method: auth,
        redirect_uris: [`${box}/console/session/oidc/callback`],
        post_logout_redirect_uris: [`${box}/console`],
        backchannel_logout_uri: `${box}/console/session/oidc/ended`,
        backchannel_logout_session_required: true,
        id_token_signed_response_alg: alg,
      },
    ],
    clientAuthMethods: [auth],
    enabledJWA: { idTokenSigningAlgValues: ["RS256", "PS256", "ES256", "EdDSA"] },
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name", "groups"] },
    features: {
      devInteractions: { enabled: false },
      backchannelLogout: { enabled: true },
      rpInitiatedLogout: {
        // Nobody is asked.
        logoutSource: (ctx, form) => {
          ctx.body = `<!doctype html>${form}<script>document.forms[0].insertAdjacentHTML("beforeend", '<input type="hidden" name="logout" value="yes">');document.forms[0].submit()</script>`;
        },
      },
    },
    pkce: { required: () => true },
    cookies: { keys: ["of the tests"] },
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@acme.example`, email_verified: true, name: `Person ${id}`, groups: account.groups }),
    }),
    loadExistingGrant: async (ctx) => {
      const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
      grant.addOIDCScope("openid email profile");
      await grant.save();
      return grant;
    },
  });
  provider.on("server_error", (_, error) => console.error(error));
  handle = provider.callback();
}

const server = http.createServer(async (request, response) => {
  try {
    if (request.url === "/control") {
      let text = "";
      for await (const chunk of request) text += chunk;
      const told = JSON.parse(text);
      if (told.account) account = told.account;
      if (told.box) build(`http://127.0.0.1:${server.address().port}`, told);
      response.end("ok");
    } else if (!handle) {
      response.writeHead(503).end();
    } else if (request.url.startsWith("/interaction/")) {
      await provider.interactionDetails(request, response);
      const result = account.refused ? { error: "access_denied" } : { login: { accountId: account.sub } };
      await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
    } else {
      handle(request, response);
    }
  } catch (error) {
    console.error(error);
    response.writeHead(500).end(String(error));
  }
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
