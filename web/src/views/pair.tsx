/** The page of a link with a code, for a signed-in browser: approves a device that asks for access. */

import './devices.css';
import { Check, X } from 'lucide-preact';
import { useState } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import { errorText } from '../api/errors.ts';
import type { AccessRequest } from '../api/types.ts';
import { isRequestCode, readCode } from '../content/device-code.ts';
import { DEVICE_KINDS } from '../content/device-name.ts';
import { decideAccessRequest, fetchAccessRequest } from '../state/devices.ts';
import { namespace } from '../state/store.ts';
import { EscapedText } from '../ui/escaped-text.tsx';
import { formatAge } from '../ui/format.ts';
import { ErrorNotice, Skeleton } from '../ui/loading.tsx';
import { useFetch } from '../ui/use-fetch.ts';
import { CodeField, useLinkCode } from './code-field.tsx';

export function Pair() {
  const code = useLinkCode();
  return (
    <div class="page" tabIndex={0} role="region" aria-label="Connect a device">
      <div class="page-head">
        <h1>Connect a device</h1>
      </div>
      {code === null ? <EnterCode /> : isRequestCode(code) ? <Request key={code} code={code} /> : <OtherDevice code={code} />}
    </div>
  );
}

function EnterCode() {
  const [, navigate] = useLocation();
  const [text, setText] = useState('');
  const [error, setError] = useState<string | null>(null);
  const submit = (event: Event) => {
    event.preventDefault();
    try {
      // Setting the fragment fires the event that shows the request; `navigate` would not.
      location.hash = readCode(text, location.origin);
    } catch (failure) {
      setError(errorText(failure));
    }
  };
  return (
    <form class="card stack" onSubmit={submit}>
      <CodeField value={text} onChange={setText} help="The CLI or device that asks for access shows the code." />
      {error && (
        <p class="notice danger" role="alert">
          {error}
        </p>
      )}
      <div class="actions">
        <button type="button" class="button" onClick={() => navigate('/settings')}>
          Cancel
        </button>
        <button type="submit" class="button primary">
          Continue
        </button>
      </div>
    </form>
  );
}

/** A code that signs in the device where it is entered, and this browser is signed in already. */
function OtherDevice({ code }: { code: string }) {
  return (
    <section class="card stack">
      <p>
        This browser is already signed in to the namespace <span class="mono">{namespace.value}</span>. The code{' '}
        <span class="mono">{code}</span> adds another device: open the link there, or enter the code on its sign-in page.
      </p>
      <div>
        <Link href="/" class="button primary">
          Open the sessions
        </Link>
      </div>
    </section>
  );
}

function Request({ code }: { code: string }) {
  const { value, error, refetch } = useFetch(code, () => fetchAccessRequest(code));
  if (error !== null) {
    return (
      <div class="stack">
        <ErrorNotice text={error} onRetry={refetch} />
        <div>
          <button type="button" class="button" onClick={() => (location.hash = '')}>
            Enter another code
          </button>
        </div>
      </div>
    );
  }
  if (value === undefined) return <Skeleton label="Loading the request" />;
  return <Decision code={code} request={value} />;
}

function Decision({ code, request }: { code: string; request: AccessRequest }) {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const [decision, setDecision] = useState<'approve' | 'deny' | null>(null);
  const { name, kind, createdAt } = request;
  const decide = async (next: 'approve' | 'deny') => {
    setBusy(true);
    setError(null);
    try {
      await decideAccessRequest(code, next);
      setDecision(next);
    } catch (failure) {
      setError(errorText(failure));
    }
    setBusy(false);
  };
  if (decision !== null) {
    return (
      <section class="card stack">
        <p role="status">
          {decision === 'approve' ? (
            <>
              <strong>
                <EscapedText text={name} />
              </strong>{' '}
              is connected. You can revoke its access under Settings.
            </>
          ) : (
            'The request was denied. The device did not get access.'
          )}
        </p>
        <div>
          <Link href="/" class="button primary">
            Open the sessions
          </Link>
        </div>
      </section>
    );
  }
  return (
    <section class="card stack" aria-labelledby="request-title">
      <h2 id="request-title">
        Connect <EscapedText text={name} />?
      </h2>
      <p class="muted small">
        {DEVICE_KINDS[kind]} · asked {formatAge(createdAt)}
      </p>
      <p>Does the device show this code?</p>
      <p class="device-code mono">{code}</p>
      <p>
        It gets full access to the namespace <span class="mono">{namespace.value}</span>, until you revoke it. If you did not start it
        yourself, or the code differs, deny the request.
      </p>
      {error && (
        <p class="notice danger" role="alert">
          {error}
        </p>
      )}
      <div class="actions">
        <button type="button" class="button danger" disabled={isBusy} onClick={() => void decide('deny')}>
          <X size={16} aria-hidden /> Deny
        </button>
        <button type="button" class="button primary" disabled={isBusy} onClick={() => void decide('approve')}>
          <Check size={16} aria-hidden /> Approve
        </button>
      </div>
    </section>
  );
}
