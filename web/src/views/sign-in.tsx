/** The sign-in page. */

import './sign-in.css';
import { useState } from 'preact/hooks';
import { errorText } from '../api/errors.ts';
import { signIn } from '../state/sign-in.ts';
import { signOutReason } from '../state/store.ts';

export function SignIn() {
  const [token, setToken] = useState('');
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const message = error ?? signOutReason.value;
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await signIn(token.trim());
    } catch (failure) {
      setError(errorText(failure));
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
            <code>npm run dev</code> prints it. It is stored in this browser until you sign out.
          </p>
        </div>
        {message && (
          <p class="notice danger" role="alert">
            {message}
          </p>
        )}
        <button type="submit" class="button primary" disabled={isBusy}>
          {isBusy ? 'Signing in …' : 'Sign in'}
        </button>
      </form>
    </main>
  );
}
