// Facts of one thing: what each is called, and what it is.
import type { ComponentChildren } from "preact";
import { Fragment } from "preact";

/** What is called something, and what it is; what is not there is left out. */
export type Fact = readonly [name: string, value: ComponentChildren] | false | null | undefined | "" | 0;

export function Facts({ of, label }: { of: readonly Fact[]; label?: string }) {
  return (
    <dl class="facts" aria-label={label}>
      {of.map(
        (fact, index) =>
          fact && (
            <Fragment key={index}>
              <dt>{fact[0]}</dt>
              <dd>{fact[1]}</dd>
            </Fragment>
          ),
      )}
    </dl>
  );
}
