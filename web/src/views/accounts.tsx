/** The settings sections with the accounts of this browser, and the links to other hubs. */

import './accounts.css';
import { ExternalLink, LogOut, Plus, Trash2, UserPlus } from 'lucide-preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Link } from 'wouter-preact';
import { unwrap } from '../api/client.ts';
import { errorText } from '../api/errors.ts';
import { SIGN_IN_PATH } from '../content/device-code.ts';
import { api, switchAccount } from '../state/hub-client.ts';
import { addHub, MAX_HUB_NAME_LENGTH, otherHubs, removeHub } from '../state/other-hubs.ts';
import { namespace } from '../state/store.ts';
import { ErrorNotice } from '../ui/loading.tsx';
import { useFetch } from '../ui/use-fetch.ts';
import { AccountCounts, listAccounts } from './account-menu.tsx';
import { confirmSignOut } from './sign-out.ts';

export function Accounts() {
  const { value: health } = useFetch('health', () => unwrap(api.GET('/health')));
  return (
    <section class="card stack" aria-labelledby="accounts">
      <h2 id="accounts">Accounts</h2>
      <p class="muted">
        This browser is signed in to these accounts of the hub. Their drafts, unsent messages and notifications are kept apart.
      </p>
      {/* A line of its own, which has its height before the version is loaded. */}
      <p class="muted">{health ? `This hub has version ${health.version}.` : '\u00a0'}</p>
      <ul role="list" class="accounts" aria-label="Accounts">
        {listAccounts().map(({ namespace: name, ...counts }) => (
          <li key={name}>
            <span class="mono ellipsis">{name}</span>
            <AccountCounts {...counts} />
            {name === namespace.value ? (
              <span class="chip accent">current</span>
            ) : (
              <button type="button" class="button" aria-label={`Switch to ${name}`} onClick={() => switchAccount(name, './settings')}>
                Switch
              </button>
            )}
          </li>
        ))}
      </ul>
      <div class="row wrap account-actions">
        <Link href={SIGN_IN_PATH} class="button">
          <UserPlus size={16} /> Add account
        </Link>
        <button type="button" class="button danger" onClick={confirmSignOut}>
          <LogOut size={16} /> <span class="ellipsis">Sign out of {namespace.value}</span>
        </button>
      </div>
      <OtherHubs />
    </section>
  );
}

function OtherHubs() {
  const [isAdding, setAdding] = useState(false);
  const hubs = otherHubs.value;
  return (
    <>
      <h3>Other hubs</h3>
      <p class="muted">Each hub has its own page, accounts and notifications. Links to other hubs appear in the menu of accounts.</p>
      {hubs.length > 0 && (
        <ul role="list" class="accounts" aria-label="Other hubs">
          {hubs.map((hub) => (
            <li key={hub.origin}>
              <a href={hub.origin} class="ellipsis">
                <ExternalLink size={16} /> {hub.name} <span class="muted small">{hub.origin.replace(/.*\/\//, '')}</span>
              </a>
              <button type="button" class="button quiet icon" aria-label={`Remove ${hub.name}`} onClick={() => removeHub(hub)}>
                <Trash2 size={18} />
              </button>
            </li>
          ))}
        </ul>
      )}
      {isAdding ? (
        <HubForm onDone={() => setAdding(false)} />
      ) : (
        <div>
          <button type="button" class="button" onClick={() => setAdding(true)}>
            <Plus size={16} /> Add a hub
          </button>
        </div>
      )}
    </>
  );
}

function HubForm({ onDone }: { onDone: () => void }) {
  const [address, setAddress] = useState('');
  const [name, setName] = useState('');
  const [error, setError] = useState<string | null>(null);
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => input.current?.focus(), []);
  const submit = (event: Event) => {
    event.preventDefault();
    try {
      addHub(name, address.trim());
      onDone();
    } catch (failure) {
      setError(errorText(failure));
    }
  };
  return (
    <form class="stack" onSubmit={submit}>
      <div class="hub-form">
        <div class="field">
          <label for="hub-address">Address</label>
          <input
            id="hub-address"
            ref={input}
            class="input"
            inputMode="url"
            autocomplete="off"
            autocapitalize="none"
            spellcheck={false}
            required
            placeholder="https://hub.example.com"
            value={address}
            onInput={({ currentTarget }) => setAddress(currentTarget.value)}
          />
        </div>
        <div class="field">
          <label for="hub-name">Name (optional)</label>
          <input
            id="hub-name"
            class="input"
            dir="auto"
            maxLength={MAX_HUB_NAME_LENGTH}
            value={name}
            onInput={({ currentTarget }) => setName(currentTarget.value)}
          />
        </div>
      </div>
      <ErrorNotice text={error} />
      <div class="row wrap">
        <button type="button" class="button" onClick={onDone}>
          Cancel
        </button>
        <button type="submit" class="button primary">
          Add hub
        </button>
      </div>
    </form>
  );
}
