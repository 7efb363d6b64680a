/** A tool's call: what it is about in one line; what went in and came out below it. */

import { Check, FilePen, FileText, Globe, ListTodo, LoaderCircle, Search, Terminal, TriangleAlert, Wrench } from 'lucide-preact';
import { lazy, Suspense } from 'preact/compat';
import { useState } from 'preact/hooks';
import { plain, todosOf } from '../content/parse.ts';
import type { ToolItem } from '../content/timeline.ts';
import { editsOf, summarize } from '../content/tools.ts';
import { Fold } from '../ui/fold.tsx';
import { TodoList } from './todos.tsx';

const Edits = lazy(() => import('./diff.tsx').then(({ Edits }) => ({ default: Edits })));

/** Lines of an output that are shown at first. */
const FIRST_LINES = 200;

const ICONS: [RegExp, typeof Wrench][] = [
  [/todo|plan/i, ListTodo],
  [/bash|shell|exec|command|terminal/i, Terminal],
  [/edit|write|patch/i, FilePen],
  [/grep|glob|search|find|list|ls/i, Search],
  [/fetch|web|http/i, Globe],
  [/read|file|notebook/i, FileText],
];

/** The icon of a tool, by its name. */
export function ToolIcon({ name }: { name: string }) {
  const Icon = ICONS.find(([words]) => words.test(name))?.[1] ?? Wrench;
  return <Icon size={15} aria-hidden />;
}

/** A call with what came of it. */
export function ToolCall({ tool }: { tool: ToolItem }) {
  const { key, name, input, output, state } = tool;
  const todos = name === 'TodoWrite' ? todosOf((input as { todos?: unknown } | null)?.todos) : null;
  const end = {
    running: (
      <span class="chip accent">
        <LoaderCircle size={13} aria-hidden class="turning" /> running
      </span>
    ),
    done: <Check size={15} class="good" aria-label="done" />,
    failed: <TriangleAlert size={15} aria-label="failed" />,
  }[state];
  const detail = todos ? `${todos.filter(({ status }) => status === 'completed').length} of ${todos.length} done` : summarize(input);
  return (
    <Fold id={key} icon={<ToolIcon name={name} />} title={name} detail={detail} isBad={state === 'failed'} end={end}>
      {todos ? <TodoList todos={todos} /> : <Input input={input} />}
      {output.trim() !== '' && <Output text={output} />}
    </Fold>
  );
}

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
  return <pre class="output">{plain(input)}</pre>;
}

/** Colours and the like of a terminal, which a page cannot show. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: that is what they are
const CONTROLS = /\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007]*\u0007/g;

/** What came out, the first lines of it at once. */
export function Output({ text }: { text: string }) {
  const [all, setAll] = useState(false);
  const lines = text.replace(CONTROLS, '').trimEnd().split('\n');
  const shown = all ? lines : lines.slice(0, FIRST_LINES);
  return (
    <>
      <pre class="output" tabIndex={0}>
        {shown.join('\n')}
      </pre>
      {shown.length < lines.length && (
        <button type="button" class="button quiet" onClick={() => setAll(true)}>
          Show all {lines.length} lines
        </button>
      )}
    </>
  );
}
