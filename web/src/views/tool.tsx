/** A tool's call: what it is about in one line; what went in and came out below it. */

import { Check, FilePen, FileText, Globe, ListTodo, LoaderCircle, Search, Terminal, TriangleAlert, Wrench } from 'lucide-preact';
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { todosOf } from '../content/parse.ts';
import type { ToolItem } from '../content/timeline.ts';
import { previewOf, summarize } from '../content/tools.ts';
import { Fold } from '../ui/fold.tsx';
import { Answer, DecisionIcon } from './permission.tsx';
import { TodoList } from './todos.tsx';
import { Input, Output, Pictures } from './tool-input.tsx';

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
  const { key, name, input, output, images, state, permission } = tool;
  const todos = name === 'TodoWrite' ? todosOf((input as { todos?: unknown } | null)?.todos) : null;
  const detail = todos ? `${todos.filter(({ status }) => status === 'completed').length} of ${todos.length} done` : summarize(input);
  return (
    <ResultFold
      id={key}
      icon={<ToolIcon name={name} />}
      title={name}
      detail={detail}
      isBad={state === 'failed'}
      end={<ToolEnd tool={tool} />}
      output={todos ? '' : output}
      images={images}
      after={permission && <Answer request={permission} />}
    >
      {todos ? <TodoList todos={todos} /> : <Input input={input} />}
    </ResultFold>
  );
}

interface ResultProps {
  id: string;
  icon: ComponentChildren;
  title: string;
  detail?: string;
  isBad: boolean;
  end?: ComponentChildren;
  output: string;
  images: string[];
  /** What is above and below the result when it is unfolded. */
  children?: ComponentChildren;
  after?: ComponentChildren;
}

/** A result, of which the beginning is seen also while it is folded. */
export function ResultFold({ output, images, children, after, ...line }: ResultProps) {
  const { text, more } = useMemo(() => previewOf(output, images.length), [output, images.length]);
  return (
    <Fold {...line} preview={text !== '' && <pre class="output preview">{text}</pre>} more={more}>
      {children}
      {text !== '' && <Output text={output} />}
      <Pictures urls={images} />
      {after}
    </Fold>
  );
}

function ToolEnd({ tool: { permission, state } }: { tool: ToolItem }) {
  return (
    <span class="fold-end">
      {permission && <DecisionIcon request={permission} label />}
      {state === 'running' && (
        <span class="chip accent">
          <LoaderCircle size={13} aria-hidden class="turning" /> running
        </span>
      )}
      {state === 'done' && <Check size={15} class="good" role="img" aria-label="done" />}
      {state === 'failed' && <TriangleAlert size={15} class="bad" role="img" aria-label="failed" />}
    </span>
  );
}
