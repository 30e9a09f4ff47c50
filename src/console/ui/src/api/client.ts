// The API as typed calls. The session's cookie goes along by itself and counts because of the header; nothing that could be
// used as a credential is ever held here.
import { signal } from "@preact/signals";
import type { Calls } from "../generated/api";

/** The paths of operations, in templates as the reference has them. */
type Call = keyof Calls;
type OfCall<C extends Call> = Calls[C];
type Named<P extends string> = P extends `${string}{${infer N}}${infer R}` ? { [K in N]: string } & Named<R> : unknown;

interface Options<C extends Call> {
  path?: Named<C> & Record<string, string>;
  query?: OfCall<C>["query"];
  body?: OfCall<C>["body"];
  signal?: AbortSignal;
}

/** What the box refused, in its own words. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly code: string,
    readonly requestId: string,
  ) {
    super(detail ? `${title}: ${detail}` : title);
  }
}

/** Grows whenever the session ended: who is signed in is asked anew, and what was typed stays. */
export const sessionEnded = signal(false);
/** What the window tells when a session that had ended goes on: what failed meanwhile is asked again. */
export const SIGNED_IN_AGAIN = "signed-in-again";

const HEADERS = { "x-gleaner-session": "1" };

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

async function refusal(response: Response): Promise<ApiError> {
  const requestId = response.headers.get("x-request-id") ?? "";
  let title = response.statusText || `Status ${response.status}`;
  let [detail, code] = ["", ""];
  try {
    const json: unknown = await response.json();
    if (json && typeof json === "object" && "error" in json) {
      const error: unknown = json.error;
      if (error && typeof error === "object") {
        if ("message" in error) title = text(error.message);
        if ("code" in error) code = text(error.code);
      } else {
        title = text(error);
      }
      if ("message" in json) detail = text(json.message);
    }
  } catch {
    // Not JSON: a proxy's page, perhaps.
  }
  return new ApiError(response.status, title, detail, code, requestId);
}

/** Sends a request to this box. A network that does not answer is an error like any other. */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, credentials: "same-origin", headers: { ...HEADERS, ...init.headers } });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The box does not answer", "Check that it runs and that the network leads to it.", "offline", "");
  }
  if (response.ok) return response;
  if (response.status === 401 && !path.startsWith("console/")) sessionEnded.value = true;
  throw await refusal(response);
}

function address(call: string, path: Record<string, string> | undefined, query: object | undefined): string {
  const filled = call.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(path?.[name] ?? ""));
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") asked.append(name, String(one));
    }
  }
  const questions = asked.toString();
  return filled.slice(1) + (questions ? `?${questions}` : "");
}

/** Calls an operation by its method and path. */
export async function api<C extends Call>(call: C, options: Options<C> = {}): Promise<OfCall<C>["answer"]> {
  const [method = "GET", template = ""] = call.split(" ");
  // Said, because events are a stream to whoever takes anything.
  const headers: Record<string, string> = { accept: "application/json" };
  const init: RequestInit = { method, signal: options.signal ?? null, headers };
  if (options.body !== undefined) {
    init.body = JSON.stringify(options.body);
    headers["content-type"] = "application/json";
  }
  const response = await send(address(template, options.path, options.query), init);
  return response.status === 204 ? (undefined as OfCall<C>["answer"]) : await response.json();
}

/** Begins a session in this browser. */
export async function beginSession(shown: { email: string; password: string } | { refreshToken: string }): Promise<void> {
  const headers = { "content-type": "application/json" };
  await send("console/session", { method: "POST", body: JSON.stringify(shown), headers });
}

/** Sign-in with the company's accounts: what stands on its button, if there is one. */
export interface ProviderView {
  label: string | null;
  hidesPasswords: boolean;
}

export async function aboutProvider(signal: AbortSignal): Promise<ProviderView> {
  return (await send("console/session/oidc", { signal })).json();
}

/** Where a sign-in with the company's account begins, to come back to where one is. */
export function providerSignIn(): string {
  return `console/session/oidc/begin?to=${encodeURIComponent(location.hash.replace(/^#/, "") || "/")}`;
}

/** Ends the session, and the company's own where that was the way in: then the window goes there. */
export async function endSession(): Promise<void> {
  const ended: { leadTo: string | null } = await (await send("console/session/oidc", { method: "DELETE" })).json();
  // The draft of a statement is nobody else's.
  sessionStorage.clear();
  if (ended.leadTo) location.assign(ended.leadTo);
}

/** An address that the box gave, at the host by which this page reaches it. */
export function local(address: string): string {
  const { pathname, search } = new URL(address, location.href);
  return pathname + search;
}

/** What went wrong, as one sentence for a person. */
export function said(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
