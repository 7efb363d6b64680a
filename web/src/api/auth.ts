/** Authentication: exchanges the token of an account for short-lived JWTs (`POST /api/auth`), and codes for tokens of devices. */

import { isDeviceToken, isValidNamespace, namespaceOf } from './access-token.ts';
import type { Account, Accounts } from './accounts.ts';
import { HubError, REQUEST_ID_HEADER, responseError, unreachableError } from './errors.ts';
import { authRequest, JWT_PREFIX, type Jwt, jsonRequest, NAMESPACE_KEY, readValidJwt } from './tab-account.ts';

/** The browser features that {@link Auth} uses; tests replace them. */
export interface AuthEnvironment {
  accounts: Accounts;
  tabStorage: Storage;
  fetch: (input: string, init: RequestInit) => Promise<Response>;
  now: () => number;
  /** Called after an account was signed out. `reason` is null if the user asked for it. */
  onSignedOut: (namespace: string, reason: string | null) => void;
}

/** An access token that the hub has accepted, with the namespace that the hub has named. Nothing of it is stored. */
export interface CheckedToken {
  accessToken: string;
  namespace: string;
  jwt: Jwt;
}

const DEVICE_LINK_TEXT =
  'The link contains the token of a device, which only that device may use. To sign in here, use a code: in a browser that is signed in, choose Settings, Add a device.';

/** The authentication of one account. */
export class Auth {
  #environment: AuthEnvironment;
  #renewal: Promise<Jwt> | null = null;
  #namespace: string | null;

  /** @param namespace of the account; null if the tab has no account yet: then {@link chooseAccount} or {@link open} must follow */
  constructor(environment: AuthEnvironment, namespace: string | null = null) {
    this.#environment = environment;
    this.#namespace = namespace;
  }

  /** The namespace of the account. A page never changes its account: it is reloaded. */
  get namespace(): string | null {
    return this.#namespace;
  }

