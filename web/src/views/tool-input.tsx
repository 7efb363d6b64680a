/** What goes into a tool's call, and what comes out. */

import './tool-input.css';
import type { ComponentChildren } from 'preact';
import { Suspense } from 'preact/compat';
import { useMemo, useState } from 'preact/hooks';
import { argumentsOf, type Field } from '../content/arguments.ts';
import { plainOutput } from '../content/tools.ts';
import { lazy } from '../ui/lazy.tsx';
import { Visible } from '../ui/visible.tsx';

const Edits = lazy(() => import('./diff.tsx').then(({ Edits }) => ({ default: Edits })));

/** Lines of a text that are shown at first. */
const FIRST_LINES = 200;
/** So many characters of them at most: a line may be a whole file. */
const FIRST_LENGTH = 50_000;

const visibly = (text: string) => <Visible text={text} />;

/** What goes into a call, all of it: a command as it is typed, edits as a diff, everything else by its names. */
export function Input({ input }: { input: unknown }) {
  const { command, edits, rest } = useMemo(() => argumentsOf(input), [input]);
  return (
    <>
      {command !== undefined && (
        <Long text={command} class="command">
          {visibly}
        </Long>
      )}
      {edits.length > 0 && (
        <Suspense fallback={null}>
          <Edits edits={edits} />
        </Suspense>
      )}
      <Rest fields={rest} />
    </>
  );
}

/** What no view of its own shows, by its names. */
export function Rest({ fields }: { fields: Field[] }) {
  if (fields.length === 0) return null;
  return (
    <dl class="arguments">
      {fields.map(({ name, text }) => (
        <div key={name}>
          <dt class="mono">
            <Visible text={name} />
          </dt>
          <dd>
            <Long text={text} class="output">
              {visibly}
            </Long>
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** Pictures that came out. */
export function Pictures({ urls }: { urls: string[] }) {
  return (
    <>
      {urls.map((url, at) => (
        <img key={at} class="picture" src={url} alt={urls.length === 1 ? 'Picture' : `Picture ${at + 1}`} />
      ))}
    </>
  );
}

/** What came out. */
export function Output({ text }: { text: string }) {
  return (
    <Long text={plainOutput(text)} class="output" tabIndex={0}>
      {(shown) => shown}
    </Long>
  );
}

interface LongProps {
  text: string;
  class: string;
  tabIndex?: number;
  children: (shown: string) => ComponentChildren;
}

/** A text, the beginning of it at once. */
function Long({ text, children, ...place }: LongProps) {
  const [all, setAll] = useState(false);
  const lines = text.split('\n');
  const first = lines.slice(0, FIRST_LINES).join('\n').slice(0, FIRST_LENGTH);
  return (
    <>
      <pre {...place}>{children(all ? text : first)}</pre>
      {!all && first.length < text.length && (
        <button type="button" class="button quiet" onClick={() => setAll(true)}>
          {lines.length > FIRST_LINES ? `Show all ${lines.length} lines` : `Show all ${text.length} characters`}
        </button>
      )}
    </>
  );
}
