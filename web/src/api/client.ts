/** REST calls to the hub, typed by its OpenAPI description. */

import type { Client } from 'openapi-fetch';
import type { paths } from '../../types/schema.d.ts';
import type { Auth } from './auth.ts';
import { REQUEST_ID_HEADER, responseError, unreachableError } from './errors.ts';
import { fetchBuffered } from './fetch-buffered.ts';

export type Api = Pick<Client<paths>, 'GET' | 'POST' | 'PATCH' | 'DELETE'>;

type Call = (path: string, options?: CallOptions) => Promise<{ data?: unknown; error?: unknown; response: Response }>;

interface CallOptions extends Omit<RequestInit, 'body'> {
  params?: { path?: Record<string, unknown>; query?: Record<string, unknown> };
  /** Sent as JSON. */
  body?: unknown;
}

/**
 * Creates a client that authenticates with the JWT of `auth`. A request answered with 401 is repeated once with a new JWT. A device
 * that was revoked is signed out before the error is returned. `takeEarlyResponse` returns the response to a GET request that the page
 * sent before this code had arrived. The interface is that of `openapi-fetch`, whose code is larger because it covers all of OpenAPI.
 */
export function createApi(auth: Auth, takeEarlyResponse: (path: string) => Promise<Response> | undefined = () => undefined): Api {
  const send = async (path: string, init: RequestInit) => {
    const early = init.method === 'GET' ? takeEarlyResponse(path) : undefined;
    if (early) return { response: await early.catch(throwUnreachable), accountToken: null };
    const headers = new Headers(init.headers);
    headers.set('authorization', `Bearer ${await auth.getValidJwt()}`);
    const { accountToken } = auth;
    return { response: await fetchBuffered(`.${path}`, { ...init, headers }), accountToken };
  };
  const createCall =
    (method: string): Call =>
    async (path, { params, body, ...options } = {}) => {
      const url = fillPath(path, params?.path) + toSearch(params?.query);
      const init = { ...options, method, ...(body === undefined ? {} : jsonBody(body)) };
      let { response, accountToken } = await send(url, init);
      if (response.status === 401) {
        auth.invalidateJwt();
        ({ response, accountToken } = await send(url, init));
      }
      const text = await response.text();
      const answer = text ? parseJson(text) : undefined;
      // A network that requires a sign-in answers each request with its own page.
      if (response.ok && typeof answer === 'string') throwUnreachable();
      if (response.ok) return { data: answer, response };
      if (response.status === 401) auth.handleRefusal(responseError(401, answer), accountToken);
      return { error: answer, response };
    };
  const [GET, POST, PATCH, DELETE] = ['GET', 'POST', 'PATCH', 'DELETE'].map(createCall);
  return { GET, POST, PATCH, DELETE } as unknown as Api;
}

function throwUnreachable(): never {
  throw unreachableError();
}

const jsonBody = (body: unknown) => ({ headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });

const fillPath = (path: string, values: Record<string, unknown> = {}): string =>
  path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(values[name])));

function toSearch(values: Record<string, unknown> = {}): string {
  const defined = Object.entries(values).filter(([, value]) => value !== undefined);
  return defined.map(([name, value], index) => `${index === 0 ? '?' : '&'}${name}=${encodeURIComponent(String(value))}`).join('');
}

/** Returns the text itself if the text is no JSON: a proxy may have written the error. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/**
 * Returns the data of a successful response.
 * @throws {HubError} for an error response
 */
export async function unwrap<T>(call: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  const { data, error, response } = await call;
  if (!response.ok || data === undefined) throw responseError(response.status, error, response.headers.get(REQUEST_ID_HEADER));
  return data;
}
