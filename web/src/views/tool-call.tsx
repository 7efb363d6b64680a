/** A tool call: one summary line, and below it the input and the output. */

import { Check, Hourglass, ListTodo, LoaderCircle, TriangleAlert } from 'lucide-preact';
import type { ComponentChildren } from 'preact';
import { Suspense } from 'preact/compat';
import { useMemo } from 'preact/hooks';
import type { CompletedRequest, Session } from '../api/types.ts';
import { type EditSummary, summarizeEdits } from '../content/edit-summary.ts';
import { parseTodos } from '../content/parse-message.ts';
import { describeDecision } from '../content/permissions.ts';
import type { CutMessage } from '../content/excerpt.ts';
import type { TimelineItem, ToolItem } from '../content/timeline-item.ts';
import { previewOutput } from '../content/output-preview.ts';
import { parsePlan } from '../content/tool-arguments.ts';
import { pluralize, summarizeInput, summaryPath, toolTitle } from '../content/tool-summary.ts';
import { Disclosure } from '../ui/disclosure.tsx';
import { EscapedText } from '../ui/escaped-text.tsx';
import { displayPath } from '../content/paths.ts';
import { LineCounts } from '../ui/line-counts.tsx';
import { PathText } from '../ui/path-text.tsx';
import { DecisionDetails, DecisionIcon } from './answered-request.tsx';
import { lazy } from './lazy.tsx';
import { LoadWhole } from './load-whole.tsx';
import { Plan } from './plan.tsx';
import { TodoList } from './todos.tsx';
import { Images, ToolInput, ToolOutput } from './tool-content.tsx';
import { ToolIcon } from './tool-icon.tsx';

const Subagent = lazy(() => import('./subagent.tsx').then(({ Subagent }) => Subagent));

interface Props {
  tool: ToolItem;
  metadata: Session['metadata'];
  sessionId: string;
  /** Renders an item of the sub-agent that the call started. */
  renderItem: (item: TimelineItem) => ComponentChildren;
}

export function ToolCall({ tool, metadata, sessionId, renderItem }: Props) {
  const { name, input, output, images, state, permission, cut, children } = tool;
  const plan = useMemo(() => parsePlan(name, input), [name, input]);
  // Before the decision, the pending request shows the plan.
  if (plan && permission) return <DecidedPlan plan={plan} permission={permission} metadata={metadata} />;
  const todos = name === 'TodoWrite' ? parseTodos((input as { todos?: unknown } | null)?.todos) : null;
  const changes = summarizeEdits(input);
  return (
    <ResultDisclosure
      icon={<ToolIcon name={name} />}
      title={toolTitle(name, input)}
      detail={
        todos ? (
          `${todos.filter(({ status }) => status === 'completed').length} of ${todos.length} done`
        ) : (
          <InputSummary input={input} metadata={metadata} />
        )
      }
      isFailed={state === 'failed'}
      trailing={<ToolStatus tool={tool} changes={changes} />}
      output={todos ? '' : output}
      images={images}
      // The output of a successful edit says less than the diff. The output of a failed edit contains the reason.
      changes={state === 'failed' ? undefined : changes}
      cut={cut}
      sessionId={sessionId}
      after={permission && <DecisionDetails request={permission} metadata={metadata} />}
    >
      {todos ? <TodoList todos={todos} /> : <ToolInput input={input} />}
      {children && (
        <Suspense fallback={null}>
          <Subagent items={children} sessionId={sessionId} renderItem={renderItem} />
        </Suspense>
      )}
    </ResultDisclosure>
  );
}

/** The input of a call in one line. The path of a file is relative to the session's directory. */
export function InputSummary({ input, metadata }: { input: unknown; metadata: Session['metadata'] }) {
  const path = summaryPath(input);
  return path === undefined ? (
    <EscapedText text={summarizeInput(input)} />
  ) : (
    <PathText path={displayPath(path, metadata)} fullPath={path} />
  );
}

interface DecidedPlanProps {
  plan: NonNullable<ReturnType<typeof parsePlan>>;
  permission: CompletedRequest;
  metadata: Session['metadata'];
}

