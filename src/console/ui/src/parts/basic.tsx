// The small parts of all views: buttons, fields, states, figures, times.
import type { ComponentChildren, JSX } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { said } from "../api/client";
import { toast } from "../app/state";
import type { RunView } from "../generated/api";

type Children = { children?: ComponentChildren };

export function Head({ title, about, children }: Children & { title: ComponentChildren; about?: ComponentChildren }) {
  return (
    <div class="head">
      <div class="what">
        <h1>{title}</h1>
        {about && <p title={typeof about === "string" ? about : undefined}>{about}</p>}
      </div>
      {children && <div class="row">{children}</div>}
    </div>
  );
}

export function Panel({ title, side, children, flush }: Children & { title?: ComponentChildren; side?: ComponentChildren; flush?: boolean }) {
  return (
    <section class="panel">
      {(title || side) && (
        <header>
          <h2>{title}</h2>
          <div class="row">{side}</div>
        </header>
      )}
      {flush ? children : <div class="inner">{children}</div>}
    </section>
  );
}

interface Doing {
  does: () => Promise<unknown>;
  kind?: "main" | "bad" | "bare" | undefined;
  small?: boolean;
  disabled?: boolean;
  /** What is asked before it is done. */
  sure?: string;
}

/** A button for work that takes a moment: it cannot be pressed twice, and what fails is said. */
export function Act({ does, kind, small, disabled, sure, children }: Children & Doing) {
  const [busy, setBusy] = useState(false);
  const press = async () => {
    if (sure && !confirm(sure)) return;
    setBusy(true);
    try {
      await does();
    } catch (error) {
      toast(said(error), true);
    } finally {
      setBusy(false);
    }
  };
  return (
    <button type="button" class={`button ${kind ?? ""} ${small ? "small" : ""}`} disabled={busy || disabled} onClick={() => void press()}>
      {children}
    </button>
  );
}

export function Field({ label, hint, fault, children }: Children & { label: string; hint?: ComponentChildren; fault?: string | undefined }) {
  return (
    <label class="field">
      <span>{label}</span>
      {children}
      {hint && <small>{hint}</small>}
      {fault && <small class="wrong" role="status">{fault}</small>}
    </label>
  );
}

type TextProps = Omit<JSX.InputHTMLAttributes<HTMLInputElement>, "value" | "onInput"> & { value: string; onText: (text: string) => void };

export function Text({ value, onText, ...rest }: TextProps) {
  return <input {...rest} value={value} onInput={(event) => onText(event.currentTarget.value)} />;
}

export function Choice<T extends string>({ value, options, onPick, label }: { value: T; options: readonly (readonly [T, string])[]; onPick: (value: T) => void; label?: string }) {
  return (
    <select value={value} aria-label={label} onChange={(event) => onPick(event.currentTarget.value as T)}>
      {options.map(([key, text]) => (
        <option key={key} value={key}>
          {text}
        </option>
      ))}
    </select>
  );
}

export function Check({ label, on, onSet }: { label: string; on: boolean; onSet: (on: boolean) => void }) {
  return (
    <label class="check">
      <input type="checkbox" checked={on} onChange={(event) => onSet(event.currentTarget.checked)} />
      <span>{label}</span>
    </label>
  );
}

/** A form whose submission is one call; what is refused stands above its button, and what was typed stays. */
export function Form({ onSend, send, children, onCancel }: Children & { onSend: () => Promise<void>; send: string; onCancel?: () => void }) {
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await onSend();
    } catch (reason) {
      setError(said(reason));
    } finally {
      setBusy(false);
    }
  };
  return (
    <form class="form" onSubmit={(event) => void submit(event)}>
      {children}
      {error && (
        <p class="note bad" role="alert">
          {error}
        </p>
      )}
      <div class="row end">
        {onCancel && (
          <button type="button" class="button" onClick={onCancel}>
            Cancel
          </button>
        )}
        <button class="button main" disabled={busy}>
          {busy ? "One moment …" : send}
        </button>
      </div>
    </form>
  );
}

export function Dialog({ title, onClose, children, wide }: Children & { title: string; onClose: () => void; wide?: boolean }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Before the next key comes. What is taken out of the page is closed by that; closing it would tell `onClose`. Only what
  // is closed gives the focus back, so that is done here, once it is gone and where nothing else has taken it.
  useLayoutEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => queueMicrotask(() => {
      if (document.activeElement === document.body && before instanceof HTMLElement) before.focus();
    });
  }, []);
  return (
    <dialog ref={dialog} class={wide ? "wide" : ""} aria-labelledby={id} onClose={onClose} onCancel={(event) => {
      // A field for files tells of a choice that was cancelled by an event of the same name, which comes up to here.
      if (event.target === event.currentTarget) onClose();
    }}>
      <header>
        <h2 id={id}>{title}</h2>
        <button type="button" class="button bare small" aria-label="Close" onClick={onClose}>
          ✕
        </button>
      </header>
      <div class="inner">{children}</div>
    </dialog>
  );
}

