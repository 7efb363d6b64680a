/** The row of a session in a list. */

import { Link, useLocation } from 'wouter-preact';
import type { SessionSummary } from '../api/types.ts';
import { agentLabel } from '../state/catalog.ts';
import { getOwn } from '../state/get-own.ts';
import { type Activity, describeStatus, type Status } from '../state/session-status.ts';
import { cssColor, sessionTitle } from '../state/sessions.ts';
import { machines } from '../state/store.ts';
import { shortenPath } from '../content/paths.ts';
import { now } from '../ui/current-time.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { formatAge, formatTime } from '../ui/format.ts';

/** The styles of the chip that names an activity. */
export const CHIPS: Record<Activity, string> = {
  waiting: 'chip warn',
  working: 'chip accent',
  stalled: 'chip warn',
  failed: 'chip danger',
  terminal: 'chip ok',
  ready: 'chip ok',
  offline: 'chip',
  ended: 'chip',
};

/** Returns the status of a session now. A view with the status updates by itself. */
export function currentStatus(
  session: Parameters<typeof describeStatus>[0] & { metadata: { machineId?: string } | null },
  pendingCount: number,
): Status {
  const machineId = session.metadata?.machineId ?? '';
  return describeStatus(session, pendingCount, {
    now: now.value,
    formatTime,
    isMachineOnline: getOwn(machines.value, machineId)?.active === true,
  });
}

/** The dot of a session's colour, with an outline that every theme shows. Nothing for text that is no colour. */
export function ColorDot({ color }: { color: string | null | undefined }) {
  const shown = cssColor(color);
  return (
    shown && (
      <b role="img" aria-label={`Colour: ${color}`} style={{ color: shown, WebkitTextStroke: '1px var(--line-strong)' }}>
        ●&nbsp;
      </b>
    )
  );
}

export function SessionRow({ session }: { session: SessionSummary }) {
  const [path] = useLocation();
  const { id, metadata, todoProgress, pendingRequestsCount, updatedAt, lastMessageAt = updatedAt, unseenSince } = session;
  const { activity, text, detail, idle } = currentStatus(session, pendingRequestsCount);
  const agent = agentLabel(metadata);
  const isOpen = path === `/sessions/${id}` || path.startsWith(`/sessions/${id}/`);
  return (
    <Link href={`/sessions/${id}`} class="session-row" data-activity={activity} aria-current={isOpen ? 'page' : undefined}>
      <span class="activity-bar" aria-hidden />
      <span class={unseenSince === undefined ? 'session-title ellipsis name' : 'session-title ellipsis name unseen'}>
        <ColorDot color={session.color} />
        {sessionTitle(session)}
      </span>
      <span class="session-time muted">{activity !== 'working' && formatAge(lastMessageAt)}</span>
      <span class="session-details">
        <span class={`${CHIPS[activity]} session-status`}>{idle === undefined ? text : `${text} · ${idle}`}</span>
        {detail !== undefined && (
          <span class="mono ellipsis">
            <EscapedText text={detail} />
          </span>
        )}
        {session.pinned && metadata?.path && <span class="mono ellipsis">{shortenPath(metadata.path)}</span>}
        {session.pinned && metadata?.host && <span class="ellipsis">{metadata.host}</span>}
        {metadata?.worktree?.branch && <span class="mono ellipsis">{metadata.worktree.branch}</span>}
        {agent && <span class="ellipsis">{agent}</span>}
        {todoProgress && (
          <span class="todo-progress" role="img" aria-label={`${todoProgress.completed} of ${todoProgress.total} todos done`}>
            {todoProgress.completed}/{todoProgress.total}
          </span>
        )}
      </span>
    </Link>
  );
}
