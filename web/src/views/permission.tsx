/** What an agent asked and was answered, in the conversation. */

import './permission.css';
import { ShieldCheck, ShieldQuestion, ShieldX } from 'lucide-preact';
import type { CompletedRequest } from '../api/types.ts';
import { questionsOf } from '../content/arguments.ts';
import { answersOf, askedOf, decisionOf } from '../content/permissions.ts';
import { modeLabel } from '../state/modes.ts';
import { Fold } from '../ui/fold.tsx';
import { Input } from './tool-input.tsx';

const ICONS = { approved: ShieldCheck, denied: ShieldX, canceled: ShieldQuestion };

/** The sign of how a request ended; `label` reads it out where no words stand beside it. */
export function DecisionIcon({ request, label }: { request: CompletedRequest; label?: boolean }) {
  const { kind, words } = decisionOf(request);
  const Icon = ICONS[kind];
  return <Icon size={15} class={`decision ${kind}`} {...(label ? { role: 'img', 'aria-label': words } : { 'aria-hidden': true })} />;
}

/** An answered request whose call is not in the conversation: folded to what was asked and decided. */
export function Permission({ id, request }: { id: string; request: CompletedRequest }) {
  const { words } = decisionOf(request);
  const { reason } = request;
  return (
    <Fold id={id} icon={<DecisionIcon request={request} />} title={words} detail={reason ? `${askedOf(request)} — ${reason}` : askedOf(request)}>
      {questionsOf(request.arguments).questions.length === 0 && <Input input={request.arguments} />}
      <Answer request={request} />
    </Fold>
  );
}

/** All that was said with an answer. */
export function Answer({ request }: { request: CompletedRequest }) {
  const { reason, mode, allowTools = [] } = request;
  const lines: [name: string, text: string][] = [
    ['Decision', decisionOf(request).words],
    ...answersOf(request).map(({ question, answers }): [string, string] => [question, answers.join(', ')]),
    ...(reason ? [['Reason', reason] as [string, string]] : []),
    ...(mode ? [['Mode', modeLabel(mode)] as [string, string]] : []),
    ...(allowTools.length > 0 ? [['Allowed with it', allowTools.join(', ')] as [string, string]] : []),
  ];
  return (
    <dl class="answer">
      {lines.map(([name, text]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
  );
}
