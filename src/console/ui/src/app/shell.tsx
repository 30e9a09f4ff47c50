// The frame of all views: navigation, the view itself, messages.
import { useEffect, useErrorBoundary, useRef, useState } from "preact/hooks";
import { endSession, said } from "../api/client";
import { Act, Bones, Empty, Trouble } from "../parts/basic";
import { useFetched, useIsDrawn } from "../parts/lazy";
import { Brand } from "./gate";
import { Palette } from "./palette";
import { placeOf, PLACES, type Place } from "./places";
import { dismiss, here, may, me, palette, theme, toasts, whoAmI, type Theme } from "./state";

const GROUPS = [...new Set(PLACES.map((one) => one.group))];

export const seen = (one: Place) => !one.needs || may(one.needs);

function Side({ open, onGone }: { open: boolean; onGone: () => void }) {
  const at = here.value.parts[0] ?? "overview";
  const isDrawn = useIsDrawn();
  const leave = async () => {
    await endSession();
    await whoAmI();
  };
  return (
    <div class={`side ${open ? "open" : ""}`}>
      <a href="#/" onClick={onGone}>
        <Brand />
      </a>
      <button type="button" class="find" onClick={() => (palette.value = true)}>
        Find anything <kbd>Ctrl K</kbd>
      </button>
      <nav aria-label="Views">
        {GROUPS.map((group) => (
          <div key={group}>
            {group && <span>{group}</span>}
            {PLACES.filter((one) => one.group === group && seen(one)).map((one) => (
              <a key={one.path} href={`#/${one.path}`} aria-current={one.path === at ? "page" : undefined} onClick={onGone}>
                {one.title}
              </a>
            ))}
          </div>
        ))}
      </nav>
      {isDrawn && (
        <div class="foot">
          <label class="field">
            <span>Theme</span>
            <select value={theme.value} onChange={(event) => (theme.value = event.currentTarget.value as Theme)}>
              <option value="auto">As the system</option>
              <option value="light">Light</option>
              <option value="dark">Dark</option>
            </select>
          </label>
          <a href="#/profile" onClick={onGone} title={me.value?.user.email}>
            {me.value?.user.name}
          </a>
          <span class="dim">
            {me.value?.organization?.name} · {me.value?.role}
          </span>
          <div class="row">
            <a href="docs" target="_blank" rel="noreferrer">
              Docs
            </a>
            <Act kind="bare" small does={leave}>
              Sign out
            </Act>
          </div>
        </div>
      )}
    </div>
  );
}

/** The view of the place, fetched when it is first seen. */
function View({ of }: { of: Place }) {
  const { found: Found, error, again } = useFetched(of, of.load);
  // One view that fails leaves the others, and says so.
  const [broken, mend] = useErrorBoundary((fault: unknown) => reportError(fault));
  useEffect(() => {
    document.title = `${of.title} · Gleaner`;
  }, [of]);
  if (broken) return <Trouble error={`This view could not be drawn: ${said(broken)}`} retry={mend} />;
  if (Found) return <Found />;
  return error ? <Trouble error={`This view could not be loaded: ${error}`} retry={again} /> : <Bones />;
}

export function Shell() {
  const [open, setOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  const at = here.value.parts[0] ?? "overview";
  const found = placeOf(at);
  // Another place begins at its top.
  useEffect(() => window.scrollTo(0, 0), [here.value.path]);
  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        palette.value = !palette.value;
      }
      if (event.key === "Escape") setOpen(false);
    };
    window.addEventListener("keydown", keys);
    return () => window.removeEventListener("keydown", keys);
  }, []);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        To the content
      </a>
      <div class="top">
        <Brand />
        <div class="row">
          <button type="button" class="button small" onClick={() => (palette.value = true)}>
            Find
          </button>
          <button type="button" class="button small" aria-expanded={open} onClick={() => setOpen(!open)}>
            Menu
          </button>
        </div>
      </div>
      <div class="shell">
        <Side open={open} onGone={() => setOpen(false)} />
        <main ref={main} tabIndex={-1} onClick={() => open && setOpen(false)}>
          {!found && <Empty title="There is nothing here">The address names no view of the console.</Empty>}
          {found && !seen(found) && <Empty title="Not for your role">Ask an administrator of {me.value?.organization?.name} for {found.needs}.</Empty>}
          {found && seen(found) && <View key={found.path} of={found} />}
        </main>
      </div>
      {palette.value && <Palette />}
    </>
  );
}

export function Toasts() {
  const box = useRef<HTMLDivElement>(null);
  const count = toasts.value.length;
  useEffect(() => {
    // In front of an open dialog, too: shown again it is the topmost.
    box.current?.hidePopover();
    if (count > 0) box.current?.showPopover();
  }, [toasts.value]);
  return (
    <div ref={box} class="toasts" role="status" aria-live="polite" popover="manual">
      {toasts.value.map((one) => (
        <div key={one.id} class={one.bad ? "bad" : ""}>
          <span>{one.text}</span>
          <button type="button" aria-label="Dismiss" onClick={() => dismiss(one.id)}>
            ✕
          </button>
        </div>
      ))}
    </div>
  );
}
