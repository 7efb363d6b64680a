/** Shortens paths for display. */

/** Replaces the home directory in a path by `~`. Without `homeDir`, guesses the home directory from the path. */
export function shortenPath(path: string, homeDir?: string): string {
  const home = homeDir ?? /^(\/home\/[^/]+|\/Users\/[^/]+|\/root)(?=\/|$)/.exec(path)?.[0];
  return home && (path === home || path.startsWith(`${home}/`)) ? `~${path.slice(home.length)}` : path;
}

/** The directories of a session. */
export interface SessionDirectories {
  path?: string | undefined;
  homeDir?: string | undefined;
}

/**
 * Returns a path for display. A path inside the session's directory becomes relative to the directory. In any other path, `~`
 * replaces the session's home directory. An unknown home directory is not guessed: the guess could be another user's directory.
 */
export function displayPath(path: string, session: SessionDirectories | null | undefined): string {
  const base = session?.path?.replace(/[\\/]+$/, '');
  const isInside = base && path.startsWith(base) && /^[\\/]./.test(path.slice(base.length));
  if (isInside) return path.slice(base.length + 1);
  return session?.homeDir ? shortenPath(path, session.homeDir) : path;
}
