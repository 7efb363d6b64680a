/** Signing in: the access token that is kept in this browser, and the JWT that it is traded for. */

import { HubError, refusal, unreachable } from './errors.ts';

/** A JWT with this much life left, in milliseconds, is renewed before it is used. */
const RENEW_BEFORE_MS = 60_000;

const KEY = 'access-token';
const JWT_KEY = 'jwt';
/** Whose the things are that the tab keeps. */
const OWNER_KEY = 'namespace';

/** Who is signed in. */
export interface Identity {
  namespace: string;
}

interface Jwt {
  token: string;
  /** Unix milliseconds, by this browser's clock. */
  expiresAt: number;
}

type Shelf = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>;

/** What {@link Auth} needs of a browser. */
export interface AuthEnvironment {
  /** Where the access token is kept. */
  storage: Shelf;
  /** What lasts as long as the tab: the JWT, so that a reload needs no new one, and whatever else is its person's. */
  tab: Shelf & Pick<Storage, 'clear'>;
  fetch: (input: string, init: RequestInit) => Promise<Response>;
  now: () => number;
  /** The access token is no longer good, or the person signed out. */
  onSignedOut: (why: string | null) => void;
}

/** Keeps the access token and trades it for JWTs as they are needed. */
export class Auth {
  #environment: AuthEnvironment;
  #renewing: Promise<Jwt> | null = null;

  constructor(environment: AuthEnvironment) {
    this.#environment = environment;
  }

  get #jwt(): Jwt | null {
    const kept = this.#environment.tab.getItem(JWT_KEY);
    return kept === null ? null : (JSON.parse(kept) as Jwt);
  }

  set #jwt(jwt: Jwt | null) {
    if (jwt === null) this.#environment.tab.removeItem(JWT_KEY);
    else this.#environment.tab.setItem(JWT_KEY, JSON.stringify(jwt));
  }

  /** The access token of this browser, or null. */
  get accessToken(): string | null {
    return this.#environment.storage.getItem(KEY);
  }

  /** The namespace of the access token of this browser, or null. */
  get namespace(): string | null {
    return this.accessToken === null ? null : namespaceOf(this.accessToken);
  }

  /** Begins with the access token of this browser, if there is one. What somebody else has left in the tab goes. */
  resume(): Identity | null {
    const { tab } = this.#environment;
    const { namespace } = this;
    if (tab.getItem(OWNER_KEY) !== namespace) tab.clear();
    if (namespace === null) return null;
    tab.setItem(OWNER_KEY, namespace);
    return { namespace };
  }

  /**
   * Tries an access token and keeps it when it is good. In a tab of somebody else {@link resume} has to follow.
   * @throws {HubError} the hub's refusal
   */
  async signIn(accessToken: string): Promise<Identity> {
    const { jwt, namespace } = await this.#trade(accessToken);
    const { storage, tab } = this.#environment;
    storage.setItem(KEY, accessToken);
    if (tab.getItem(OWNER_KEY) === null) tab.setItem(OWNER_KEY, namespace);
    this.#jwt = tab.getItem(OWNER_KEY) === namespace ? jwt : null;
    return { namespace };
  }

  /** Forgets everything. `why` is told to the person; null when they asked for it. */
  signOut(why: string | null = null): void {
    this.#environment.storage.removeItem(KEY);
    this.#environment.tab.clear();
    this.#environment.onSignedOut(why);
  }

  /** The present JWT is not good any more: the next {@link token} gets a new one. */
  forgetJwt(): void {
    this.#jwt = null;
  }

  /**
   * A JWT that is good for a while.
   * @throws {HubError} when the hub cannot be reached, or refuses the access token, which signs out
   */
  async token(): Promise<string> {
    const jwt = this.#jwt;
    if (jwt && jwt.expiresAt - this.#environment.now() > RENEW_BEFORE_MS) return jwt.token;
    // Requests that start together wait for one renewal.
    this.#renewing ??= this.#renew().finally(() => {
      this.#renewing = null;
    });
    return (await this.#renewing).token;
  }

  async #renew(): Promise<Jwt> {
    const accessToken = this.accessToken;
    if (accessToken === null) throw new HubError(401, 'unauthorized', 'You are signed out.');
    try {
      const { jwt } = await this.#trade(accessToken);
      this.#jwt = jwt;
      return jwt;
    } catch (error) {
      if (error instanceof HubError && error.status === 401) this.signOut('The access token is no longer valid.');
      throw error;
    }
  }

  async #trade(accessToken: string): Promise<{ jwt: Jwt; namespace: string }> {
    const { fetch, now } = this.#environment;
    const asked = now();
    const response = await fetch('/api/auth', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ accessToken }),
    }).catch(() => {
      throw unreachable();
    });
    const body: unknown = await response.json().catch(() => null);
    if (!response.ok) throw refusal(response.status, body);
    const { token, namespace } = body as { token: string; namespace: string };
    return { jwt: { token, expiresAt: asked + lifetimeOf(token) }, namespace };
  }
}

/**
 * How long a JWT lives, in milliseconds, by its own claims: the hub's clock may differ from this one.
 * @returns 0 for what is no JWT
 */
function lifetimeOf(token: string): number {
  try {
    const { iat, exp } = JSON.parse(atob((token.split('.')[1] ?? '').replaceAll('-', '+').replaceAll('_', '/'))) as Record<string, number>;
    return ((exp ?? 0) - (iat ?? 0)) * 1000;
  } catch {
    return 0;
  }
}

/**
 * Takes an access token out of an address such as `https://hub.example.com/#token=…`.
 * @param hash the fragment with its `#`
 */
export function tokenOfFragment(hash: string): string | null {
  return new URLSearchParams(hash.replace(/^#/, '')).get('token') || null;
}

/** The namespace that an access token says it is of. Whether it opens it, only the hub knows. */
export function namespaceOf(accessToken: string): string {
  return /:([^:]*)$/.exec(accessToken)?.[1] || 'default';
}

/** Whether a name can be one of a namespace (docs/PROTOCOL.md, "Authentication"). */
export function isNamespace(name: string): boolean {
  return /^[\w.-]{1,64}$/.test(name);
}
