/** The settings: of this browser, and the devices of the namespace. */

import { Activity } from 'lucide-preact';
import { Link } from 'wouter-preact';
import { setTheme, theme, THEMES } from '../state/theme.ts';
import { hasKeyboard } from '../ui/device.ts';
import { Accounts } from './accounts.tsx';
import { Devices } from './devices.tsx';
import { lazy } from './lazy.tsx';
import { Notifications } from './notifications.tsx';
import { ShortcutList } from './shortcut-list.tsx';

const THEME_LABELS = { system: 'System', light: 'Light', dark: 'Dark' };

const Status = lazy(() => import('./status.tsx').then(({ Status }) => Status));

/** `page`: the part of the address after `/settings/`. */
export function Settings({ page }: { page: string | undefined }) {
  return page === 'status' ? <Status /> : <AllSettings />;
}

function AllSettings() {
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
            <ShortcutList />
          </section>
        )}
        <Accounts />
        <section class="card stack" aria-labelledby="status">
          <h2 id="status">Status</h2>
          <p class="muted">What this account has on the hub, and what went wrong lately.</p>
          <div>
            <Link href="/settings/status" class="button">
              <Activity size={16} /> Show the status
            </Link>
          </div>
        </section>
        {/* The last section: nothing below it moves when the list is loaded. */}
        <Devices />
      </div>
    </div>
  );
}
