/** REST calls to the hub, typed by its OpenAPI description. */

import createClient from 'openapi-fetch';
import type { paths } from '../../types/schema.d.ts';
import type { Auth } from './auth.ts';
import { responseError } from './errors.ts';
import { fetchBuffered } from './fetch-buffered.ts';

export type Api = ReturnType<typeof createApi>;

/**
 * Creates a client that authenticates with the JWT of `auth`. A request answered with 401 is repeated once with a new JWT. A device
 * that was revoked is signed out.
 */
export function createApi(auth: Auth) {
  const fetchAuthorized: typeof fetch = async (input, init) => {
    const request = new Request(input, init);
    const send = async () => {
      const authorizedRequest = request.clone();
      authorizedRequest.headers.set('authorization', `Bearer ${await auth.getValidJwt()}`);
      return fetchBuffered(authorizedRequest);
    };
    const response = await send();
    if (response.status !== 401) return response;
    auth.invalidateJwt();
    const repeated = await send();
    if (repeated.status === 401)
      auth.handleRefusal(
        responseError(
          401,
          await repeated
            .clone()
            .json()
            .catch(() => null),
        ),
      );
    return repeated;
  };
  return createClient<paths>({ baseUrl: location.origin, fetch: fetchAuthorized });
}

/**
 * Returns the data of a successful response.
 * @throws {HubError} for an error response
 */
export async function unwrap<T>(call: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  const { data, error, response } = await call;
  if (!response.ok || data === undefined) throw responseError(response.status, error);
  return data;
}
