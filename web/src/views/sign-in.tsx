/** Signing in with the access token. */

import './sign-in.css';
import { useState } from 'preact/hooks';
import { sentence } from '../api/errors.ts';
import { signIn } from '../hub.ts';
import { signedOutBecause } from '../state/store.ts';

/** The page of who is not signed in. */
export function SignIn() {
  const [token, setToken] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const why = error ?? signedOutBecause.value;
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await signIn(token.trim());
    } catch (failure) {
      setError(sentence(failure));
      setBusy(false);
    }
  };
  return (
    <main class="sign-in">
      <form class="stack" onSubmit={submit}>
        <img src="/icon.svg" alt="" width={56} height={56} />
        <div>
          <h1>Session gateway</h1>
          <p class="muted">Watch and steer your coding agents from here.</p>
        </div>
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
            The hub prints it when it starts with <code>npm run dev</code>. It stays in this browser until you sign out.
          </p>
        </div>
        {why && (
          <p class="notice danger" role="alert">
            {why}
          </p>
        )}
        <button type="submit" class="button primary" disabled={busy}>
          {busy ? 'Signing in …' : 'Sign in'}
        </button>
      </form>
    </main>
  );
}
