// What the whole console shares: who is signed in, the theme, messages, and where one is.
import { computed, effect, signal } from "@preact/signals";
import { api, ApiError, sessionEnded, SIGNED_IN_AGAIN } from "../api/client";
import type { MeView } from "../generated/api";

export type Theme = "auto" | "light" | "dark";

/** Undefined while it is asked, null for nobody. */
export const me = signal<MeView | null | undefined>(undefined);
export const theme = signal<Theme>(storedTheme());
export const palette = signal(false);
/** Where one is: what stands behind the # of the address. */
export const place = signal(currentPlace());

export interface Toast {
  id: number;
  text: string;
  bad: boolean;
}
export const toasts = signal<Toast[]>([]);
let toastCount = 0;

function storedTheme(): Theme {
  const stored = localStorage.getItem("theme");
  return stored === "light" || stored === "dark" ? stored : "auto";
}

function currentPlace(): string {
  return location.hash.replace(/^#/, "") || "/";
}

const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
const systemTheme = signal(systemIsDark.matches);
systemIsDark.addEventListener("change", () => (systemTheme.value = systemIsDark.matches));
/** The theme that is drawn. */
export const drawnTheme = computed(() => (theme.value === "auto" ? (systemTheme.value ? "dark" : "light") : theme.value));

effect(() => {
  document.documentElement.dataset.theme = drawnTheme.value;
  if (theme.value === "auto") localStorage.removeItem("theme");
  else localStorage.setItem("theme", theme.value);
});

window.addEventListener("hashchange", () => {
  place.value = currentPlace();
});

/** What a percent code stands for; the text itself where it is none, because anybody writes links. */
export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The path of the place and what is asked there. */
export const here = computed(() => {
  const [path = "/", query = ""] = place.value.split("?");
  return { path, parts: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
});

export function go(to: string): void {
  location.hash = to;
}

/** Goes there in the place of where one is. */
export function instead(to: string): void {
  history.replaceState(null, "", `#${to}`);
  place.value = currentPlace();
}

/** Changes what is asked at this place, without a step in the history. */
export function ask(changes: Record<string, string | undefined>): void {
  const query = new URLSearchParams(here.value.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  instead(`${here.value.path}${text ? `?${text}` : ""}`);
}

export function toast(text: string, bad = false): void {
  const id = ++toastCount;
  toasts.value = [...toasts.value, { id, text, bad }].slice(-4);
  setTimeout(() => dismiss(id), bad ? 9_000 : 4_000);
}

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((one) => one.id !== id);
}

export function may(permission: string): boolean {
  return me.value?.permissions.includes(permission) ?? false;
}

/** Whether this is somebody else, or another organization's, than views were drawn for. */
function isAnother(before: MeView | null | undefined, now: MeView): boolean {
  if (!before) return false;
  return before.user.id !== now.user.id || Boolean(before.organization && now.organization && before.organization.id !== now.organization.id);
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden || !me.value) return;
  api("GET /api/v1/auth/me").then((now) => isAnother(me.value, now) && location.reload(), () => undefined);
});

/** Whose drafts this tab keeps. */
const DRAFTS_OF = "drafts.of";

/** A session that ended leaves drafts in the tab: they stay for the same person, and are for nobody else to see. */
function keepDraftsOf(user: string): void {
  if ((sessionStorage.getItem(DRAFTS_OF) ?? user) !== user) sessionStorage.clear();
  sessionStorage.setItem(DRAFTS_OF, user);
}

/** Asks who is signed in. */
export async function whoAmI(): Promise<void> {
  try {
    const now = await api("GET /api/v1/auth/me");
    keepDraftsOf(now.user.id);
    // Another tab signed somebody else in: what is shown, and what was typed, is not theirs.
    if (isAnother(me.value, now)) return location.reload();
    const isBack = sessionEnded.value;
    me.value = now;
    sessionEnded.value = false;
    if (isBack) window.dispatchEvent(new Event(SIGNED_IN_AGAIN));
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      me.value = null;
      sessionEnded.value = false;
      return;
    }
    throw error;
  }
}
