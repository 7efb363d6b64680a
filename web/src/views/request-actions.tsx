/** The buttons that answer a pending permission request. Each names what it does. */

import { Ban, Check, X } from 'lucide-preact';
import type { Choice, PendingRequest } from '../api/types.ts';
import type { Approval } from '../state/actions.ts';
import { allowsNeverAsking } from '../state/catalog.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { confirmNeverAsking } from './confirm-never-asking.ts';

interface Props {
  request: PendingRequest;
  isPlan: boolean;
  /** The mode that approves edits, if it is offered for this request. */
  editsMode: Choice | undefined;
  /** Whether the whole request is shown. Before that, it can only be denied. */
  canApprove: boolean;
  approve: (approval: Approval) => Promise<unknown>;
  denyWithReason: () => void;
  denyAndStop: () => void;
}

export function RequestActions({ request, isPlan, editsMode, canApprove, approve, denyWithReason, denyAndStop }: Props) {
  const { needsChoice = false } = request;
  const choices = (request.choices ?? []).filter(({ neverAsks }) => !neverAsks || allowsNeverAsking.value);
  const choose = ({ id, neverAsks }: (typeof choices)[number]) => {
    const apply = () => approve({ decision: 'approved', answers: { choice: [id] } });
    if (neverAsks) confirmNeverAsking(apply);
    else void apply();
  };
  return (
    <>
      {needsChoice && <p class="notice warn small">The agent offers no approval of this call alone. What you choose may stay allowed in later sessions, too.</p>}
      <div class="request-actions">
        {canApprove && (
          <>
            {!needsChoice && (
              <button type="button" class="button primary" onClick={() => void approve({ decision: 'approved' })}>
                <Check size={18} aria-hidden /> Approve
              </button>
            )}
            {editsMode && (
              <button type="button" class="button multi-line" onClick={() => void approve({ decision: 'approved', mode: editsMode.id })}>
                Approve and accept edits
              </button>
            )}
            {choices.map((choice) => (
              <button key={choice.id} type="button" class={choice.neverAsks ? 'button multi-line danger' : 'button multi-line'} onClick={() => choose(choice)}>
                <EscapedText text={choice.label} />
              </button>
            ))}
            {!isPlan && !needsChoice && <SessionButton rule={request.sessionRule} onClick={() => void approve({ decision: 'approved_for_session' })} />}
          </>
        )}
        <button type="button" class="button danger" onClick={denyWithReason}>
          <X size={18} aria-hidden /> {isPlan ? 'Keep planning' : 'Deny'}
        </button>
        {!isPlan && (
          <button type="button" class="button danger" onClick={denyAndStop}>
            <Ban size={16} aria-hidden /> Deny and stop
          </button>
        )}
      </div>
    </>
  );
}

/** Approves later calls as well. `rule`: their scope; undefined if the CLI does not name it; null if there is none. */
function SessionButton({ rule, onClick }: { rule: PendingRequest['sessionRule']; onClick: () => void }) {
  if (rule === null) return null;
  return (
    <button type="button" class="button multi-line session-scope" onClick={onClick}>
      {rule === undefined ? (
        'Approve for session, as its CLI decides'
      ) : (
        <span>
          Allow{' '}
          <span class={rule.kind === 'command' ? 'mono' : undefined}>
            <EscapedText text={rule.label} />
          </span>{' '}
          until the agent ends
        </span>
      )}
    </button>
  );
}
