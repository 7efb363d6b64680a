/**
 * The early requests: the first requests of the page. Also opens the browser's database. `vite.config.ts` puts this module into a small
 * script of its own, so that the browser sends the requests while it loads the rest of the code.
 */

import { tokenFromFragment } from '../api/access-token.ts';
import type { Account } from '../api/accounts.ts';
import { firstRequests, sessionIdIn } from '../api/first-requests.ts';
import { authRequest, NAMESPACE_KEY, readValidJwt } from '../api/tab-account.ts';
import { pagePath } from '../content/hub-address.ts';
import { ACCOUNT_PARAMETER, accounts } from './account.ts';
import './database-connection.ts';

/** The time limit of a sign-in. The hub answers at once, and the event channel cannot connect before the answer, so the limit is short. */
export const SIGN_IN_TIMEOUT_MS = 15_000;
/** The time limit of the requests for data. */
const DATA_TIMEOUT_MS = 75_000;

/** The network counts as slow if the page or the JWT takes longer to arrive. */
const SLOW_RESPONSE_MS = 100;

/** The responses to the early requests, until the code that needs them takes them. */
const earlyResponses = new Map<string, Promise<Response>>();

const keyOf = (path: string, account: unknown) => `${path} ${account}`;

/**
 * Returns the response to an early request, once; undefined if no such request was sent.
 * @param account the namespace of the account; for the request for a JWT, the body, which contains the account's token
 */
export function takeEarlyResponse(path: string, account: unknown): Promise<Response> | undefined {
  const key = keyOf(path, account);
  const response = earlyResponses.get(key);
  earlyResponses.delete(key);
  return response;
}

/** Whether {@link takeEarlyResponse} would return a response. */
export const hasEarlyResponse = (path: string, account: unknown): boolean => earlyResponses.has(keyOf(path, account));

let jwtResponseMs = 0;

/** Whether the hub took long to send the page or the JWT. */
export function isNetworkSlow(): boolean {
  const [page] = performance.getEntriesByType('navigation') as PerformanceNavigationTiming[];
  return Math.max(jwtResponseMs, page ? page.responseStart - page.requestStart : 0) > SLOW_RESPONSE_MS;
}

function sendEarlyRequest(path: string, account: string, timeoutMs: number, init: RequestInit): Promise<Response> {
  const response = fetch(`.${path}`, { ...init, signal: AbortSignal.timeout(timeoutMs) }).then(
    async (answer) => new Response(await answer.blob(), answer),
  );
  // The caller of `takeEarlyResponse` handles the failure.
  response.catch(() => {});
  earlyResponses.set(keyOf(path, account), response);
  return response;
}

/** Returns the account whose JWT the page needs. Null if the tab has a JWT, or the page signs in with a link. */
function accountWithoutJwt(): Account | null {
  if (tokenFromFragment(location.hash) !== null) return null;
  const requested = new URLSearchParams(location.search).get(ACCOUNT_PARAMETER);
  const isKnown = requested !== null && accounts.get(requested) !== null;
  const account = accounts.choose(isKnown ? requested : sessionStorage.getItem(NAMESPACE_KEY));
  return account && readValidJwt(sessionStorage, account.namespace, Date.now()) ? null : account;
}

/** Requests the JWT, and then the data of the first screen. */
async function sendEarlyRequests(): Promise<void> {
  const account = accountWithoutJwt();
  if (account === null) return;
  const request = authRequest(account.token);
  const startedAt = performance.now();
  const response = await sendEarlyRequest('/api/auth', request.body, SIGN_IN_TIMEOUT_MS, request);
  jwtResponseMs = performance.now() - startedAt;
  // The rest of the code has arrived and taken the response. It requests the data itself.
  if (!hasEarlyResponse('/api/auth', request.body)) return;
  // On a fast network, `Sync` requests the data when the event stream has started. With a service worker, the browser has stored the code
  // and the last data of the page.
  if (!response.ok || !isNetworkSlow() || navigator.serviceWorker?.controller) return;
  const { token } = (await response.clone().json()) as { token: string };
  const init = { headers: { authorization: `Bearer ${token}` } };
  for (const path of firstRequests(pagePath())) void sendEarlyRequest(path, account.namespace, DATA_TIMEOUT_MS, init);
  // Browsers take tens of milliseconds to load the data of a locale, which the times of messages need. Here, the processor is idle until the code arrives.
  if (sessionIdIn(pagePath()) !== undefined) new Intl.DateTimeFormat(undefined, { hour: '2-digit' });
}

void sendEarlyRequests().catch(() => {});
