/** REST calls to the hub, typed by its OpenAPI description. */

import createClient from 'openapi-fetch';
import type { Auth } from './auth.ts';
import { refusal } from './errors.ts';
import { fetchWhole } from './fetch.ts';
import type { paths } from '../../types/schema';

/** A typed client that shows the signed-in person's JWT. */
export type Api = ReturnType<typeof createApi>;

/** Makes the client. A 401 gets one more try with a new JWT. */
export function createApi(auth: Auth) {
  const authorized: typeof fetch = async (input, init) => {
    const request = new Request(input, init);
    const send = async () => {
      const attempt = request.clone();
      attempt.headers.set('authorization', `Bearer ${await auth.token()}`);
      return fetchWhole(attempt);
    };
    const response = await send();
    if (response.status !== 401) return response;
    auth.forgetJwt();
    return send();
  };
  return { ...createClient<paths>({ baseUrl: location.origin, fetch: authorized }), fetch: authorized };
}

/**
 * The data of an answer.
 * @throws {HubError} the hub's refusal
 */
export async function data<T>(call: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  const { data: found, error, response } = await call;
  if (!response.ok || found === undefined) throw refusal(response.status, error);
  return found;
}
