/** The settings: of this browser, and the devices of the namespace. */

import { LogOut } from 'lucide-preact';
import { unwrap } from '../api/client.ts';
import { revokeThisDevice } from '../state/devices.ts';
import { api, auth } from '../state/hub-client.ts';
import { unsentMessages } from '../state/outbox.ts';
import { unsubscribe } from '../state/push.ts';
import { namespace } from '../state/store.ts';
import { setTheme, theme, THEMES } from '../state/theme.ts';
import { hasKeyboard } from '../ui/device.ts';
import { openDialog } from '../ui/dialog.tsx';
import { useFetch } from '../ui/use-fetch.ts';
import { Devices } from './devices.tsx';
import { Notifications } from './notifications.tsx';
import { SHORTCUTS } from './shortcuts.tsx';

/** How long signing out waits for the hub. Without an answer, the device stays in the list. */
const REVOKE_TIMEOUT_MS = 3000;

const THEME_LABELS = { system: 'System', light: 'Light', dark: 'Dark' };

export function Settings() {
  const { value: health } = useFetch('health', () => unwrap(api.GET('/health')));
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
            <select
              id="theme"
              class="input"
              value={theme.value}
              onChange={({ currentTarget }) => setTheme(THEMES.find((name) => name === currentTarget.value) ?? 'system')}
            >
              {THEMES.map((name) => (
                <option key={name} value={name}>
                  {THEME_LABELS[name]}
                </option>
              ))}
            </select>
          </div>
        </section>
        <Notifications />
        {hasKeyboard.value && (
          <section class="card stack" aria-labelledby="keys">
            <h2 id="keys">Keyboard shortcuts</h2>
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
            <button type="button" class="button danger" onClick={confirmSignOut}>
              <LogOut size={16} aria-hidden /> Sign out
            </button>
          </div>
        </section>
        {/* The last section: nothing below it moves when the list is loaded. */}
        <Devices />
      </div>
    </div>
  );
}

/** Signs out. Also turns notifications off, because they are for the signed-in namespace, and revokes the token of this browser. */
async function signOut(): Promise<void> {
  await unsubscribe().catch(() => {});
  if (auth.isDevice)
    await Promise.race([revokeThisDevice().catch(() => {}), new Promise((resolve) => setTimeout(resolve, REVOKE_TIMEOUT_MS))]);
  auth.signOut();
}

/** Signs out, but asks first if that deletes unsent messages. */
function confirmSignOut(): void {
  const { length } = unsentMessages();
  if (length === 0) return void signOut();
  openDialog({
    title: 'Sign out?',
    text:
      length === 1
        ? 'A message is not sent yet. Signing out deletes it.'
        : `${length} messages are not sent yet. Signing out deletes them.`,
    action: 'Sign out',
    isDangerous: true,
    onConfirm: signOut,
  });
}

function KeyList() {
  return (
    <dl class="keys">
      {SHORTCUTS.map(({ keys, meaning }) => (
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
