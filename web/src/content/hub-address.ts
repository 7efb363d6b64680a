/** The address of the hub, which a proxy may serve under a prefix. Relative URLs start from this address: `./api/sessions`. */

/** Returns the address without a trailing slash, such as `https://hub.example.com` or `https://example.com/hub`. */
export const hubAddress = (): string => document.baseURI.slice(0, -1);

/** Returns the prefix, such as `/hub`; empty without a prefix. */
export const pathPrefix = (): string => new URL(document.baseURI).pathname.slice(0, -1);

/** Returns a path of the console without the prefix, such as `/sessions/abc`. */
export const pagePath = (pathname = location.pathname): string => pathname.slice(pathPrefix().length) || '/';
