/** The rules by which a session's agent may act without asking. A click on a rule withdraws the rule. */

import './session-rules.css';
import { ShieldCheck, X } from 'lucide-preact';
import type { Session } from '../api/types.ts';
import { isString, parseObjects } from '../api/validate.ts';
import * as actions from '../state/actions.ts';
import { tryOrToast } from '../ui/toasts.tsx';
import { RuleLabel } from './rule-label.tsx';

export function SessionRules({ session: { id, agentState } }: { session: Session }) {
  const rules = parseObjects<{ id: string; kind: string; label: string }>(
    agentState?.sessionRules,
    { id: isString, kind: isString, label: isString },
    ['id', 'kind', 'label'],
  );
  if (rules.length === 0) return null;
  return (
    <ul role="list" class="session-rules" aria-label="Allowed until the agent ends">
      {rules.map(({ id: ruleId, kind, label }) => (
        <li key={ruleId}>
          <button
            type="button"
            class="chip ok"
            title="Allowed until the agent ends. Press to be asked again."
            aria-label={`Ask again for ${label.replaceAll('`', '')}`}
            onClick={() => void tryOrToast('Could not withdraw the rule', () => actions.revokeRule(id, ruleId))}
          >
            <ShieldCheck size={13} />
            <RuleLabel rule={{ kind, label }} />
            <X size={13} />
          </button>
        </li>
      ))}
    </ul>
  );
}
