/** What a tab stores about its account, so that a reload neither chooses an account again nor requests a JWT. */

import { readJson } from './read-json.ts';

/** The prefix of the keys of JWTs in the tab's storage. The namespace follows. */
export const JWT_PREFIX = 'jwt ';
/** The key of the namespace of the tab's account, in the tab's storage. */
export const NAMESPACE_KEY = 'namespace';

/** A JWT that expires within this time is renewed before it is used. */
const RENEW_MARGIN_MS = 60_000;

/** A token of 15 minutes, for which the access token is exchanged. */
export interface Jwt {
  token: string;
  /** Unix milliseconds, in this browser's clock. */
  expiresAt: number;
}

/** Returns the stored JWT of a namespace, or null if there is none, or the JWT expires soon. `now`: Unix milliseconds. */
export function readValidJwt(tabStorage: Storage, namespace: string, now: number): Jwt | null {
  const jwt = readJson<Jwt>(tabStorage, JWT_PREFIX + namespace);
  return jwt && jwt.expiresAt - now > RENEW_MARGIN_MS ? jwt : null;
}

/** Returns the options of the request for a JWT (`POST /api/auth`). */
export const authRequest = (accessToken: string) => jsonRequest({ accessToken });

/** Returns the options of a request with a JSON body. */
export const jsonRequest = (body: object) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
});
