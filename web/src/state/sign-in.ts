/**
 * Sign-in: with a code, with a token that the user types, a sign-in link (`#token=…`), or the accounts stored in this browser. A link with
 * `?account=NAMESPACE` opens that account.
 */

import { isValidNamespace, tokenFromFragment } from '../api/access-token.ts';
import type { CheckedToken } from '../api/auth.ts';
import { errorText, HubError } from '../api/errors.ts';
import { codeOfPage, SIGN_IN_PATH } from '../content/device-code.ts';
import { pagePath } from '../content/hub-address.ts';
import { openDialog } from '../ui/dialog.tsx';
import { showError } from '../ui/toasts.tsx';
import { whenIdle } from '../ui/when-idle.ts';
import { ACCOUNT_PARAMETER, accounts } from './account.ts';
import { deleteRecordsExcept } from './database.ts';
import { auth, connect, SIGN_OUT_REASON_KEY, switchAccount } from './hub-client.ts';
import { namespace, signOutReason } from './store.ts';

/** On the sign-in page: the link that opens after the sign-in. */
const LINK_PARAMETER = 'link';

/**
 * Signs in with an access token, and opens the account.
 * @throws {HubError} if the hub rejects the token or cannot be reached
 */
export async function signIn(accessToken: string): Promise<void> {
  await openAddedAccount(await auth.addAccount(accessToken));
}

/**
 * Signs in with a code: adds this browser to the devices of the code's namespace, and opens the account.
 * @throws {HubError} if the hub rejects the code or cannot be reached
 */
export async function signInWithCode(code: string, device: { name: string; kind: string }): Promise<void> {
  const added = await auth.addAccountWithCode(code, device);
  const page = pageAfterSignIn(added);
  // The code is used, so the page of its link is not shown.
  if (codeOfPage() === code) history.replaceState(history.state, '', '.');
  await openAddedAccount(added, page);
}

/** Opens the account in this page if the page has no account yet. Otherwise loads the page again. */
async function openAddedAccount(name: string, page = pageAfterSignIn(name)): Promise<void> {
  if (namespace.value !== null) {
    switchAccount(name, page);
    return;
  }
  auth.open(name);
  if (pagePath() === SIGN_IN_PATH) history.replaceState(history.state, '', '.');
  openRequestedAccount();
  await startConsole(name);
}

/** Returns the link for which the user adds an account, or null. */
function linkOfSignIn(): URL | null {
  const link = pagePath() === SIGN_IN_PATH ? new URLSearchParams(location.search).get(LINK_PARAMETER) : null;
  const url = link !== null && URL.canParse(link, location.origin) ? new URL(link, location.origin) : null;
  // Anyone can write the address of this page, so the link in the address is checked.
  return url?.origin === location.origin && isValidNamespace(accountOf(url)) ? url : null;
}

const accountOf = (url: URL) => url.searchParams.get(ACCOUNT_PARAMETER) ?? '';

/** Returns the account that the user adds to open a link, or null. */
export function linkedAccount(): string | null {
  const link = linkOfSignIn();
  return link && accountOf(link);
}

function pageAfterSignIn(name: string): URL | string {
  const link = linkOfSignIn();
  return link && accountOf(link) === name ? link : '.';
}

/** Signs in at page load, with the token of a sign-in link or a stored account. Without a token and an account, the sign-in page is shown. */
export async function signInAtLoad(): Promise<void> {
  await openLinkOrAccount();
  // An interrupted sign-out may have left data.
  void deleteRecordsExcept((name) => accounts.get(name) !== null).catch(() => {});
}

async function openLinkOrAccount(): Promise<void> {
  const reason = sessionStorage.getItem(SIGN_OUT_REASON_KEY);
  sessionStorage.removeItem(SIGN_OUT_REASON_KEY);
  const current = auth.chooseAccount(openRequestedAccount());
  if (current === null) signOutReason.value = reason ?? requestedAccountText();
  else if (reason !== null) showError('Signed out', reason);
  const linkToken = tokenFromFragment(location.hash);
  if (linkToken !== null && (await openSignInLink(linkToken, current))) return;
  if (current !== null) await startConsole(current);
}

