/** A diff as a table, with the numbers of the lines before and after. */

import './diff.css';
import { useMemo, useState } from 'preact/hooks';
import type { Edit } from '../content/arguments.ts';
import { firstLines, type Hunk, hunksBetween, hunksOf, type Line } from '../content/diff.ts';
import { Visible } from '../ui/visible.tsx';

/** A unified diff of one file. */
export function Diff({ patch, label }: { patch: string; label: string }) {
  const hunks = useMemo(() => hunksOf(patch), [patch]);
  if (hunks === null) {
    return (
      <pre class="output" tabIndex={0}>
        {patch}
      </pre>
    );
  }
  if (hunks.length === 0) {
    return <p class="muted small diff-none">{/^Binary files /m.test(patch) ? 'A binary file: there are no lines to show.' : 'No line differs.'}</p>;
  }
  return <Hunks hunks={hunks} label={label} />;
}

/** The edits that a tool makes. */
export function Edits({ edits }: { edits: Edit[] }) {
  return (
    <>
      {edits.map(({ path, before, after }, at) => (
        <figure key={`${path}-${at}`} class="edit">
          <figcaption class="mono">
            <Visible text={path} />
          </figcaption>
          <Hunks hunks={hunksBetween(before, after)} label={`Edit of ${path}`} />
        </figure>
      ))}
    </>
  );
}

const SIGNS = { same: ' ', added: '+', removed: '−' };
const WORDS = { same: '', added: 'added', removed: 'removed' };

/** Lines of a diff that are shown at first: many thousands would hold up the page. */
const FIRST_LINES = 1000;

function Hunks({ hunks, label }: { hunks: Hunk[]; label: string }) {
  const [all, setAll] = useState(false);
  const count = hunks.reduce((sum, { lines }) => sum + lines.length, 0);
  return (
    <>
      <HunkTable hunks={all ? hunks : firstLines(hunks, FIRST_LINES)} label={label} />
      {!all && count > FIRST_LINES && (
        <button type="button" class="button quiet" onClick={() => setAll(true)}>
          Show all {count} lines
        </button>
      )}
    </>
  );
}

function HunkTable({ hunks, label }: { hunks: Hunk[]; label: string }) {
  return (
    <div class="diff" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead class="hidden-visually">
          <tr>
            <th scope="col">Line before</th>
            <th scope="col">Line after</th>
            <th scope="col">Change</th>
            <th scope="col">Text</th>
          </tr>
        </thead>
        {hunks.map(({ header, lines }) => (
          <tbody key={header}>
            <tr class="hunk">
              <td colSpan={4}>{header}</td>
            </tr>
            {lines.map((line) => (
              <DiffLine key={`${line.before} ${line.after}`} line={line} />
            ))}
          </tbody>
        ))}
      </table>
    </div>
  );
}

function DiffLine({ line: { kind, before, after, runs } }: { line: Line }) {
  return (
    <tr data-kind={kind}>
      <td class="number">{before}</td>
      <td class="number">{after}</td>
      <td class="sign">
        <span aria-hidden>{SIGNS[kind]}</span>
        <span class="hidden-visually">{WORDS[kind]}</span>
      </td>
      <td class="text">
        {runs.map(({ text, isChanged }, at) => (isChanged ? <mark key={at}><Visible text={text} /></mark> : <Visible key={at} text={text} />))}
      </td>
    </tr>
  );
}
