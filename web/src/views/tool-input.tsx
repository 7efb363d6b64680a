/** What goes into a tool's call, and what comes out. */

import { Suspense } from 'preact/compat';
import { useState } from 'preact/hooks';
import { plain } from '../content/parse.ts';
import { editsOf, plainOutput } from '../content/tools.ts';
import { lazy } from '../ui/lazy.tsx';

const Edits = lazy(() => import('./diff.tsx').then(({ Edits }) => ({ default: Edits })));

/** Lines of an output that are shown at first. */
const FIRST_LINES = 200;
/** So many characters of them at most: a line may be a whole file. */
const FIRST_LENGTH = 50_000;

/** What goes into a call: edits as a diff, a command as it is typed, everything else as JSON. */
export function Input({ input }: { input: unknown }) {
  const edits = editsOf(input);
  if (edits.length > 0) {
    return (
      <Suspense fallback={null}>
        <Edits edits={edits} />
      </Suspense>
    );
  }
  const { command } = (typeof input === 'object' && input !== null ? input : {}) as { command?: unknown };
  if (typeof command === 'string') return <pre class="command">{command}</pre>;
  if (input === undefined || input === null) return null;
  return <Output text={plain(input)} />;
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

/** What came out, the beginning of it at once. */
export function Output({ text }: { text: string }) {
  const [all, setAll] = useState(false);
  const clean = plainOutput(text);
  const lines = clean.split('\n');
  const first = lines.slice(0, FIRST_LINES).join('\n').slice(0, FIRST_LENGTH);
  return (
    <>
      <pre class="output" tabIndex={0}>
        {all ? clean : first}
      </pre>
      {!all && first.length < clean.length && (
        <button type="button" class="button quiet" onClick={() => setAll(true)}>
          {lines.length > FIRST_LINES ? `Show all ${lines.length} lines` : `Show all ${clean.length} characters`}
        </button>
      )}
    </>
  );
}