  get #account(): Account | null {
    return this.#namespace === null ? null : this.#environment.accounts.get(this.#namespace);
  }

  /** Whether the browser still has the account: another tab may have signed out of it. */
  get isSignedIn(): boolean {
    return this.#account !== null;
  }

  /** Whether the token is the token of a device, and not an access token of the namespace. */
  get isDevice(): boolean {
    return isDeviceToken(this.#account?.token ?? '');
  }

  /** The token that the account has now; null if the browser no longer has the account. */
  get accountToken(): string | null {
    return this.#account?.token ?? null;
  }

  /** The random id that this browser sends to the hub with its connections. It is not the id of a device in the list of devices. */
  get browserId(): string {
    return this.#account?.device ?? '';
  }

  get #storedNamespace(): string | null {
    return this.#environment.tabStorage.getItem(NAMESPACE_KEY);
  }

  /**
   * Chooses the account of this tab, and opens it. Returns its namespace, or null if the browser has no accounts.
   * @param requested the preferred namespace; by default the namespace that this tab had open before a reload. Without an account of the
   *   preferred namespace, the account that was last opened in any tab is chosen.
   */
  chooseAccount(requested: string | null = null): string | null {
    const namespace = this.#environment.accounts.choose(requested ?? this.#storedNamespace)?.namespace ?? null;
    if (namespace === null) this.#clearTab(() => true);
    else this.open(namespace);
    return namespace;
  }

  /**
   * Opens an account in this tab. Deletes the data that the tab has stored for other accounts, except the JWTs of accounts that still exist:
   * the keys of JWTs name the account.
   */
  open(namespace: string): void {
    const { accounts, tabStorage } = this.#environment;
    if (this.#storedNamespace !== namespace) this.#clearTab((key) => !key.startsWith(JWT_PREFIX));
    this.#clearTab((key) => key.startsWith(JWT_PREFIX) && accounts.get(key.slice(JWT_PREFIX.length)) === null);
    tabStorage.setItem(NAMESPACE_KEY, namespace);
    accounts.setLast(namespace);
    this.#namespace = namespace;
  }

  /**
   * Exchanges an access token for a JWT, and adds the account. Returns its namespace.
   * @throws {HubError} if the hub rejects the token or cannot be reached
   */
  async addAccount(accessToken: string): Promise<string> {
    return this.addChecked(await this.#exchange(accessToken));
  }

  /**
   * Exchanges the token of a sign-in link for a JWT, and stores nothing. Only the hub knows the token's namespace: with a namespace for
   * each host name, the token does not name it.
   * @throws {HubError} if the hub rejects the token or cannot be reached
   * @throws {Error} if the token is no access token, or the token of a device
   */
  async checkLinkToken(token: string): Promise<CheckedToken> {
    if (isDeviceToken(token)) throw new Error(DEVICE_LINK_TEXT);
    // The text of an invalid token is never shown: the author of the link chose it.
    if (!isValidNamespace(namespaceOf(token))) throw new Error('The link contains no valid access token.');
    return this.#exchange(token);
  }

  /** Adds the account of a checked token. If the browser has the account already, replaces its token. Returns its namespace. */
  addChecked({ accessToken, namespace, jwt }: CheckedToken): string {
    this.#environment.accounts.add(namespace, accessToken);
    this.#setJwt(namespace, jwt);
    return namespace;
  }

  /**
   * Adds this browser to the devices of a code's namespace, and adds the account. If this browser already is a device of the namespace, it
   * keeps its token, and the new device is revoked. Returns the namespace.
   * @throws {HubError} if the hub rejects the code or cannot be reached
   */
  async addAccountWithCode(code: string, device: { name: string; kind: string }): Promise<string> {
    const added = (await this.#post('/api/devices', jsonRequest({ code, ...device }))) as {
      token: string;
      namespace: string;
      device: { id: string };
    };
    const { token, namespace } = added;
    const existing = this.#environment.accounts.get(namespace);
    // The other tabs and the notifications of this browser use the existing token.
    if (existing && isDeviceToken(existing.token) && (await this.#isAccepted(existing.token))) {
      await this.#revokeDevice(added.device.id, token).catch(() => {});
      return namespace;
    }
    this.#environment.accounts.add(namespace, token);
    this.#setJwt(namespace, null);
    return namespace;
  }

  async #isAccepted(token: string): Promise<boolean> {
    return this.#exchange(token).then(
      () => true,
      () => false,
    );
  }

  /** Revokes a device. `token`: the device's token. */
  async #revokeDevice(id: string, token: string): Promise<void> {
    const { jwt } = await this.#exchange(token);
    const headers = { authorization: `Bearer ${jwt.token}` };
    await this.#environment.fetch(`/api/devices/${encodeURIComponent(id)}`, { method: 'DELETE', headers });
  }

  /** Removes the account from this browser. `reason` is shown to the user; null if the user signed out. */
  signOut(reason: string | null = null): void {
    const namespace = this.#namespace;
    if (namespace === null) return;
    this.#environment.accounts.remove(namespace);
    this.#setJwt(namespace, null);
    if (this.#storedNamespace === namespace) this.#clearTab((key) => !key.startsWith(JWT_PREFIX));
    this.#environment.onSignedOut(namespace, reason);
  }

  /**
   * Signs out if the hub refused a request because the device of this browser was revoked.
   * @param accountToken the account's token when the request was sent. Meanwhile, the account may have got another token, which is kept
   */
  handleRefusal(error: HubError, accountToken: string | null): void {
    if (error.code === 'device_revoked' && accountToken === this.accountToken) this.signOut(signOutReason(error));
  }

  /** Deletes the current JWT, so that the next {@link getValidJwt} call requests a new one. */
  invalidateJwt(): void {
    if (this.#namespace !== null) this.#setJwt(this.#namespace, null);
  }

  /**
   * Returns a JWT that stays valid for at least a minute.
   * @throws {HubError} if the hub cannot be reached, or rejects the access token, which also signs out
   */
  async getValidJwt(): Promise<string> {
    const jwt = this.#readJwt();
    if (jwt) return jwt.token;
    // Concurrent callers share one renewal.
    this.#renewal ??= this.#renew().finally(() => {
      this.#renewal = null;
    });
    return (await this.#renewal).token;
  }

  async #renew(): Promise<Jwt> {
    const account = this.#account;
    if (account === null) throw new HubError(401, 'unauthorized', 'You are signed out.');
    const { namespace, token } = account;
    try {
      const { jwt } = await this.#exchange(token);
      // Meanwhile, the account may have got another token.
      if (this.accountToken !== token) return await this.#renew();
      this.#setJwt(namespace, jwt);
      return jwt;
    } catch (error) {
      if (error instanceof HubError && error.isFromHub && error.status === 401 && this.accountToken === token)
        this.signOut(signOutReason(error));
      throw error;
    }
  }

  #readJwt(): Jwt | null {
    const { tabStorage, now } = this.#environment;
    return this.isSignedIn ? readValidJwt(tabStorage, this.#namespace ?? '', now()) : null;
  }

  #setJwt(namespace: string, jwt: Jwt | null): void {
    if (jwt === null) this.#environment.tabStorage.removeItem(JWT_PREFIX + namespace);
    else this.#environment.tabStorage.setItem(JWT_PREFIX + namespace, JSON.stringify(jwt));
  }

  #clearTab(isCleared: (key: string) => boolean): void {
    const { tabStorage } = this.#environment;
    const keys = Array.from({ length: tabStorage.length }, (_, index) => tabStorage.key(index) ?? '');
    for (const key of keys.filter(isCleared)) tabStorage.removeItem(key);
  }

  async #exchange(accessToken: string): Promise<CheckedToken> {
    const requestedAt = this.#environment.now();
    const { token, namespace } = (await this.#post('/api/auth', authRequest(accessToken))) as { token: string; namespace: string };
    return { accessToken, namespace, jwt: { token, expiresAt: requestedAt + lifetimeMs(token) } };
  }

  async #post(path: string, request: RequestInit): Promise<unknown> {
    const response = await this.#environment.fetch(path, request).catch(() => {
      throw unreachableError();
    });
    const answer: unknown = await response.json().catch(() => null);
    if (!response.ok) throw responseError(response.status, answer, response.headers.get(REQUEST_ID_HEADER));
    if (answer === null) throw unreachableError();
    return answer;
  }
}

/** Why the hub's refusal of an account's token signs out, for the user. */
const signOutReason = ({ code }: HubError): string =>
  code === 'device_revoked'
    ? 'This device was signed out on another device. Sign in with a new code.'
    : 'The access token is no longer valid.';

/**
 * Returns a JWT's lifetime from its own claims, because the hub's clock may differ from the browser's. An invalid JWT gives 0.
 */
function lifetimeMs(token: string): number {
  try {
    const { iat, exp } = JSON.parse(atob((token.split('.')[1] ?? '').replaceAll('-', '+').replaceAll('_', '/'))) as Record<string, number>;
    return ((exp ?? 0) - (iat ?? 0)) * 1000;
  } catch {
    return 0;
  }
}
