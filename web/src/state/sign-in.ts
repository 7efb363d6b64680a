/** Sign-in: with a code, with a token that the user types, a sign-in link (`#token=…`), or the token stored in this browser. */

import { isValidNamespace, namespaceOf, tokenFromFragment } from '../api/auth.ts';
import { errorText, HubError } from '../api/errors.ts';
import { PAIR_PATH, parseCode } from '../content/device-code.ts';
import { openDialog } from '../ui/dialog.tsx';
import { showError } from '../ui/toasts.tsx';
import { deleteRecords } from './database.ts';
import { auth, connect, resetPage, SIGN_OUT_REASON_KEY } from './hub-client.ts';
import { namespace, signOutReason } from './store.ts';

/**
 * Signs in with an access token. Reloads the page if another namespace was signed in.
 * @throws {HubError} if the hub rejects the token or cannot be reached
 */
export async function signIn(accessToken: string): Promise<void> {
  const { namespace: name } = await auth.signIn(accessToken);
  if (namespace.value === null) await startConsole(name);
  else await resetPage();
}

/**
 * Redeems a code that adds this browser to the devices of a namespace.
 * @throws {HubError} if the hub rejects the code or cannot be reached
 */
export async function signInWithCode(code: string, device: { name: string; kind: string }): Promise<void> {
  const { namespace: name } = await auth.redeemCode(code, device);
  // The code is used, so the page of its link is not shown.
  if (location.pathname === PAIR_PATH && parseCode(location.hash.slice(1)) === code) history.replaceState(history.state, '', '/');
  await startConsole(name);
}

/** Signs in at page load, with the token of a sign-in link or the stored one. Without either token, the page for signing in is shown. */
export async function signInAtLoad(): Promise<void> {
  signOutReason.value = sessionStorage.getItem(SIGN_OUT_REASON_KEY);
  sessionStorage.removeItem(SIGN_OUT_REASON_KEY);
  const identity = auth.resume();
  const linkToken = tokenFromFragment(location.hash);
  if (linkToken !== null && !isValidNamespace(namespaceOf(linkToken))) {
    // The text of an invalid token is never shown: the author of the link chose it.
    clearFragment();
    showError('Sign-in link failed', 'The link contains no valid access token.');
  } else if (linkToken !== null && identity !== null && namespaceOf(linkToken) !== identity.namespace) {
    clearFragment();
    confirmNamespaceSwitch(linkToken, identity.namespace);
  } else if (linkToken !== null) {
    try {
      await signIn(linkToken);
      clearFragment();
      return;
    } catch (error) {
      signOutReason.value = `Sign-in link failed: ${errorText(error)}`;
      // After a transient error the fragment stays, so that a reload tries the link again.
      if (!(error instanceof HubError && error.isTransient)) clearFragment();
    }
  }
  if (identity !== null) await startConsole(identity.namespace);
  // An interrupted sign-out may have left data.
  else void deleteRecords(null).catch(() => {});
}

/** Asks first, because a link from somebody else could make the user send messages to that person's namespace. */
function confirmNamespaceSwitch(accessToken: string, current: string): void {
  const next = namespaceOf(accessToken);
  openDialog({
    title: `Switch to “${next}”?`,
    text: `The link signs in to the namespace “${next}”. You are signed in to “${current}”. Switching discards your drafts and unsent messages.`,
    action: 'Switch namespace',
    isDangerous: true,
    onConfirm: () => signIn(accessToken),
  });
}

/** Removes the token from the address bar, so that users do not copy it. The browser history still has the token. */
function clearFragment(): void {
  history.replaceState(history.state, '', location.pathname + location.search);
}

async function startConsole(name: string): Promise<void> {
  signOutReason.value = null;
  await connect(name);
}

// A sign-in link that is opened in this tab changes only the fragment.
addEventListener('hashchange', () => {
  if (tokenFromFragment(location.hash) !== null) location.reload();
});
