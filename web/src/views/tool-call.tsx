/** A tool call: one summary line, and below it the input and the output. */

import { Check, FilePen, FileText, Globe, ListTodo, LoaderCircle, Search, Terminal, TriangleAlert, Wrench } from 'lucide-preact';
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import type { CompletedRequest } from '../api/types.ts';
import { parseTodos } from '../content/parse-message.ts';
import { describeDecision } from '../content/permissions.ts';
import type { CutMessage } from '../content/excerpt.ts';
import type { ToolItem } from '../content/timeline.ts';
import { parsePlan } from '../content/tool-arguments.ts';
import { previewOutput, summarizeInput } from '../content/tool-summary.ts';
import { Disclosure } from '../ui/disclosure.tsx';
import { DecisionDetails, DecisionIcon } from './answered-request.tsx';
import { LoadWhole } from './load-whole.tsx';
import { Plan } from './plan.tsx';
import { TodoList } from './todos.tsx';
import { Images, ToolInput, ToolOutput } from './tool-content.tsx';

const ICONS: [RegExp, typeof Wrench][] = [
  [/todo|plan/i, ListTodo],
  [/bash|shell|exec|command|terminal/i, Terminal],
  [/edit|write|patch/i, FilePen],
  [/grep|glob|search|find|list|ls/i, Search],
  [/fetch|web|http/i, Globe],
  [/read|file|notebook/i, FileText],
];

/** Returns an icon that fits the tool's name. */
export function ToolIcon({ name }: { name: string }) {
  const Icon = ICONS.find(([pattern]) => pattern.test(name))?.[1] ?? Wrench;
  return <Icon size={15} aria-hidden />;
}

export function ToolCall({ tool, sessionId }: { tool: ToolItem; sessionId: string }) {
  const { name, input, output, images, state, permission, cut } = tool;
  const plan = useMemo(() => parsePlan(name, input), [name, input]);
  // Until the user has decided, the request shows the plan.
  if (plan && permission) return <DecidedPlan plan={plan} permission={permission} />;
  const todos = name === 'TodoWrite' ? parseTodos((input as { todos?: unknown } | null)?.todos) : null;
  const detail = todos ? `${todos.filter(({ status }) => status === 'completed').length} of ${todos.length} done` : summarizeInput(input);
  return (
    <ResultDisclosure
      icon={<ToolIcon name={name} />}
      title={name}
      detail={detail}
      isFailed={state === 'failed'}
      trailing={<ToolStatus tool={tool} />}
      output={todos ? '' : output}
      images={images}
      cut={cut}
      sessionId={sessionId}
      after={permission && <DecisionDetails request={permission} />}
    >
      {todos ? <TodoList todos={todos} /> : <ToolInput input={input} />}
    </ResultDisclosure>
  );
}

interface DecidedPlanProps {
  plan: NonNullable<ReturnType<typeof parsePlan>>;
  permission: CompletedRequest;
}

/** A plan stays in the conversation as the user saw it. */
function DecidedPlan({ plan, permission }: DecidedPlanProps) {
  const { kind, label } = describeDecision(permission);
  return (
    <section class="plan-item" aria-label="Plan">
      <h2>
        <ListTodo size={15} aria-hidden /> Plan
        <span class="disclosure-trailing">
          <span class={kind === 'approved' ? 'chip ok' : 'chip'}>
            <DecisionIcon request={permission} /> {kind === 'denied' ? 'Kept planning' : label}
          </span>
        </span>
      </h2>
      <Plan {...plan} />
      {permission.reason && <p class="muted small">Reason: {permission.reason}</p>}
      {permission.answers && <DecisionDetails request={permission} />}
    </section>
  );
}

interface ResultDisclosureProps {
  icon: ComponentChildren;
  title: string;
  detail?: string;
  isFailed: boolean;
  trailing?: ComponentChildren;
  output: string;
  images: string[];
  /** The messages that are not shown whole. */
  cut: CutMessage[] | undefined;
  sessionId: string;
  /** Shown above the output when expanded. */
  children?: ComponentChildren;
  /** Shown below the output when expanded. */
  after?: ComponentChildren;
}

/** Collapsible output. Its start is visible also while collapsed. */
export function ResultDisclosure({ output, images, cut = [], sessionId, children, after, ...header }: ResultDisclosureProps) {
  const cutBytes = cut.reduce((sum, { bytes }) => sum + bytes, 0);
  const { text, more } = useMemo(() => previewOutput(output, images.length, cutBytes), [output, images.length, cutBytes]);
  return (
    <Disclosure {...header} preview={text !== '' && <pre class="output preview">{text}</pre>} moreLabel={more}>
      {children}
      {text !== '' && <ToolOutput text={output} isExcerpt={cut.length > 0} />}
      <LoadWhole cut={cut} sessionId={sessionId} />
      <Images urls={images} />
      {after}
    </Disclosure>
  );
}

function ToolStatus({ tool: { permission, state } }: { tool: ToolItem }) {
  return (
    <span class="disclosure-trailing">
      {permission && <DecisionIcon request={permission} isLabelled />}
      {state === 'running' && (
        <span class="chip accent">
          <LoaderCircle size={13} aria-hidden class="spinning" /> running
        </span>
      )}
      {state === 'done' && <Check size={15} class="done" role="img" aria-label="done" />}
      {state === 'failed' && <TriangleAlert size={15} class="failed" role="img" aria-label="failed" />}
    </span>
  );
}
