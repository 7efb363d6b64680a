/** The usage of the agent's context, the cost of the session, and the limits of the user's plan, as a sheet. */

import './usage-sheet.css';
import type { Session } from '../api/types.ts';
import { parseLimits } from '../content/plan-limits.ts';
import { contextShare, describeUsage } from '../content/usage.ts';
import { formatTime } from '../ui/format.ts';
import { SheetFrame } from '../ui/sheet.tsx';

const PERCENT = new Intl.NumberFormat('en', { style: 'percent' });

export function UsageSheet({ metadata, onClose }: { metadata: Session['metadata']; onClose: () => void }) {
  const usage = describeUsage(metadata?.usage);
  const limits = parseLimits(metadata?.limits);
  return (
    <SheetFrame title={limits.length > 0 ? 'Context and limits' : 'Context'} onClose={onClose}>
      {(close) => (
        <>
          <div class="usage-rows">
            {usage && <UsageRow label="Context of the agent" share={contextShare(metadata?.usage)} text={usage} />}
            {limits.map(({ id, label, used, resetsAt }) => (
              <UsageRow
                key={id}
                label={label}
                share={used}
                text={`${PERCENT.format(used)} used${resetsAt === undefined ? '' : ` · resets at ${formatTime(resetsAt)}`}`}
              />
            ))}
            <p class="muted small">
              As the agent last reported. The cost is that of the session.
              {limits.length > 0 && ' The limits are those of your plan, for all sessions.'}
            </p>
          </div>
          <button type="button" class="button" onClick={close}>
            Close
          </button>
        </>
      )}
    </SheetFrame>
  );
}

function UsageRow({ label, share, text }: { label: string; share: number | undefined; text: string }) {
  return (
    <div class="usage-row">
      <span>{label}</span>
      {share !== undefined && <progress value={share} max={1} aria-label={label} class={share >= 0.8 ? 'usage-bar high' : 'usage-bar'} />}
      <span class="muted small">{text}</span>
    </div>
  );
}
