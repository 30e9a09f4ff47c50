// Stored pages read anew: request by request until none is left, with a figure, and stopped when somebody wants.
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api/client";
import { many } from "../parts/figures";

/** As many as a request takes. */
const AT_ONCE = 50;

interface Reading {
  /** How many were read so far; undefined while nothing goes on. */
  count: number | undefined;
  /** Reads those of these page types; gives how many were read, whether it came to the end or was stopped. */
  read: (domain: string, pageTypes: readonly string[]) => Promise<number>;
  stop: () => void;
}

/** Pages are read as long as the view is there. */
export function useReading(): Reading {
  const [count, setCount] = useState<number>();
  const control = useRef<AbortController>();
  const stop = () => control.current?.abort();
  useEffect(() => stop, []);
  const read = async (domain: string, pageTypes: readonly string[]) => {
    const { signal } = (control.current = new AbortController());
    let sum = 0;
    setCount(0);
    try {
      for (const pageType of pageTypes) {
        for (let isComplete = false; !isComplete; ) {
          const told = await api("POST /api/v1/extraction/backfill", { body: { domain, pageType, limit: AT_ONCE }, signal });
          sum += told.processed;
          isComplete = told.isComplete;
          setCount(sum);
        }
      }
    } catch (error) {
      // What was read until then is read.
      if (!signal.aborted) throw error;
    } finally {
      setCount(undefined);
    }
    return sum;
  };
  return { count, read, stop };
}

/** How far it is. */
export function Progress({ of }: { of: Reading }) {
  if (of.count === undefined) return null;
  return (
    <span class="row">
      <span class="dim" role="status">{many(of.count, "page")} so far …</span>
      <button type="button" class="button small" onClick={of.stop}>Stop</button>
    </span>
  );
}