export function Bones() {
  return (
    <div class="bones" role="status" aria-label="Loading">
      <i />
      <i />
      <i />
    </div>
  );
}

export function Trouble({ error, retry }: { error: string; retry?: () => void }) {
  return (
    <div class="note bad" role="alert">
      {error}
      {retry && (
        <button type="button" class="button small" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Empty({ title, children }: Children & { title: string }) {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children}
    </div>
  );
}

const KINDS: Record<string, string> = {
  succeeded: "good", success: "good", completed: "good", ok: "good", published: "good", delivered: "good", active: "good", applied: "good", repaired: "good", approved: "good", on: "good", done: "good", unchanged: "good",
  failed: "bad", broken: "bad", disabled: "bad", expired: "bad", blocked: "bad", provider_error: "bad", network_error: "bad", denied: "bad", firing: "bad", bounced: "bad", error: "bad", no_room: "bad",
  running: "info", moving: "info", queued: "", pending: "", open: "info", repairing: "info",
  canceled: "", timeout: "warn", low_quality: "warn", target_error: "warn", drifting: "warn", failing: "warn", throttled: "warn", skipped_overlap: "warn", skipped_misfire: "warn", no_urls: "warn", outage: "warn", no_data: "warn", "a value is missing": "warn",
};

/** A state in a word and a colour. */
export function Badge({ state }: { state: string }) {
  return <span class={`badge ${KINDS[state] ?? ""}`}>{state.replaceAll("_", " ")}</span>;
}

/** Whether a schedule's run came to nothing: it could not submit its jobs, or none of them succeeded. */
export const hasFailed = (run: RunView) => run.status === "failed" || (run.status === "completed" && run.failed > 0 && run.succeeded === 0);

/** Tags, or the word for none of them. */
export function Tags({ tags, none }: { tags: readonly string[]; none?: string }) {
  return (
    <>
      {tags.length === 0 && none && <span class="dim">{none}</span>}
      {tags.map((tag) => (
        <span class="tag" key={tag} title={tag}>
          {tag}
        </span>
      ))}
    </>
  );
}

export function Tabs<T extends string>({ tabs, at, onPick, label }: { tabs: readonly (readonly [T, string])[]; at: T; onPick: (tab: T) => void; label: string }) {
  const keys = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const next = (tabs.findIndex(([key]) => key === at) + step + tabs.length) % tabs.length;
    const tab = tabs[next];
    if (step === 0 || !tab) return;
    event.preventDefault();
    onPick(tab[0]);
    (event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("[role=tab]")[next]?.focus();
  };
  // On a small window the one that is open may lie beyond the edge.
  const list = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const [all, tab] = [list.current, list.current?.querySelector<HTMLElement>("[aria-selected=true]")];
    if (!all || !tab) return;
    const [from, to] = [tab.offsetLeft - all.offsetLeft, tab.offsetLeft - all.offsetLeft + tab.offsetWidth];
    if (from < all.scrollLeft) all.scrollLeft = from;
    else if (to > all.scrollLeft + all.clientWidth) all.scrollLeft = to - all.clientWidth;
  }, [at]);
  return (
    <div class="tabs" role="tablist" aria-label={label} onKeyDown={keys} ref={list}>
      {tabs.map(([key, text]) => (
        <button type="button" role="tab" key={key} aria-selected={key === at} onClick={() => onPick(key)}>
          {text}
        </button>
      ))}
    </div>
  );
}

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied");
  } catch {
    // Without TLS a browser has no clipboard for pages; an old way is left.
    const area = document.createElement("textarea");
    const focused = document.activeElement;
    area.value = text;
    // Within an open dialog: nothing outside of it can be marked.
    ([...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body).append(area);
    area.select();
    const isCopied = document.execCommand("copy");
    area.remove();
    if (focused instanceof HTMLElement) focused.focus();
    if (isCopied) toast("Copied");
    else toast("The browser does not let it be copied; mark the text and copy it by hand", true);
  }
}

/** A secret that is shown once. */
export function Secret({ text, label }: { text: string; label: string }) {
  return (
    <div class="stack">
      <p>{label} It is shown this once and never again.</p>
      <div class="secret">
        <code class="grow">{text}</code>
        <button type="button" class="button small" onClick={() => void copy(text)}>
          Copy
        </button>
      </div>
    </div>
  );
}