/**
 * Signs in with the token of a link. Before it replaces the open account by another one, it asks. Returns whether it has signed in.
 * @param current the namespace of the open account, or null
 */
async function openSignInLink(linkToken: string, current: string | null): Promise<boolean> {
  try {
    const checked = await auth.checkLinkToken(linkToken);
    clearFragment();
    if (current === null || checked.namespace === current) {
      await openAddedAccount(auth.addChecked(checked));
      return true;
    }
    confirmAccount(checked, current);
  } catch (error) {
    // After a transient error the fragment stays, so that a reload tries the link again.
    if (!(error instanceof HubError && error.isTransient)) clearFragment();
    if (current === null) signOutReason.value = `Sign-in link failed: ${errorText(error)}`;
    else showError('Sign-in link failed', errorText(error));
  }
  return false;
}

/**
 * Asks the user before a link signs in: a link from somebody else could make the user send messages to the namespace of that person.
 */
function confirmAccount(checked: CheckedToken, current: string): void {
  const linked = checked.namespace;
  const isKnown = accounts.get(linked) !== null;
  openDialog({
    title: isKnown ? `Switch to “${linked}”?` : `Add the account “${linked}”?`,
    text: `The link signs in to the account “${linked}”. You are signed in to “${current}”, and stay signed in there.`,
    action: isKnown ? 'Switch' : 'Add account',
    onConfirm: () => openAddedAccount(auth.addChecked(checked)),
  });
}

/**
 * Returns the namespace of `?account=` if this browser has the account, and removes the parameter from the address. Otherwise says which
 * account the link needs, and does not show the link's page: its session belongs to that account.
 */
function openRequestedAccount(): string | null {
  const url = new URL(location.href);
  const requested = url.searchParams.get(ACCOUNT_PARAMETER);
  if (requested === null) return null;
  const link = url.pathname + url.search;
  url.searchParams.delete(ACCOUNT_PARAMETER);
  const isValid = isValidNamespace(requested);
  const isKnown = accounts.get(requested) !== null;
  const isSignedOut = accounts.all().length === 0;
  // Without accounts, the sign-in page keeps the link until an account is added.
  if (isValid && isSignedOut) return null;
  history.replaceState(history.state, '', isKnown ? url : '.');
  if (isKnown) return requested;
  if (isValid) offerAccount(requested, link);
  else showError('The link names no valid account', 'Check the link.');
  return null;
}

function requestedAccountText(): string | null {
  const requested = new URLSearchParams(location.search).get(ACCOUNT_PARAMETER);
  return requested !== null && isValidNamespace(requested) ? `The link is for the account “${requested}”. Sign in to it first.` : null;
}

function offerAccount(requested: string, link: string): void {
  openDialog({
    title: `Not signed in to “${requested}”`,
    text: `The link is for the account “${requested}”. Add the account to open the link.`,
    action: 'Add account',
    onConfirm: async () => location.assign(`.${SIGN_IN_PATH}?${new URLSearchParams({ [LINK_PARAMETER]: link })}`),
  });
}

/** Removes the token from the address bar, so that users do not copy it. The browser history still has the token. */
function clearFragment(): void {
  history.replaceState(history.state, '', location.pathname + location.search);
}

async function startConsole(name: string): Promise<void> {
  signOutReason.value = null;
  await connect(name);
  // A page without these files works, and the next page loads them.
  whenIdle(() => void import('./background.ts').then(({ startBackgroundTasks }) => startBackgroundTasks()).catch(() => {}));
}

// A sign-in link that is opened in this tab changes only the fragment.
addEventListener('hashchange', () => {
  if (tokenFromFragment(location.hash) !== null) location.reload();
});
