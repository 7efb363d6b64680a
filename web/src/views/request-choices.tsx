/** The answers to a pending request: one to approve, one to deny, and a sheet with all others. */

import { Check, Ellipsis, X } from 'lucide-preact';
import type { ComponentChildren } from 'preact';
import { useRef, useState } from 'preact/hooks';
import type { PendingRequest } from '../api/types.ts';
import type { Approval } from '../state/actions.ts';
import { allowsNeverAsking } from '../state/catalog.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { KeyHint } from '../ui/key-hint.tsx';
import { Sheet, type SheetItem } from '../ui/sheet.tsx';
import { confirmNeverAsking } from './confirm-never-asking.ts';
import { useRequestKeys } from './request-keys.ts';
import { RuleLabel } from './rule-label.tsx';

const CHOICE_NOTE = 'The agent offers no approval of this call alone. What you choose may stay allowed in later sessions, too.';

/** What a person can do about a request. */
export interface RequestActions {
  approve: (approval: Approval) => Promise<unknown>;
  deny: () => void;
  denyWithReason: () => void;
  denyAndStop: () => void;
}

interface Props {
  approveLabel?: string;
  denyLabel: string;
  reasonLabel: string;
  /** Whether the first button submits the surrounding form instead of an approval. */
  isForm?: boolean;
  /** Whether the person can approve now. An incomplete request can only be denied. */
  canApprove: boolean;
  needsChoice?: boolean | undefined;
  /** The approvals besides the primary one. */
  approvals?: SheetItem[];
  actions: RequestActions;
  /** Whether this is the request that the keys are for. */
  isActive: boolean;
  /** Whether the keys have an effect now. */
  hasKeys: boolean;
  /** Whether the person has seen the whole content. Otherwise shows more of the content. */
  allSeenOrShowMore: () => boolean;
}

/** The three choices of a request. They are always in the same place. */
export function RequestChoices({
  approveLabel = 'Approve',
  denyLabel,
  reasonLabel,
  isForm = false,
  canApprove,
  needsChoice = false,
  approvals = [],
  actions,
  isActive,
  hasKeys,
  allSeenOrShowMore,
}: Props) {
  const [isSheetOpen, setSheetOpen] = useState(false);
  const approveButton = useRef<HTMLButtonElement>(null);
  const moreButton = useRef<HTMLButtonElement>(null);
  const openSheet = () => setSheetOpen(true);
  useRequestKeys((key) => {
    if (!isActive || (key !== 'a' && key !== 'd' && key !== '.')) return false;
    // The key is handled, even if it has no effect now.
    if (!hasKeys) return true;
    if (key === '.') {
      // The sheet returns the focus to this button.
      moreButton.current?.focus({ preventScroll: true });
      openSheet();
    } else if (key === 'd') actions.deny();
    else if (allSeenOrShowMore()) approveButton.current?.click();
    return true;
  });
  const items: SheetItem[] = [
    ...(canApprove ? approvals : []),
    { key: 'reason', label: reasonLabel, onSelect: actions.denyWithReason },
    { key: 'stop', label: 'Deny and stop', isDangerous: true, onSelect: actions.denyAndStop },
  ];
  const shortcut = (key: string) => (hasKeys ? { 'aria-keyshortcuts': key } : {});
  return (
    <div class="request-choices">
      <button
        ref={approveButton}
        type={isForm ? 'submit' : 'button'}
        class="button primary"
        disabled={!canApprove}
        {...shortcut('a')}
        {...(isForm ? {} : { onClick: needsChoice ? openSheet : () => void actions.approve({ decision: 'approved' }) })}
      >
        <Check size={18} /> {needsChoice ? 'Choose …' : approveLabel} <KeyHint keys="a" />
      </button>
      <button type="button" class="button" onClick={actions.deny} {...shortcut('d')}>
        <X size={18} /> {denyLabel} <KeyHint keys="d" />
      </button>
      <button ref={moreButton} type="button" class="button quiet" aria-haspopup="dialog" onClick={openSheet} {...shortcut('.')}>
        <Ellipsis size={18} /> More <KeyHint keys="." />
      </button>
      {isSheetOpen && (
        <Sheet
          title="More answers"
          text={needsChoice && canApprove ? CHOICE_NOTE : undefined}
          items={items}
          onClose={() => setSheetOpen(false)}
        />
      )}
    </div>
  );
}

/** Warns, beside the content, that each approval of the request is permanent. */
export function ChoiceNote() {
  return <p class="choice-note notice warn small">{CHOICE_NOTE}</p>;
}

interface FurtherOptions {
  isPlan: boolean;
  editsMode: string | undefined;
  approve: RequestActions['approve'];
  /** Returns why the request can no longer be answered. */
  whyObsolete: () => string | undefined;
}

/** Returns the approvals besides the primary one: with accepted edits, in the agent's own words, and for the session. */
export function furtherApprovals(
  { needsChoice = false, sessionRule, choices = [] }: PendingRequest,
  { isPlan, editsMode, approve, whyObsolete }: FurtherOptions,
): SheetItem[] {
  const item = (key: string, label: ComponentChildren, approval: Approval): SheetItem => ({
    key,
    label,
    onSelect: () => void approve(approval),
  });
  const agentApprovals = choices
    .filter(({ neverAsks }) => !neverAsks || allowsNeverAsking.value)
    .map(({ id, label, neverAsks }): SheetItem => {
      const approval: Approval = { decision: 'approved', answers: { choice: [id] } };
      const choice = item(`choice ${id}`, <EscapedText text={label} />, approval);
      return neverAsks
        ? { ...choice, isDangerous: true, onSelect: () => confirmNeverAsking(() => approve(approval), whyObsolete) }
        : choice;
    });
  const hasSessionAnswer = !isPlan && !needsChoice && sessionRule !== null;
  return [
    ...(editsMode !== undefined ? [item('edits', 'Approve and accept edits', { decision: 'approved', mode: editsMode })] : []),
    ...agentApprovals,
    ...(hasSessionAnswer ? [item('session', <SessionLabel rule={sessionRule} />, { decision: 'approved_for_session' })] : []),
  ];
}

/** Shows which later calls an approval covers. `rule` is undefined if the CLI does not say which calls. */
function SessionLabel({ rule }: { rule: Exclude<PendingRequest['sessionRule'], null> }) {
  if (rule === undefined) return 'Approve for session, as its agent decides';
  return (
    <span>
      Allow <RuleLabel rule={rule} /> until the agent ends
    </span>
  );
}
