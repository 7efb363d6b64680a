/** Authentication: stores the access token in this browser and exchanges it for short-lived JWTs (`POST /api/auth`). */

import { HubError, responseError, unreachableError } from './errors.ts';
import { randomId } from './ids.ts';

/** A JWT that expires within this time is renewed before it is used. */
const RENEW_MARGIN_MS = 60_000;

const ACCESS_TOKEN_KEY = 'access-token';
/** The namespace of a stored token of a device. */
const NAMESPACE_KEY = 'access-namespace';
const DEVICE_KEY = 'device';
const JWT_KEY = 'jwt';
/** The namespace that the data in the tab's storage belongs to. */
const OWNER_KEY = 'namespace';

/** The prefix of the tokens of devices, which do not name their namespace. */
const DEVICE_TOKEN_PREFIX = 'sgd_';

/** The signed-in account. */
export interface Identity {
  namespace: string;
}

interface Jwt {
  token: string;
  /** Unix milliseconds, in this browser's clock. */
  expiresAt: number;
}

type KeyValueStorage = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>;

/** The browser features that {@link Auth} uses; tests replace them. */
export interface AuthEnvironment {
  /** Holds the access token and the device id, shared by all tabs. */
  storage: KeyValueStorage;
  /** Holds the JWT, so that a reload needs no new one. */
  tabStorage: KeyValueStorage & Pick<Storage, 'clear'>;
  fetch: (input: string, init: RequestInit) => Promise<Response>;
  now: () => number;
  /** Called after a sign-out. `reason` is null if the user asked for it. */
  onSignedOut: (reason: string | null) => void;
}

export class Auth {
  #environment: AuthEnvironment;
  #renewal: Promise<Jwt> | null = null;

  constructor(environment: AuthEnvironment) {
    this.#environment = environment;
  }

