/** The status of the account: versions, counts, and the latest faults and notifications. */

import './status.css';
import { ArrowLeft, RotateCw } from 'lucide-preact';
import type { ComponentChildren } from 'preact';
import { Link } from 'wouter-preact';
import type { ConnectionState } from '../api/channel.ts';
import { unwrap } from '../api/client.ts';
import type { Status as HubStatus } from '../api/types.ts';
import { describeFault, type Fault, faultLine } from '../content/faults.ts';
import { formatSize } from '../content/file-size.ts';
import { describeStorage } from '../content/storage-use.ts';
import { api } from '../state/hub-client.ts';
import { connectionState, state } from '../state/store.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { formatAge, formatCount, formatFullTime } from '../ui/format.ts';
import { ErrorNotice, Skeleton } from '../ui/loading.tsx';
import { useFetch } from '../ui/use-fetch.ts';
import { PushEntry } from './push-entry.tsx';

const CONNECTION_TEXTS: Record<ConnectionState, string> = {
  live: 'Connected',
  connecting: 'Connecting',
  checking: 'Checking',
  polling: 'Refreshing every 10 seconds',
  reconnecting: 'Lost, reconnecting',
  offline: 'This device is offline',
};

export function Status() {
  const { value, error, isLoading, refetch } = useFetch('status', () => unwrap(api.GET('/api/status')));
  return (
    <div class="page" tabIndex={0} role="region" aria-label="Status">
      <div class="page-head">
        <div class="row">
          <Link href="/settings" class="button quiet icon" aria-label="Back to settings">
            <ArrowLeft size={20} />
          </Link>
          <h1>Status</h1>
        </div>
        <button type="button" class="button" disabled={isLoading} onClick={refetch}>
          <RotateCw size={16} /> Refresh
        </button>
      </div>
      {error !== null ? (
        <ErrorNotice text={error} onRetry={refetch} />
      ) : value === undefined ? (
        <Skeleton label="Loading the status" lines={6} />
      ) : (
        <div class="stack">
          <HubSection status={value} />
          <AccountSection status={value} />
          <Faults status={value} />
          <Notifications status={value} />
        </div>
      )}
    </div>
  );
}

function HubSection({ status: { version, database } }: { status: HubStatus }) {
  return (
    <section class="card stack" aria-labelledby="status-hub">
      <h2 id="status-hub">Hub</h2>
      {version !== CONSOLE_VERSION && (
        <div class="notice warn">
          <span>This page and the hub have different versions.</span>
          <button type="button" class="button" onClick={() => location.reload()}>
            Reload
          </button>
        </div>
      )}
      <dl class="status-facts">
        <Fact name="Connection">{CONNECTION_TEXTS[connectionState.value]}</Fact>
        <Fact name="Database">
          {database.isStalled ? <span class="chip danger">does not answer</span> : 'Answers'}
          {database.name !== undefined && ` · ${database.name}`}
          {database.queuedBytes > 0 && ` · ${formatSize(database.queuedBytes)} of changes wait`}
        </Fact>
        <Fact name="Hub version">{version}</Fact>
        <Fact name="Page version">{CONSOLE_VERSION}</Fact>
      </dl>
    </section>
  );
}

function AccountSection({ status }: { status: HubStatus }) {
  const { namespace, hash, sessions, machines, messages, sockets } = status;
  return (
    <section class="card stack" aria-labelledby="status-account">
      <h2 id="status-account">Account</h2>
      <dl class="status-facts">
        <Fact name="Name">{namespace}</Fact>
        <Fact name="Sessions">
          {formatCount(sessions.total)} · {formatCount(sessions.active)} active
        </Fact>
        <Fact name="Messages">{formatCount(messages)}</Fact>
        <Fact name="Machines">
          {formatCount(machines.total)} · {formatCount(machines.online)} online
        </Fact>
        <Fact name="Connections">
          {counted(sockets.clis, 'agent or machine', 'agents and machines')} ·{' '}
          {counted(sockets.webClients, 'browser tab or app', 'browser tabs and apps')}
        </Fact>
        {status.storage && <StorageFact storage={status.storage} />}
        <Fact name="Name in logs">
          <code>{hash}</code>
        </Fact>
      </dl>
    </section>
  );
}

function StorageFact({ storage }: { storage: NonNullable<HubStatus['storage']> }) {
  const { text, share, isNearlyFull } = describeStorage(storage);
  return (
    <Fact name="Storage">
      {text} {isNearlyFull && <span class="chip danger">nearly full</span>}
      {share !== undefined && (
        <progress value={share} max={1} aria-label="Used storage" class={isNearlyFull ? 'usage-bar high' : 'usage-bar'} />
      )}
    </Fact>
  );
}

function Faults({ status: { faults, loadedAt } }: { status: HubStatus }) {
  return (
    <section class="card stack" aria-labelledby="status-faults">
      <h2 id="status-faults">Latest faults</h2>
      <p class="muted small">Since the hub loaded this account ({formatAge(loadedAt)}). Older faults are in the log of the hub.</p>
      {faults.length === 0 ? (
        <p>None.</p>
      ) : (
        <ul role="list" class="log-rows" aria-labelledby="status-faults">
          {faults.map((fault) => (
            <li key={`${fault.at} ${faultLine(fault)}`}>
              <FaultRow fault={fault} />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function FaultRow({ fault }: { fault: Fault }) {
  return (
    <>
      <div class="spread">
        <p>
          <EscapedText text={describeFault(fault)} />
        </p>
        <time class="small muted" dateTime={new Date(fault.at).toISOString()} title={formatFullTime(fault.at)}>
          {formatAge(fault.at)}
        </time>
      </div>
      <details class="fault">
        <summary class="small">Log line</summary>
        <pre class="small">
          <EscapedText text={faultLine(fault)} />
        </pre>
      </details>
    </>
  );
}

function Notifications({ status: { pushes } }: { status: HubStatus }) {
  return (
    <section class="card stack" aria-labelledby="status-pushes">
      <h2 id="status-pushes">Latest notifications</h2>
      {state.value.config?.push.available === false && (
        <p class="notice warn">
          <span>
            The hub has no contact for push services. Its operator sets <code>VAPID_SUBJECT</code>, or serves the hub over https.
          </span>
        </p>
      )}
      {pushes.length === 0 ? (
        <p>None.</p>
      ) : (
        <ul role="list" class="log-rows" aria-labelledby="status-pushes">
          {pushes.map((entry) => (
            <li key={`${entry.at} ${entry.sessionId} ${entry.requestId}`}>
              <PushEntry entry={entry} />
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>
        <bdi>{children}</bdi>
      </dd>
    </>
  );
}

const counted = (count: number, one: string, several: string): string => `${formatCount(count)} ${count === 1 ? one : several}`;
