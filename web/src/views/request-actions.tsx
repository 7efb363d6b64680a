/** The buttons that answer a pending permission request. */

import { Ban, Check, X } from 'lucide-preact';
import type { Choice, PendingRequest } from '../api/types.ts';
import type { Approval } from '../state/actions.ts';
import { allowsNeverAsking } from '../state/catalog.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { SheetButton, type SheetItem } from '../ui/sheet.tsx';
import { confirmNeverAsking } from './confirm-never-asking.ts';

const CHOICE_NOTE = 'The agent offers no approval of this call alone. What you choose may stay allowed in later sessions, too.';

interface Props {
  request: PendingRequest;
  isPlan: boolean;
  /** The mode that approves edits, if it is offered for this request. */
  editsMode: Choice | undefined;
  /** Whether the whole request is shown. An incomplete request can only be denied. */
  canApprove: boolean;
  approve: (approval: Approval) => Promise<unknown>;
  denyWithReason: () => void;
  denyAndStop: () => void;
}

/** All answers are buttons. If the agent offers its own approvals, a small window shows all but *Approve* and *Deny* in a sheet. */
export function RequestActions({ request, isPlan, editsMode, canApprove, approve, denyWithReason, denyAndStop }: Props) {
  const { needsChoice = false, sessionRule } = request;
  const choices = (request.choices ?? []).filter(({ neverAsks }) => !neverAsks || allowsNeverAsking.value);
  const choose = ({ id, neverAsks }: (typeof choices)[number]) => {
    const apply = () => approve({ decision: 'approved', answers: { choice: [id] } });
    if (neverAsks) confirmNeverAsking(apply);
    else void apply();
  };
  const hasSessionAnswer = !isPlan && !needsChoice && sessionRule !== null;
  const approvals: SheetItem[] = [
    ...(editsMode
      ? [{ key: 'edits', label: 'Approve and accept edits', onSelect: () => void approve({ decision: 'approved', mode: editsMode.id }) }]
      : []),
    ...choices.map((choice) => ({
      key: `choice ${choice.id}`,
      label: <EscapedText text={choice.label} />,
      isDangerous: choice.neverAsks === true,
      onSelect: () => choose(choice),
    })),
    ...(hasSessionAnswer
      ? [{ key: 'session', label: <SessionLabel rule={sessionRule} />, onSelect: () => void approve({ decision: 'approved_for_session' }) }]
      : []),
  ];
  const stop: SheetItem = {
    key: 'stop',
    label: (
      <>
        <Ban size={16} aria-hidden /> Deny and stop
      </>
    ),
    isDangerous: true,
    onSelect: denyAndStop,
  };
  const sheetItems = [...(canApprove ? approvals : []), ...(isPlan ? [] : [stop])];
  const hasSheet = canApprove && choices.length > 0;
  return (
    <>
      {needsChoice && <p class={hasSheet ? 'notice warn small in-sheet' : 'notice warn small'}>{CHOICE_NOTE}</p>}
      <div class={hasSheet ? 'request-actions has-sheet' : 'request-actions'}>
        {canApprove && !needsChoice && (
          <button type="button" class="button primary" onClick={() => void approve({ decision: 'approved' })}>
            <Check size={18} aria-hidden /> Approve
          </button>
        )}
        {canApprove &&
          approvals.map(({ key, label, isDangerous, onSelect }) => (
            <button
              key={key}
              type="button"
              class={`button multi-line further ${isDangerous ? 'danger' : ''} ${key === 'session' ? 'session-scope' : ''}`}
              onClick={onSelect}
            >
              {label}
            </button>
          ))}
        <button type="button" class="button danger" onClick={denyWithReason}>
          <X size={18} aria-hidden /> {isPlan ? 'Keep planning' : 'Deny'}
        </button>
        {!isPlan && (
          <button type="button" class="button danger further" onClick={denyAndStop}>
            {stop.label}
          </button>
        )}
        {hasSheet && (
          <SheetButton
            label={needsChoice ? 'Choose …' : 'More …'}
            class={needsChoice ? 'button primary open-sheet' : 'button open-sheet'}
            title="Answers to the request"
            text={needsChoice ? CHOICE_NOTE : undefined}
            items={sheetItems}
          />
        )}
      </div>
    </>
  );
}

/** Shows which later calls an approval covers. `rule` is undefined if the CLI does not say which calls. */
function SessionLabel({ rule }: { rule: Exclude<PendingRequest['sessionRule'], null> }) {
  if (rule === undefined) return 'Approve for session, as its CLI decides';
  return (
    <span>
      Allow{' '}
      <span class={rule.kind === 'command' ? 'mono' : undefined}>
        <EscapedText text={rule.label} />
      </span>{' '}
      until the agent ends
    </span>
  );
}
