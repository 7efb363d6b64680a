/** The sign-in page: with a code, or with an access token. */

import './sign-in.css';
import { useEffect, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { errorText } from '../api/errors.ts';
import { isShownByNewDevice, readCode } from '../content/device-code.ts';
import { describeBrowser, MAX_DEVICE_NAME_LENGTH } from '../content/device-name.ts';
import { linkedAccount, signIn, signInWithCode } from '../state/sign-in.ts';
import { namespace, signOutReason } from '../state/store.ts';
import { ErrorNotice } from '../ui/loading.tsx';
import { CodeField, useLinkCode } from './code-field.tsx';

const REQUEST_TEXT = 'A device asks for access with this code. Sign in here first, to approve it.';

export function SignIn() {
  const linkCode = useLinkCode();
  const [error, setError] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const isRequest = linkCode !== null && isShownByNewDevice(linkCode);
  const message = error ?? signOutReason.value;
  const current = namespace.value;
  const linked = linkedAccount();
  const attempt = async (operation: () => Promise<void>) => {
    setBusy(true);
    setError(null);
    try {
      await operation();
    } catch (failure) {
      setError(errorText(failure));
      setBusy(false);
    }
  };
  return (
    <main class="sign-in">
      <div class="stack">
        <img src="icon.svg" alt="" width={56} height={56} />
        <div>
          <h1>{current === null ? 'Session gateway' : 'Add an account'}</h1>
          <p class="muted">
            {current === null
              ? 'Watch and steer your coding agents from here.'
              : `${linked === null ? 'Sign in to another account of this hub.' : `Sign in to the account “${linked}” to open the link.`} You stay signed in to “${current}”.`}
          </p>
        </div>
        {isRequest && (
          <p class="notice">
            <span>
              <strong class="mono">{linkCode}</strong> {REQUEST_TEXT}
            </span>
          </p>
        )}
        <ErrorNotice text={message} />
        <CodeForm linkCode={isRequest ? null : linkCode} isBusy={isBusy} attempt={attempt} />
        <TokenForm isBusy={isBusy} attempt={attempt} />
        {current !== null && (
          <Link href="/" class="button quiet">
            <span class="ellipsis">Back to {current}</span>
          </Link>
        )}
      </div>
    </main>
  );
}

interface FormProps {
  isBusy: boolean;
  /** Runs a sign-in and shows its error. */
  attempt: (operation: () => Promise<void>) => void;
}

function CodeForm({ linkCode, isBusy, attempt }: FormProps & { linkCode: string | null }) {
  const proposed = describeBrowser(navigator.userAgent);
  const [code, setCode] = useState('');
  const [name, setName] = useState(proposed.name);
  useEffect(() => setCode(linkCode ?? ''), [linkCode]);
  const submit = (event: Event) => {
    event.preventDefault();
    attempt(async () => {
      const enteredCode = readCode(code, location.origin);
      if (isShownByNewDevice(enteredCode))
        throw new Error('This is the code of a device that asks for access. Sign in first, then approve it.');
      await signInWithCode(enteredCode, { name: name.trim(), kind: proposed.kind });
    });
  };
  return (
    <form class="stack" onSubmit={submit}>
      <CodeField
        value={code}
        onChange={setCode}
        help="In a browser that is signed in, choose Settings, Add a device. A hub on your computer prints a link with a code when it starts."
      />
      <div class="field">
        <label for="device-name">Name of this device</label>
        <input
          id="device-name"
          class="input"
          dir="auto"
          required
          maxLength={MAX_DEVICE_NAME_LENGTH}
          value={name}
          onInput={({ currentTarget }) => setName(currentTarget.value)}
        />
      </div>
      <button type="submit" class="button primary" disabled={isBusy}>
        {isBusy ? 'Signing in …' : 'Sign in'}
      </button>
    </form>
  );
}

function TokenForm({ isBusy, attempt }: FormProps) {
  const [token, setToken] = useState('');
  const submit = (event: Event) => {
    event.preventDefault();
    attempt(() => signIn(token.trim()));
  };
  return (
    <details>
      <summary>Use an access token</summary>
      <form class="stack" onSubmit={submit}>
        <div class="field">
          <label for="token">Access token</label>
          <input
            id="token"
            class="input mono"
            type="password"
            autocomplete="current-password"
            required
            value={token}
            onInput={({ currentTarget }) => setToken(currentTarget.value)}
            aria-describedby="token-help"
          />
          <p id="token-help" class="muted small">
            A hub on your computer prints it. It is stored in this browser until you sign out.
          </p>
        </div>
        <button type="submit" class="button" disabled={isBusy}>
          Sign in with the token
        </button>
      </form>
    </details>
  );
}
