/** The page of a link with a code, for a signed-in browser: approves a device that asks for access. */

import './devices.css';
import { Check, X } from 'lucide-preact';
import { useState } from 'preact/hooks';
import { Link, useLocation } from 'wouter-preact';
import { errorText } from '../api/errors.ts';
import type { AccessRequest } from '../api/types.ts';
import { isShownByNewDevice, PAIR_PATH, readCode, SIGN_IN_PATH } from '../content/device-code.ts';
import { DEVICE_KINDS } from '../content/device-name.ts';
import { decideAccessRequest, fetchAccessRequest } from '../state/devices.ts';
import { namespace, otherAccounts } from '../state/store.ts';
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
      {code === null ? (
        <EnterCode />
      ) : isShownByNewDevice(code) ? (
        <RequestOfCode key={code} code={code} />
      ) : (
        <SignInCodeNotice code={code} />
      )}
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
      <CodeField value={text} onChange={setText} help="The computer or device that asks for access shows the code." />
      <ErrorNotice text={error} />
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

/** Shown for a code that signs in another device: this browser is signed in already. */
function SignInCodeNotice({ code }: { code: string }) {
  return (
    <section class="card stack">
      <p>
        This browser is already signed in to the account <span class="mono">{namespace.value}</span>. The code{' '}
        <span class="mono">{code}</span> adds another device: open the link there, or enter the code on its sign-in page. If the code is of
        another account, it can also add that account to this browser.
      </p>
      <div class="row wrap">
        <Link href={`${SIGN_IN_PATH}#${code}`} class="button">
          Add account
        </Link>
        <Link href="/" class="button primary">
          Open the sessions
        </Link>
      </div>
    </section>
  );
}

function RequestOfCode({ code }: { code: string }) {
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
  const decide = async (chosen: 'approve' | 'deny') => {
    setBusy(true);
    setError(null);
    try {
      await decideAccessRequest(code, chosen);
      setDecision(chosen);
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
        It gets full access to the account <span class="mono">{namespace.value}</span>, until you revoke it. If you did not start it
        yourself, or the code differs, deny the request.
      </p>
      <OtherAccounts code={code} />
      <ErrorNotice text={error} />
      <div class="actions">
        <button type="button" class="button danger" disabled={isBusy} onClick={() => void decide('deny')}>
          <X size={16} /> Deny
        </button>
        <button type="button" class="button primary" disabled={isBusy} onClick={() => void decide('approve')}>
          <Check size={16} /> Approve
        </button>
      </div>
    </section>
  );
}

/** Links that open the request in another account of this browser. */
function OtherAccounts({ code }: { code: string }) {
  const others = otherAccounts.value;
  if (others.length === 0) return null;
  return (
    <p class="row wrap">
      <span>Connect it to another account:</span>
      {others.map(({ namespace: name }) => (
        <a key={name} class="button" href={`${PAIR_PATH}?account=${encodeURIComponent(name)}#${code}`}>
          <span class="mono ellipsis">{name}</span>
        </a>
      ))}
    </p>
  );
}
