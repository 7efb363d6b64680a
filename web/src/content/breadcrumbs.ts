/** The path of a directory as links to the directories above it. */

import { shortenPath } from './paths.ts';

export interface Breadcrumb {
  label: string;
  path: string;
}

/** Returns a directory and the directories above it, from the outermost of the served directories that contains it. */
export function breadcrumbsOf(path: string, roots: readonly string[], homeDir?: string): Breadcrumb[] {
  const separator = path.startsWith('/') ? '/' : '\\';
  const withSeparator = (directory: string) => (directory.endsWith(separator) ? directory : directory + separator);
  const isInside = (root: string) => path === root || path.startsWith(withSeparator(root));
  const root = roots.filter(isInside).sort((a, b) => a.length - b.length)[0] ?? path;
  const names = path.slice(withSeparator(root).length).split(separator).filter(Boolean);
  const crumbs = [{ label: shortenPath(root, homeDir), path: root }];
  for (const name of names) crumbs.push({ label: name, path: withSeparator(crumbs.at(-1)?.path ?? root) + name });
  return crumbs;
}
