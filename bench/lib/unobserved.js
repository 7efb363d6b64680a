/** Replaces `src/platform/requests.js` in the build without observation (`HUB_BUILD=unobserved`): counts and logs nothing. */

export const objects = { loaded: 0, evicted: 0 };
export const begin = () => undefined;
export const end = (_observed, response) => response;
export const isolateMetrics = () => '';
export const configureRoutes = () => {};
export const noteNamespace = () => {};
export const reportObjects = () => {};
