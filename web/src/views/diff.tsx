/** Shows diffs as tables with old and new line numbers. */

import './diff.css';
import { useMemo } from 'preact/hooks';
import { describePatch, type DiffLine, diffTexts, type Hunk, parseDiff, takeLines } from '../content/diff.ts';
import { escapeText } from '../content/escape-invisible.ts';
import type { Edit } from '../content/tool-arguments.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { useExpanded } from '../ui/expanded.ts';

/** Shows a unified diff of one file. */
export function Diff({ patch, label }: { patch: string; label: string }) {
  const hunks = useMemo(() => parseDiff(patch), [patch]);
  if (hunks === null) {
    return (
      <pre class="output" tabIndex={0}>
        {patch}
      </pre>
    );
  }
  const description = describePatch(patch, hunks.length > 0).join(' ');
  return (
    <>
      {description !== '' && <p class="muted small diff-empty">{description}</p>}
      {hunks.length > 0 && <Hunks name="patch" hunks={hunks} label={label} />}
    </>
  );
}

/** Shows the edits of a tool call. */
export function Edits({ edits }: { edits: Edit[] }) {
  return (
    <>
      {edits.map(({ path, before, after }, index) => (
        <figure key={`${path}-${index}`} class="edit">
          <figcaption class="mono">
            <EscapedText text={path} />
          </figcaption>
          <Hunks name={`edit ${index}`} hunks={diffTexts(before, after)} label={`Edit of ${escapeText(path)}`} />
        </figure>
      ))}
    </>
  );
}

const SIGNS = { same: ' ', added: '+', removed: '−' };
const LABELS = { same: '', added: 'added', removed: 'removed' };

/** Showing many thousand lines at once would block the page. */
const INITIAL_LINES = 1000;

/** `name` is unique in the list item. */
function Hunks({ name, hunks, label }: { name: string; hunks: Hunk[]; label: string }) {
  const [isExpanded, setExpanded] = useExpanded(name);
  const count = hunks.reduce((sum, { lines }) => sum + lines.length, 0);
  return (
    <>
      <HunkTable hunks={isExpanded ? hunks : takeLines(hunks, INITIAL_LINES)} label={label} />
      {!isExpanded && count > INITIAL_LINES && (
        <button type="button" class="button quiet" data-incomplete onClick={() => setExpanded(true)}>
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
        <thead class="visually-hidden">
          <tr>
            <th scope="col">Old line</th>
            <th scope="col">New line</th>
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
              <DiffRow key={`${line.before} ${line.after}`} line={line} />
            ))}
          </tbody>
        ))}
      </table>
    </div>
  );
}

function DiffRow({ line: { kind, before, after, spans } }: { line: DiffLine }) {
  return (
    <tr data-kind={kind}>
      <td class="number">{before}</td>
      <td class="number">{after}</td>
      <td class="sign">
        <span aria-hidden>{SIGNS[kind]}</span>
        <span class="visually-hidden">{LABELS[kind]}</span>
      </td>
      <td class="text">
        {spans.map(({ text, isChanged }, index) =>
          isChanged ? (
            <mark key={index}>
              <EscapedText text={text} />
            </mark>
          ) : (
            <EscapedText key={index} text={text} />
          ),
        )}
      </td>
    </tr>
  );
}