/** A plan with the user's decision. Looks like the pending request did. */
function DecidedPlan({ plan, permission, metadata }: DecidedPlanProps) {
  const { kind, label } = describeDecision(permission);
  return (
    <section class="plan-item" aria-label="Plan">
      <h2>
        <ListTodo size={15} /> Plan
        <span class="disclosure-trailing">
          <span class={kind === 'approved' ? 'chip ok' : 'chip'}>
            <DecisionIcon request={permission} /> {kind === 'denied' ? 'Kept planning' : label}
          </span>
        </span>
      </h2>
      <Plan {...plan} />
      {permission.reason && <p class="muted small">Reason: {permission.reason}</p>}
      {permission.answers && <DecisionDetails request={permission} metadata={metadata} />}
    </section>
  );
}

interface ResultDisclosureProps {
  icon: ComponentChildren;
  title: string;
  detail?: ComponentChildren;
  isFailed: boolean;
  trailing?: ComponentChildren;
  output: string;
  images: string[];
  /** Shown instead of the output while collapsed. */
  changes?: EditSummary | undefined;
  /** The messages that are shown only as excerpts. */
  cut: CutMessage[] | undefined;
  sessionId: string;
  /** Shown above the output when expanded. */
  children?: ComponentChildren;
  /** Shown below the output when expanded. */
  after?: ComponentChildren;
}

/** Collapsible output. The collapsed form shows the first lines of the output or of the changes. */
export function ResultDisclosure({ output, images, changes, cut = [], sessionId, children, after, ...header }: ResultDisclosureProps) {
  const cutBytes = cut.reduce((sum, { bytes }) => sum + bytes, 0);
  const { text, more } = useMemo(() => previewOutput(output, images.length, cutBytes), [output, images.length, cutBytes]);
  const hasChanges = changes !== undefined && changes.lines.length > 0;
  const preview = hasChanges ? <ChangedLines lines={changes.lines} /> : text !== '' && <pre class="output preview">{text}</pre>;
  const moreLines = hasChanges && changes.moreLines > 0 ? pluralize(changes.moreLines, 'more line') : '';
  return (
    <Disclosure {...header} preview={preview} moreLabel={hasChanges ? moreLines : more}>
      {children}
      {text !== '' && <ToolOutput text={output} isExcerpt={cut.length > 0} />}
      <LoadWhole cut={cut} sessionId={sessionId} />
      <Images urls={images} />
      {after}
    </Disclosure>
  );
}

const LINE_CLASSES = { added: 'lines-added', removed: 'lines-removed', path: 'muted' };
const LINE_SIGNS = { added: '+ ', removed: '− ', path: '' };

function ChangedLines({ lines }: Pick<EditSummary, 'lines'>) {
  return (
    <pre class="output preview">
      {lines.map(({ kind, text }, index) => (
        <span key={index} class={LINE_CLASSES[kind]}>
          {LINE_SIGNS[kind]}
          <EscapedText text={text} />
          {index < lines.length - 1 && '\n'}
        </span>
      ))}
    </pre>
  );
}

function ToolStatus({ tool: { permission, state, children }, changes }: { tool: ToolItem; changes: EditSummary | undefined }) {
  const calls = children?.filter(({ kind }) => kind === 'tool').length;
  return (
    <span class="disclosure-trailing">
      {calls !== undefined && <span class="muted small">{pluralize(calls, 'call')}</span>}
      {changes && <LineCounts {...changes} />}
      {permission && <DecisionIcon request={permission} isLabelled />}
      {state === 'waiting' && (
        <span class="chip warn">
          <Hourglass size={13} />
          <span>
            waiting<span class="wide-only"> for you</span>
          </span>
        </span>
      )}
      {state === 'running' && (
        <span class="chip accent">
          <LoaderCircle size={13} class="spinning" /> running
        </span>
      )}
      {state === 'done' && <Check size={15} class="done" role="img" aria-label="done" />}
      {state === 'failed' && <TriangleAlert size={15} class="failed" role="img" aria-label="failed" />}
    </span>
  );
}
