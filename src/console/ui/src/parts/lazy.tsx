// Parts that are fetched when they are first shown. One that cannot be fetched says so, and is fetched again when it is asked
// for, when the network is back, and by itself.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { said } from "../api/client";
import { useAgain } from "../api/use";
import { Trouble } from "./basic";

const loaded = new WeakMap<object, unknown>();

/** Fetches what will be shown, so that it stands there in the first frame; what fails is fetched again when it is shown. */
export async function fetchEarly<P>(key: object, load: () => Promise<ComponentType<P>>): Promise<void> {
  const part = await load().catch(() => undefined);
  if (part) loaded.set(key, part);
}

/** What `load` brings: kept under `key`, so that it is fetched once. */
export function useFetched<P>(key: object, load: () => Promise<ComponentType<P>>): { found: ComponentType<P> | undefined; error: string | undefined; again: () => void } {
  const [turn, setTurn] = useState(0);
  const [failed, setFailed] = useState<{ key: object; reason: unknown }>();
  const found = loaded.get(key) as ComponentType<P> | undefined;
  useEffect(() => {
    if (loaded.has(key)) {
      // It came between this drawing and its effect.
      if (!found) setTurn((n) => n + 1);
      return;
    }
    let gone = false;
    load().then(
      (part) => {
        loaded.set(key, part);
        if (!gone) setTurn((n) => n + 1);
      },
      (reason: unknown) => !gone && setFailed({ key, reason }),
    );
    return () => void (gone = true);
  }, [key, turn]);
  const again = () => setTurn((n) => n + 1);
  const error = !found && failed?.key === key ? failed.reason : undefined;
  useAgain(error, again);
  return { found, error: error === undefined ? undefined : said(error), again };
}

export function lazy<P extends object>(load: () => Promise<{ default: ComponentType<P> }>): ComponentType<P> {
  const part = () => load().then((module) => module.default);
  return function Lazy(props: P) {
    const { found: Found, error, again } = useFetched(load, part);
    if (Found) return <Found {...props} />;
    return error ? <Trouble error={`This part could not be loaded: ${error}`} retry={again} /> : <div class="waiting" />;
  };
}

/**
 * Whether what asks has been on the screen: false in its first frame. What a reader does not need to see where they are comes behind
 * that: with the overview's panels in it a new process took a fifth longer for its first heading, and with the side's foot more.
 */
export function useIsDrawn(): boolean {
  const [isDrawn, setDrawn] = useState(false);
  useEffect(() => {
    // A window that is not shown has no frames.
    if (document.hidden) return setDrawn(true);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const frame = requestAnimationFrame(() => (timer = setTimeout(() => setDrawn(true))));
    return () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
    };
  }, []);
  return isDrawn;
}

export const Plot = lazy(() => import("./plot"));