  get #jwt(): Jwt | null {
    const stored = this.#environment.tabStorage.getItem(JWT_KEY);
    return stored === null ? null : (JSON.parse(stored) as Jwt);
  }

  set #jwt(jwt: Jwt | null) {
    if (jwt === null) this.#environment.tabStorage.removeItem(JWT_KEY);
    else this.#environment.tabStorage.setItem(JWT_KEY, JSON.stringify(jwt));
  }

  get accessToken(): string | null {
    return this.#environment.storage.getItem(ACCESS_TOKEN_KEY);
  }

  /** Whether the stored token is of this browser alone, and not an access token of the namespace. */
  get isDevice(): boolean {
    return this.accessToken?.startsWith(DEVICE_TOKEN_PREFIX) ?? false;
  }

  /** The namespace of the stored access token. */
  get namespace(): string | null {
    const { accessToken } = this;
    if (accessToken === null) return null;
    return this.isDevice ? this.#environment.storage.getItem(NAMESPACE_KEY) : namespaceOf(accessToken);
  }

  /**
   * Returns the account of the stored access token, or null without one. Clears the tab's storage if it belongs to another
   * namespace.
   */
  resume(): Identity | null {
    const { tabStorage } = this.#environment;
    const { namespace } = this;
    if (tabStorage.getItem(OWNER_KEY) !== namespace) tabStorage.clear();
    if (namespace === null) return null;
    tabStorage.setItem(OWNER_KEY, namespace);
    return { namespace };
  }

  /**
   * Exchanges an access token for a JWT and stores both. If the tab belongs to another namespace, stores only the access
   * token; the caller must then reload the page and call {@link resume}.
   * @throws {HubError} if the hub rejects the token or cannot be reached
   */
  async signIn(accessToken: string): Promise<Identity> {
    const { jwt, namespace } = await this.#exchange(accessToken);
    const { tabStorage } = this.#environment;
    this.#store(accessToken, namespace);
    if (tabStorage.getItem(OWNER_KEY) === null) tabStorage.setItem(OWNER_KEY, namespace);
    this.#jwt = tabStorage.getItem(OWNER_KEY) === namespace ? jwt : null;
    return { namespace };
  }

  /**
   * Redeems a code: adds this browser to the devices of the namespace, and stores its token.
   * @throws {HubError} if the hub rejects the code or cannot be reached
   */
  async redeemCode(code: string, device: { name: string; kind: string }): Promise<Identity> {
    const { token, namespace } = (await this.#post('/api/devices', { code, ...device })) as { token: string; namespace: string };
    this.#store(token, namespace);
    const { tabStorage } = this.#environment;
    if (tabStorage.getItem(OWNER_KEY) === null) tabStorage.setItem(OWNER_KEY, namespace);
    return { namespace };
  }

  /** Stores the namespace first: the other tabs compare it with theirs when the token changes. */
  #store(accessToken: string, namespace: string): void {
    const { storage } = this.#environment;
    storage.setItem(NAMESPACE_KEY, namespace);
    storage.setItem(ACCESS_TOKEN_KEY, accessToken);
  }

  /** Returns the random id of this browser at the hub. Creates the id if there is none. All tabs share it until the sign-out. */
  ensureDeviceId(): string {
    const { storage } = this.#environment;
    const id = storage.getItem(DEVICE_KEY) ?? randomId();
    storage.setItem(DEVICE_KEY, id);
    return id;
  }

  /** Deletes the tokens and the device id. `reason` is shown to the user; null if the user signed out. */
  signOut(reason: string | null = null): void {
    for (const key of [ACCESS_TOKEN_KEY, NAMESPACE_KEY, DEVICE_KEY]) this.#environment.storage.removeItem(key);
    this.#environment.tabStorage.clear();
    this.#environment.onSignedOut(reason);
  }

  /** Signs out if the hub refused a request because the device of this browser was revoked. */
  handleRefusal({ code }: HubError): void {
    if (code === 'device_revoked') this.signOut('This device was signed out on another device. Sign in with a new code.');
  }

  /** Deletes the current JWT, so that the next {@link getValidJwt} call requests a new one. */
  invalidateJwt(): void {
    this.#jwt = null;
  }

  /**
   * Returns a JWT that stays valid for at least a minute.
   * @throws {HubError} if the hub cannot be reached, or rejects the access token, which also signs out
   */
  async getValidJwt(): Promise<string> {
    const jwt = this.#jwt;
    if (jwt && jwt.expiresAt - this.#environment.now() > RENEW_MARGIN_MS) return jwt.token;
    // Concurrent callers share one renewal.
    this.#renewal ??= this.#renew().finally(() => {
      this.#renewal = null;
    });
    return (await this.#renewal).token;
  }

  async #renew(): Promise<Jwt> {
    const accessToken = this.accessToken;
    if (accessToken === null) throw new HubError(401, 'unauthorized', 'You are signed out.');
    // Until its reload, the page sends requests for the previous namespace. They must not get a JWT of the new namespace.
    const owner = this.#environment.tabStorage.getItem(OWNER_KEY);
    if (owner !== null && owner !== this.namespace)
      throw new HubError(401, 'unauthorized', 'Another namespace was signed in. Reload the page.');
    try {
      const { jwt } = await this.#exchange(accessToken);
      this.#jwt = jwt;
      return jwt;
    } catch (error) {
      if (error instanceof HubError && error.status === 401) {
        this.handleRefusal(error);
        if (this.accessToken !== null) this.signOut('The access token is no longer valid.');
      }
      throw error;
    }
  }

  async #exchange(accessToken: string): Promise<{ jwt: Jwt; namespace: string }> {
    const requestedAt = this.#environment.now();
    const { token, namespace } = (await this.#post('/api/auth', { accessToken })) as { token: string; namespace: string };
    return { jwt: { token, expiresAt: requestedAt + lifetimeMs(token) }, namespace };
  }

  async #post(path: string, body: object): Promise<unknown> {
    const response = await this.#environment
      .fetch(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
      .catch(() => {
        throw unreachableError();
      });
    const answer: unknown = await response.json().catch(() => null);
    if (!response.ok) throw responseError(response.status, answer);
    return answer;
  }
}

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

/**
 * Returns the access token of a sign-in link such as `https://hub.example.com/#token=…`, or null.
 * @param hash the URL fragment, with `#`
 */
export function tokenFromFragment(hash: string): string | null {
  return new URLSearchParams(hash.replace(/^#/, '')).get('token') || null;
}

/** Returns the namespace that an access token names. It does not check the token. */
export function namespaceOf(accessToken: string): string {
  return /:([^:]*)$/.exec(accessToken)?.[1] || 'default';
}

/** Checks the syntax of a namespace. */
export function isValidNamespace(name: string): boolean {
  return /^[\w.-]{1,64}$/.test(name);
}
