/** The accounts of this browser besides the account of the page: the number of items that wait in each, read at intervals. */

import { Auth } from '../api/auth.ts';
import { type Api, createApi, unwrap } from '../api/client.ts';
import { HubError } from '../api/errors.ts';
import { showError } from '../ui/toasts.tsx';
import { countUnsent, deleteRecords, putAccountNames } from './database.ts';
import { accounts } from './account.ts';
import { authEnvironment } from './hub-client.ts';
import { namespace, type OtherAccount, otherAccounts } from './store.ts';

const CHECK_INTERVAL_MS = 5 * 60_000;
/** A page that is shown again checks at most this often. */
const MIN_INTERVAL_MS = 30_000;

const clients = new Map<string, Api>();
let handleRefusedAccount = () => {};

/** Returns the client of another account. */
export function apiOfAccount(name: string): Api {
  let api = clients.get(name);
  if (!api) {
    const onSignedOut = (_: string, reason: string | null) => {
      void deleteRecords(name).catch(() => {});
      showError(`Signed out of “${name}”`, reason ?? '');
      updateAccountList();
      handleRefusedAccount();
    };
    clients.set(name, (api = createApi(new Auth({ ...authEnvironment, onSignedOut }, name))));
  }
  return api;
}

/**
 * Starts to watch the other accounts.
 * @param onAccountRefused called after the hub has refused an account, which was then removed
 */
export function watchOtherAccounts(onAccountRefused: () => void): void {
  handleRefusedAccount = onAccountRefused;
  updateAccountList();
  let checkedAt = 0;
  const check = () => {
    if (document.visibilityState !== 'visible' || Date.now() < checkedAt + MIN_INTERVAL_MS) return;
    checkedAt = Date.now();
    void checkAccounts();
  };
  addEventListener('storage', updateAccountList);
  document.addEventListener('visibilitychange', check);
  setInterval(check, CHECK_INTERVAL_MS);
  check();
}

/** Reads the list of accounts, and keeps the known numbers. */
function updateAccountList(): void {
  const names = accounts.all().map((account) => account.namespace);
  const known = new Map(otherAccounts.value.map((account) => [account.namespace, account]));
  otherAccounts.value = names
    .filter((name) => name !== namespace.value)
    .map((name) => known.get(name) ?? { namespace: name, waiting: 0, unsent: 0 });
  // If the names cannot be stored, the service worker (`sw.ts`) shows notifications without the name of their namespace.
  void putAccountNames(names).catch(() => {});
}

async function checkAccounts(): Promise<void> {
  const unsent = await countUnsent().catch(() => new Map<string, number>());
  await Promise.all(
    otherAccounts.value.map(async ({ namespace: name }) => {
      updateAccount(name, { unsent: unsent.get(name) ?? 0 });
      // After an error, the previous number stays.
      const waiting = await countWaiting(apiOfAccount(name)).catch(() => undefined);
      if (waiting !== undefined) updateAccount(name, { waiting });
    }),
  );
}

function updateAccount(name: string, changes: Partial<OtherAccount>): void {
  otherAccounts.value = otherAccounts.value.map((account) => (account.namespace === name ? { ...account, ...changes } : account));
}

async function countWaiting(api: Api): Promise<number> {
  try {
    return (await unwrap(api.GET('/api/inbox', { params: { query: { limit: 1 } } }))).total;
  } catch (error) {
    if (!(error instanceof HubError && error.status === 404)) throw error;
    // A hub of an earlier version has no inbox.
    const { sessions } = await unwrap(api.GET('/api/sessions'));
    return sessions.reduce((sum, { active, pendingRequestsCount }) => sum + (active ? pendingRequestsCount : 0), 0);
  }
}
