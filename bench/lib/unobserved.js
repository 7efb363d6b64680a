/** Replaces `src/platform/requests.js` in the build without observation (`HUB_BUILD=unobserved`): counts and logs nothing. */

import { now } from '../../src/platform/timing.js';

export const objects = { loaded: 0, evicted: 0 };
export const begin = (request) => ({ request, method: request.method, url: request.url, headers: request.headers, startedAt: now() });
export const end = (_incoming, response) => response;
export const isolateMetrics = () => '';
export const configureRoutes = () => {};
export const reportObjects = () => {};
