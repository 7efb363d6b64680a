/** Shows diffs as tables with old and new line numbers. */

import './diff.css';
import { useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { describePatch, type DiffLine, diffTexts, type Hunk, parseDiff, takeLines } from '../content/diff.ts';
import { countDigits, estimateHeight, groupLines, type LineGroup, lineText } from '../content/diff-layout.ts';
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
      {edits.map((edit, index) => (
        <EditDiff key={`${edit.path}-${index}`} name={`edit ${index}`} edit={edit} />
      ))}
    </>
  );
}

function EditDiff({ name, edit: { path, before, after } }: { name: string; edit: Edit }) {
  const hunks = useMemo(() => diffTexts(before, after), [before, after]);
  return (
    <figure class="edit">
      <figcaption class="mono">
        <EscapedText text={path} />
      </figcaption>
      <Hunks name={name} hunks={hunks} label={`Edit of ${escapeText(path)}`} />
    </figure>
  );
}

const SIGNS = { added: '+', removed: '−' };

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

/** The rows are not elements of a table, because browsers skip the layout only of blocks. */
function HunkTable({ hunks, label }: { hunks: Hunk[]; label: string }) {
  const groups = useMemo(() => groupLines(hunks), [hunks]);
  const table = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (table.current) estimateHeights(table.current, groups);
  }, [groups]);
  return (
    <div class="diff" tabIndex={0} role="region" aria-label={label}>
      <div role="table" ref={table} style={{ '--number-width': `max(34px, ${countDigits(hunks)}ch + 12px)` }}>
        <div class="visually-hidden" role="rowgroup">
          <div class="diff-row" role="row">
            <span role="columnheader">Old line</span>
            <span role="columnheader">New line</span>
            <span role="columnheader">Change</span>
            <span role="columnheader">Text</span>
          </div>
        </div>
        {groups.map(({ header, lines }, index) => (
          <div key={index} class="chunk" role="rowgroup">
            {header !== undefined && (
              <div class="hunk" role="row">
                <div role="cell" aria-colspan={4}>
                  {header}
                </div>
              </div>
            )}
            {lines.map((line, row) => (
              <DiffRow key={row} line={line} />
            ))}
          </div>
        ))}
      </div>
    </div>
  );
}

/** The width of a character of common monospaced fonts, relative to the font size. */
const CHARACTER_WIDTH = 0.602;

/** Sets the height of each group until it is laid out. A wrong height moves what the user reads while groups above are laid out. */
function estimateHeights(table: HTMLElement, groups: LineGroup[]): void {
  const text = table.querySelector('.text');
  if (!text) return;
  const { paddingRight, fontSize } = getComputedStyle(text);
  const columns = Math.floor((text.clientWidth - Number.parseFloat(paddingRight)) / (CHARACTER_WIDTH * Number.parseFloat(fontSize)));
  table.querySelectorAll<HTMLElement>('.chunk').forEach(({ style }, index) => {
    style.containIntrinsicHeight = `auto ${estimateHeight(groups[index] as LineGroup, columns)}lh`;
  });
}

function DiffRow({ line: { kind, before, after, spans } }: { line: DiffLine }) {
  return (
    <div class="diff-row" role="row" data-kind={kind}>
      <div class="number" role="cell">
        {before}
      </div>
      <div class="number" role="cell">
        {after}
      </div>
      <div class="sign" role="cell">
        {kind !== 'same' && (
          <>
            <span aria-hidden>{SIGNS[kind]}</span>
            <span class="visually-hidden">{kind}</span>
          </>
        )}
      </div>
      <div class="text" role="cell">
        {spans.map(({ text, isChanged }, index) =>
          isChanged ? (
            <mark key={index}>
              <EscapedText text={text} />
            </mark>
          ) : (
            <EscapedText key={index} text={text} />
          ),
        )}
        {/* Without a line break, a copy of the text would lack the empty lines. */}
        {lineText(spans) === '' && <br />}
      </div>
    </div>
  );
}
