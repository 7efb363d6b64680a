/** This browser's settings. */

import { LogOut } from 'lucide-preact';
import { data } from '../api/client.ts';
import { api, auth } from '../hub.ts';
import { unsubscribe } from '../push.ts';
import { namespace } from '../state/store.ts';
import { setTheme, THEMES, theme } from '../state/theme.ts';
import { hasKeyboard } from '../ui/device.ts';
import { useRead } from '../ui/use-read.ts';
import { Notifications } from './notifications.tsx';
import { KEYS } from './shortcuts.tsx';

const THEME_WORDS = { system: 'As the system', light: 'Light', dark: 'Dark' };

/** The view. */
export function Settings() {
  const { value: health } = useRead('health', () => data(api.GET('/health')));
  return (
    <div class="page" tabIndex={0} role="region" aria-label="Settings">
      <div class="page-head">
        <h1>Settings</h1>
      </div>
      <div class="stack">
        <section class="card stack" aria-labelledby="appearance">
          <h2 id="appearance">Appearance</h2>
          <div class="field">
            <label for="theme">Theme</label>
            <select id="theme" class="input" value={theme.value} onChange={({ currentTarget }) => setTheme(THEMES.find((one) => one === currentTarget.value) ?? 'system')}>
              {THEMES.map((one) => (
                <option key={one} value={one}>
                  {THEME_WORDS[one]}
                </option>
              ))}
            </select>
          </div>
        </section>
        <Notifications />
        {hasKeyboard.value && (
          <section class="card stack" aria-labelledby="keys">
            <h2 id="keys">Keys</h2>
            <KeyList />
          </section>
        )}
        <section class="card stack" aria-labelledby="account">
          <h2 id="account">Account</h2>
          <p>
            Namespace <span class="mono">{namespace.value}</span>
            {health && <span class="muted"> · hub {health.version}</span>}
          </p>
          <div>
            <button type="button" class="button danger" onClick={() => void signOut()}>
              <LogOut size={16} aria-hidden /> Sign out
            </button>
          </div>
        </section>
      </div>
    </div>
  );
}

/** Whoever signs out here gets no notifications here, either. */
async function signOut(): Promise<void> {
  await unsubscribe().catch(() => {});
  auth.signOut();
}

/** The keys of the console. */
function KeyList() {
  return (
    <dl class="keys">
      {KEYS.map(({ keys, meaning }) => (
        <div key={meaning}>
          <dt>
            <kbd>{keys}</kbd>
          </dt>
          <dd>{meaning}</dd>
        </div>
      ))}
    </dl>
  );
}
