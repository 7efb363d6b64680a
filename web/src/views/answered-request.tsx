/** Completed permission requests in the conversation. */

import './answered-request.css';
import { ShieldCheck, ShieldQuestion, ShieldX } from 'lucide-preact';
import type { CompletedRequest, Session } from '../api/types.ts';
import { displayPath } from '../content/paths.ts';
import { answeredQuestions, describeDecision, summarizeRequest } from '../content/permissions.ts';
import { parsePlan, parseQuestions } from '../content/tool-arguments.ts';
import { modeLabel } from '../state/catalog.ts';
import { Disclosure } from '../ui/disclosure.tsx';
import { EscapedText } from '../ui/escaped-text.tsx';
import { PathText } from '../ui/path-text.tsx';
import { Plan } from './plan.tsx';
import { ToolInput } from './tool-content.tsx';

const ICONS = { approved: ShieldCheck, denied: ShieldX, canceled: ShieldQuestion };

/** The icon of a decision. `isLabelled` adds an accessible name, for a place where no text names the decision. */
export function DecisionIcon({ request, isLabelled }: { request: CompletedRequest; isLabelled?: boolean }) {
  const { kind, label } = describeDecision(request);
  const Icon = ICONS[kind];
  return <Icon size={15} class={`decision ${kind}`} {...(isLabelled ? { role: 'img', 'aria-label': label } : { 'aria-hidden': true })} />;
}

interface DecisionProps {
  request: CompletedRequest;
  /** The session's metadata, which may list the agent's own modes. */
  metadata: Session['metadata'];
}

/** The item of a completed request that belongs to no tool call of the conversation. */
export function AnsweredRequest({ request, metadata }: DecisionProps) {
  const { label } = describeDecision(request);
  const plan = parsePlan(request.tool ?? '', request.arguments);
  return (
    <Disclosure icon={<DecisionIcon request={request} />} title={label} detail={<RequestSummary request={request} metadata={metadata} />}>
      {plan ? <Plan {...plan} /> : parseQuestions(request.arguments).questions.length === 0 && <ToolInput input={request.arguments} />}
      <DecisionDetails request={request} metadata={metadata} />
    </Disclosure>
  );
}

function RequestSummary({ request, metadata }: DecisionProps) {
  const { text, path } = summarizeRequest(request);
  const reason = request.reason ? ` — ${request.reason}` : '';
  if (path === undefined) return <EscapedText text={text + reason} />;
  return (
    <span class="request-summary">
      <EscapedText text={text} />
      <PathText path={displayPath(path, metadata)} fullPath={path} />
      {reason && (
        <span class="ellipsis">
          <EscapedText text={reason} />
        </span>
      )}
    </span>
  );
}

/** The decision, with its answers, reason, mode and allowed tools. */
export function DecisionDetails({ request, metadata }: DecisionProps) {
  const { reason, mode, allowTools = [] } = request;
  const lines: [name: string, text: string][] = [
    ['Decision', describeDecision(request).label],
    ...(request.decision === 'approved_for_session' && request.sessionRule
      ? [['Rule', request.sessionRule.label] as [string, string]]
      : []),
    ...answeredQuestions(request).map(({ question, answers }): [string, string] => [question, answers.join(', ')]),
    ...(reason ? [['Reason', reason] as [string, string]] : []),
    ...(mode ? [['Mode', modeLabel(mode, metadata)] as [string, string]] : []),
    ...(allowTools.length > 0 ? [['Also allowed', allowTools.join(', ')] as [string, string]] : []),
  ];
  return (
    <dl class="decision-details">
      {lines.map(([name, text]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
  );
}
