/** The requests for the data of the first screen. */

/** Messages for about two screens. */
export const PAGE_SIZE = 60;
/** The hub's limit on the items of a page of the inbox. */
export const INBOX_PAGE_SIZE = 200;

/** Returns the id of the session in the path of a page; undefined if the page shows no session. */
export const sessionIdIn = (path: string): string | undefined => /^\/sessions\/([^/]+)/.exec(path)?.[1];

/** Returns the paths of the requests that `Sync` sends first on a page. */
export function firstRequests(page: string): string[] {
  const id = sessionIdIn(page);
  if (id === undefined) return ['/api/sessions', `/api/inbox?limit=${INBOX_PAGE_SIZE}`];
  return [`/api/sessions/${id}`, `/api/sessions/${id}/messages?limit=${PAGE_SIZE}&excerpts=true`, '/api/config'];
}
