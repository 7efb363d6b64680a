/** Shortens paths for display. */

/** Replaces the home directory in a path by `~`. Without `homeDir` it is guessed from the path. */
export function shortenPath(path: string, homeDir?: string): string {
  const home = homeDir ?? /^(\/home\/[^/]+|\/Users\/[^/]+|\/root)(?=\/|$)/.exec(path)?.[0];
  return home && (path === home || path.startsWith(`${home}/`)) ? `~${path.slice(home.length)}` : path;
}

/** Returns a path relative to a directory if it is inside it; any other path as `shortenPath` does. */
export function relativePath(path: string, directory: string | undefined): string {
  const base = directory?.replace(/[\\/]+$/, '');
  const isInside = base && path.startsWith(base) && /^[\\/]./.test(path.slice(base.length));
  return isInside ? path.slice(base.length + 1) : shortenPath(path);
}
