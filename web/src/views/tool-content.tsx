/** The input and the output of a tool call. */

import './tool-content.css';
import type { ComponentChildren } from 'preact';
import { Suspense } from 'preact/compat';
import { useMemo } from 'preact/hooks';
import { type ArgumentField, parseArguments } from '../content/tool-arguments.ts';
import { terminalText } from '../content/terminal-text.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { useExpanded } from '../ui/expanded.ts';
import { lazy } from './lazy.tsx';

const Edits = lazy(() => import('./diff.tsx').then(({ Edits }) => Edits));

const INITIAL_LINES = 200;
/** Limit on the characters that are shown at first, in addition to the limit on lines: one line may be very long. */
const INITIAL_LENGTH = 50_000;

const renderEscaped = (text: string) => <EscapedText text={text} />;

/** Shows the complete input of a call: the command, edits as diffs, and all other fields as a list. */
export function ToolInput({ input }: { input: unknown }) {
  const { command, edits, otherFields } = useMemo(() => parseArguments(input), [input]);
  return (
    <>
      {command !== undefined && (
        <TruncatedText name="command" text={command} class="command">
          {renderEscaped}
        </TruncatedText>
      )}
      {edits.length > 0 && (
        <Suspense fallback={<span data-incomplete hidden />}>
          <Edits edits={edits} />
        </Suspense>
      )}
      <ArgumentList fields={otherFields} />
    </>
  );
}

export function ArgumentList({ fields }: { fields: ArgumentField[] }) {
  if (fields.length === 0) return null;
  return (
    <dl class="arguments">
      {fields.map(({ name, text }) => (
        <div key={name}>
          <dt class="mono">
            <EscapedText text={name} />
          </dt>
          <dd>
            <TruncatedText name={`argument ${name}`} text={text} class="output">
              {renderEscaped}
            </TruncatedText>
          </dd>
        </div>
      ))}
    </dl>
  );
}

export function Images({ urls }: { urls: string[] }) {
  return (
    <>
      {urls.map((url, index) => (
        <img key={index} class="image" src={url} alt={urls.length === 1 ? 'Image' : `Image ${index + 1}`} />
      ))}
    </>
  );
}

/** The name of an output for `useExpanded`. */
export const OUTPUT_NAME = 'output';

/** `isExcerpt`: shows all lines at once, because the end of an excerpt matters. */
export function ToolOutput({ text, isExcerpt = false }: { text: string; isExcerpt?: boolean }) {
  return (
    <TruncatedText name={OUTPUT_NAME} text={terminalText(text)} maxLines={isExcerpt ? Infinity : INITIAL_LINES} class="output" tabIndex={0}>
      {renderInChunks}
    </TruncatedText>
  );
}

/** Splits a long text into chunks, so that the browser lays out only the visible chunks. */
function renderInChunks(text: string): ComponentChildren {
  if (text.length <= INITIAL_LENGTH) return text;
  const chunks: string[] = [];
  for (let from = 0; from < text.length; ) {
    const lineEnd = text.indexOf('\n', from + INITIAL_LENGTH);
    const to = lineEnd < 0 ? text.length : lineEnd + 1;
    chunks.push(text.slice(from, to));
    from = to;
  }
  return chunks.map((chunk, index) => (
    <span key={index} class="chunk">
      {chunk}
    </span>
  ));
}

interface TruncatedTextProps {
  /** The name for {@link useExpanded}; unique in the item of the conversation. */
  name: string;
  text: string;
  maxLines?: number;
  class: string;
  tabIndex?: number;
  children: (visible: string) => ComponentChildren;
}

/** Shows the start of a long text, with a button that shows all of it. */
function TruncatedText({ name, text, maxLines = INITIAL_LINES, children, ...attributes }: TruncatedTextProps) {
  const [isExpanded, setExpanded] = useExpanded(name);
  const lines = text.split('\n');
  const first = lines.slice(0, maxLines).join('\n').slice(0, INITIAL_LENGTH);
  return (
    <>
      <pre {...attributes}>{children(isExpanded ? text : first)}</pre>
      {!isExpanded && first.length < text.length && (
        <button type="button" class="button quiet" data-incomplete onClick={() => setExpanded(true)}>
          {lines.length > maxLines ? `Show all ${lines.length} lines` : `Show all ${text.length} characters`}
        </button>
      )}
    </>
  );
}
