// Parts that are fetched when they are first shown.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";

export function lazy<P extends object>(load: () => Promise<{ default: ComponentType<P> }>): ComponentType<P> {
  let found: ComponentType<P> | undefined;
  return function Lazy(props: P) {
    const [, setTurn] = useState(0);
    useEffect(() => {
      if (found) return;
      void load().then((module) => {
        found = module.default;
        setTurn((n) => n + 1);
      });
    }, []);
    const Found = found;
    return Found ? <Found {...props} /> : <div class="waiting" />;
  };
}

export const Plot = lazy(() => import("./plot"));
