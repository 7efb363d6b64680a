/** A row of the log of notifications: the session, the outcome, and the failures of push services. */

import './log-rows.css';
import { Link } from 'wouter-preact';
import type { PushLogEntry } from '../api/types.ts';
import { describeFailure, describeOutcome } from '../content/push-log.ts';
import { formatAge } from '../ui/format.ts';

export function PushEntry({ entry }: { entry: PushLogEntry }) {
  return (
    <>
      <div class="spread">
        <Link class="ellipsis" href={`/sessions/${entry.sessionId}`}>
          {entry.body}
        </Link>
        <time class="small muted" dateTime={new Date(entry.at).toISOString()}>
          {formatAge(entry.at)}
        </time>
      </div>
      <p class="small">
        {entry.title}: {describeOutcome(entry)}
      </p>
      {[...entry.failures, ...entry.retries].map((failure, index) => (
        <p key={index} class="small muted">
          {describeFailure(failure)} ({[failure.service, failure.status].filter(Boolean).join(', ')})
        </p>
      ))}
    </>
  );
}
